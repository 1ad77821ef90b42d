"""The official Python client of Kubernetes on the embedded API server: typed, custom and dynamic objects."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import kubernetes
import pytest
import yaml
from kubernetes.client import ApiClient, ApiException, CoreV1Api

from moorage.cluster.apiserver.server import ApiServer
from tests.support.api import NODES, budget, definition, deployment, node, pod

QUOTAS: Final = ("example.org", "v1", "default", "quotas")
Story = Callable[[ApiClient], None]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Story], None]:
    """Run a scenario with a client of a new server; the client blocks, so it has a separate thread."""

    async def served(story: Story) -> None:
        async with ApiServer() as server:
            config = tmp_path / "kubeconfig"
            config.write_text(yaml.safe_dump(server.kubeconfig()))
            await asyncio.to_thread(_told, story, config)

    return lambda story: asyncio.run(served(story))


def _told(story: Story, config: Path) -> None:
    with kubernetes.config.new_client_from_config(str(config)) as client:
        story(client)


@contextmanager
def refused(status: int, reason: str) -> Iterator[None]:
    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == status
    assert f'"reason":"{reason}"' in caught.value.body.replace(" ", "")


def bound(core: CoreV1Api, name: str = "web") -> None:
    """Bind a pod as a scheduler does."""
    target = kubernetes.client.V1ObjectReference(kind="Node", name="n1", api_version="v1")
    metadata = kubernetes.client.V1ObjectMeta(name=name)
    binding = kubernetes.client.V1Binding(metadata=metadata, target=target)
    # The response is a Status, which the client would decode as a Binding.
    core.create_namespaced_pod_binding(name, "default", binding, _preload_content=False)


def test_pods_are_created_listed_patched_replaced_and_deleted(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        core = CoreV1Api(client)
        core.create_namespaced_pod("default", pod("web"))
        with refused(409, "AlreadyExists"):
            core.create_namespaced_pod("default", pod("web"))
        (items,) = core.list_namespaced_pod("default", label_selector="!tier", field_selector="spec.nodeName=").items
        assert (items.spec.priority, items.status.phase) == (0, "Pending")
        core.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"tier": "front"}}})
        obj = core.read_namespaced_pod("web", "default")
        assert obj.metadata.labels["tier"] == "front"
        obj.metadata.annotations = {"a": "b"}
        assert core.replace_namespaced_pod("web", "default", obj).metadata.annotations == {"a": "b"}
        with refused(409, "Conflict"):
            core.replace_namespaced_pod("web", "default", obj)
        core.delete_namespaced_pod("web", "default")
        with refused(404, "NotFound"):
            core.read_namespaced_pod("web", "default")

    play(story)


def test_watch_reports_events_and_can_be_resumed(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        core = CoreV1Api(client)
        core.create_namespaced_pod("default", pod("web"))
        version = core.list_namespaced_pod("default").metadata.resource_version
        core.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"tier": "front"}}})
        core.delete_namespaced_pod("web", "default")
        report = watched(core.list_namespaced_pod, "default", resource_version=version)
        assert report == [("MODIFIED", "web"), ("DELETED", "web")]
        core.create_namespaced_pod("default", pod("next"))
        assert watched(core.list_namespaced_pod, "default") == [("ADDED", "next")]

    play(story)


def watched(listing: Callable[..., Any], *where: str, **terms: Any) -> list[tuple[str, str]]:
    events = kubernetes.watch.Watch().stream(listing, *where, timeout_seconds=1, **terms)
    return [(event["type"], event["object"].metadata.name) for event in events]


def test_pod_is_bound_once(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        core = CoreV1Api(client)
        core.create_node(node())
        core.create_namespaced_pod("default", pod("web"))
        bound(core)
        assert core.read_namespaced_pod("web", "default").spec.node_name == "n1"
        with refused(409, "Conflict"):
            bound(core)

    play(story)


def test_budget_rejects_an_eviction(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        core, policy = CoreV1Api(client), kubernetes.client.PolicyV1Api(client)
        core.create_namespaced_pod("default", pod("web", labels={"app": "web"}))
        bound(core)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        core.patch_namespaced_pod_status("web", "default", {"status": ready})
        policy.create_namespaced_pod_disruption_budget("default", budget())
        counted = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
        name = budget()["metadata"]["name"]
        policy.patch_namespaced_pod_disruption_budget_status(name, "default", {"status": counted})
        eviction = kubernetes.client.V1Eviction(metadata=kubernetes.client.V1ObjectMeta(name="web"))
        with refused(429, "TooManyRequests"):
            core.create_namespaced_pod_eviction("web", "default", eviction)
        policy.patch_namespaced_pod_disruption_budget_status(
            name, "default", {"status": counted | {"disruptionsAllowed": 1}}
        )
        core.create_namespaced_pod_eviction("web", "default", eviction, _preload_content=False)
        assert core.read_namespaced_pod("web", "default").metadata.deletion_timestamp is not None

    play(story)


def test_custom_objects_are_created_and_listed(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        extensions, custom = kubernetes.client.ApiextensionsV1Api(client), kubernetes.client.CustomObjectsApi(client)
        extensions.create_custom_resource_definition(definition())
        quota = {"apiVersion": "example.org/v1", "kind": "Quota", "metadata": {"name": "q"}, "spec": {"most": 3}}
        custom.create_namespaced_custom_object(*QUOTAS, quota)
        custom.patch_namespaced_custom_object(*QUOTAS, "q", {"spec": {"most": 5}})
        assert custom.get_namespaced_custom_object(*QUOTAS, "q")["spec"]["most"] == 5
        (items,) = custom.list_namespaced_custom_object(*QUOTAS)["items"]
        assert items["metadata"]["name"] == "q"
        custom.delete_namespaced_custom_object(*QUOTAS, "q")
        assert custom.list_namespaced_custom_object(*QUOTAS)["items"] == []

    play(story)


def test_dynamic_client_uses_discovery(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        nodes = kubernetes.dynamic.DynamicClient(client).resources.get(api_version="v1", kind="Node")
        nodes.create(body=node())
        assert nodes.get(name="n1").metadata.name == "n1"
        assert nodes.path("n1") == f"{NODES}/n1"

    play(story)


def test_deployments_are_scaled(play: Callable[[Story], None]) -> None:
    def story(client: ApiClient) -> None:
        apps = kubernetes.client.AppsV1Api(client)
        apps.create_namespaced_deployment("default", deployment())
        apps.patch_namespaced_deployment_scale("shop", "default", {"spec": {"replicas": 4}})
        assert apps.read_namespaced_deployment("shop", "default").spec.replicas == 4

    play(story)
