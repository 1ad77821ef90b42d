"""A real HTTP extender with `moorage scheduler`."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from tests.live.cluster import SCHEDULED, LiveCluster, bound
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane
from tests.support.extender_service import ExtenderService

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]


def configuration(directory: Path, kubeconfig: Path, url: str, **extender: Any) -> Path:
    """Write a configuration with one extender."""
    path = directory / "extender.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "extenders": [{"urlPrefix": url, "weight": 100, **extender}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def keep(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a response with some feasible nodes."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return {
            "NodeNames": [name for name in request["NodeNames"] if name in names],
            "FailedNodes": {name: "the extender says no" for name in request["NodeNames"] if name not in names},
        }

    return answer


def rate(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"Host": name, "Score": 10 if name == "node-2" else 0} for name in request["NodeNames"]]


def test_extender_filters_and_scores(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("node-0", "node-1", "node-2")
        await cluster.add_pods("a", "b", "c")
        async with ExtenderService(filter=keep("node-1", "node-2"), rate=rate).running() as service:
            verbs = {"filterVerb": "filter", "prioritizeVerb": "rate", "nodeCacheCapable": True}
            config = configuration(plane.directory, plane.kubeconfig(), service.url, **verbs)
            with scheduler(plane.kubeconfig(), f"--config={config}"):
                await cluster.wait_for("all pods are bound", bound)
                assert {pod.node_name for pod in (await cluster.pods()).values()} == {"node-2"}
            assert service.requests[0][1]["Pod"]["metadata"]["namespace"] == "default"

    live(story)


def test_extender_message_reaches_users(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("node-0", "node-1")
        await cluster.add_pods("a")
        async with ExtenderService(filter=keep()).running() as service:
            verbs = {"filterVerb": "filter", "nodeCacheCapable": True}
            config = configuration(plane.directory, plane.kubeconfig(), service.url, **verbs)
            with scheduler(plane.kubeconfig(), f"--config={config}"):
                await cluster.wait_for("the pod is reported", lambda pods: pods["a"].condition(SCHEDULED) is not None)
        condition = (await cluster.pods())["a"].condition(SCHEDULED)
        assert condition is not None
        assert condition.message.startswith("0/2 nodes are available: 2 the extender says no.")

    live(story)


def test_extender_binds(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        async with ExtenderService(bind=lambda request: {"Error": "busy"}).running() as service:
            await cluster.add_nodes("node-0")
            await cluster.add_pods("a")
            config = configuration(plane.directory, plane.kubeconfig(), service.url, bindVerb="bind", ignorable=True)
            with scheduler(plane.kubeconfig(), f"--config={config}"):
                # This extender fails but is ignorable, so the scheduler binds.
                await cluster.wait_for("the pod is bound", bound)
            assert [verb for verb, _ in service.requests] == ["bind"]
            assert service.requests[0][1]["Node"] == "node-0"

    live(story)
