"""One invalid object does not affect others, even if a controller fails on it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.storage.store import Store
from moorage.cluster.controllers import manager
from moorage.cluster.controllers.actions import ControllerAction, Delete, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.cluster.in_process import InProcessClient
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod

Data = dict[str, Any]
DIGITS = "9" * 4301
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}


def stored(name: str, **content: Any) -> Data:
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, **content}


def workload(name: str, **spec: Any) -> Data:
    return stored(name, spec={"replicas": 1, "selector": SELECTOR, "template": TEMPLATE, **spec}, status={})


BAD: dict[str, tuple[str, Data]] = {
    "a budget with more digits than Python parses": (
        "poddisruptionbudgets.policy",
        stored("bad", spec={"minAvailable": f"{DIGITS}%", "selector": SELECTOR}),
    ),
    "a budget with an invalid percentage": (
        "poddisruptionbudgets.policy",
        stored("bad", spec={"maxUnavailable": "x%", "selector": SELECTOR}),
    ),
    "a budget with an unknown operator": (
        "poddisruptionbudgets.policy",
        stored("bad", spec={"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
    ),
    "a deployment with an invalid surge": (
        "deployments.apps",
        workload("bad", strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "x%"}}),
    ),
    "a deployment with an unlimited surge": (
        "deployments.apps",
        workload("bad", strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": f"{DIGITS}%"}}),
    ),
    "a deployment with an unknown operator": (
        "deployments.apps",
        workload("bad", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
    ),
    "a template of a wrong type": ("replicasets.apps", workload("bad", template={"metadata": 5, "spec": []})),
    "a job with a huge time limit": (
        "jobs.batch",
        stored("bad", spec={"activeDeadlineSeconds": 2**62, "template": TEMPLATE, "completions": 1}, status={}),
    ),
    "a cron job with an invalid schedule": ("cronjobs.batch", stored("bad", spec={"schedule": "x y"}, status={})),
    "a pod with an invalid transition time": (
        "pods",
        stored(
            "bad",
            spec={"nodeName": "node-1", "containers": []},
            status={
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}],
                "phase": "Running",
            },
        ),
    ),
}


class Picky:
    """Fails for one node, both when the node changes and when it is reconciled."""

    name = "picky"
    kinds = (Node,)
    pause = 0.0

    def __init__(self, *, fails_early: bool) -> None:
        self.seen: list[str] = []
        self._fails_early = fails_early

    def affected(self, obj: KubeObject, _view: InformerCache) -> Iterable[str]:
        if self._fails_early and obj.name == "node-1":
            raise RuntimeError("not that one")
        return (obj.key,)

    def reconcile(self, key: str, _view: InformerCache) -> Iterable[ControllerAction]:
        if key == "node-1":
            raise ZeroDivisionError("not that one")
        self.seen.append(key)
        return ()


def box_over(store: Store, clock: VirtualClock, *observers: Picky) -> EmbeddedCluster:
    api = Api(clock, store)
    return EmbeddedCluster(lambda: InProcessClient(api, clock), clock, ClusterOptions(nodes=2), observers)


@pytest.mark.parametrize("name", BAD)
def test_bad_persisted_object_does_not_affect_others(name: str) -> None:
    resource, bad = BAD[name]
    store, clock = Store(), VirtualClock()
    store.put(resource, "default/bad", bad)
    store.put(
        "replicasets.apps",
        "default/good",
        workload(
            "good", selector={"matchLabels": {"x": "y"}}, template={**TEMPLATE, "metadata": {"labels": {"x": "y"}}}
        ),
    )

    async def run() -> None:
        async with box_over(store, clock) as embedded:
            await asyncio.sleep(120)
            assert embedded.failure() is None
            pods = [pod for pod in embedded.cache[Pod] if pod.labels.get("x") == "y"]
            assert len(pods) == 1

    run_virtual(run(), clock)


@pytest.mark.parametrize("fails_early", [True, False])
def test_exception_of_a_controller_is_logged_counted_and_retried(
    fails_early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, picky = VirtualClock(), Picky(fails_early=fails_early)

    async def run() -> None:
        async with box_over(Store(), clock, picky) as embedded:
            await asyncio.sleep(100)
            assert embedded.failure() is None
            assert "node-2" in picky.seen
            assert embedded.manager.failures["picky"] >= (1 if fails_early else 5)

    monkeypatch.setattr(manager, "log", structlog.wrap_logger(None, wrapper_class=structlog.BoundLogger))
    with capture_logs() as logs:
        run_virtual(run(), clock)
    current = [entry for entry in logs if entry.get("controller") == "picky"]
    assert {entry["key"] for entry in current} == {"node-1"}
    assert current[0]["log_level"] == "error"


def test_pod_is_not_created_without_its_claims() -> None:
    """A quota rejects the claim of the second pod."""
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "10Gi"}}
    store, clock = Store(), VirtualClock()
    quota = stored("disk", spec={"hard": {"requests.storage": "15Gi"}}, status={})
    store.put("resourcequotas", "default/disk", quota)
    parallel = {"podManagementPolicy": "Parallel", "serviceName": "db", "volumeClaimTemplates": [claim]}
    store.put("statefulsets.apps", "default/db", workload("db", **{"replicas": 3, **parallel}))

    async def run() -> None:
        async with box_over(store, clock) as embedded:
            await asyncio.sleep(60)
            assert [pod.name for pod in embedded.cache[Pod]] == ["db-0"]

    run_virtual(run(), clock)


class Insistent(Picky):
    """Repeats a write that the server ignores: a patch of a field that does not exist, or a second deletion."""

    name = "insistent"

    def __init__(self, action: Callable[[Node], ControllerAction]) -> None:
        super().__init__(fails_early=False)
        self._action = action

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        node = cache[Node].get(key)
        if node is not None and node.metadata.finalizers:
            self.seen.append(key)
            yield self._action(node)


IGNORED: dict[str, Callable[[Node], ControllerAction]] = {
    "a patch of a field that does not exist": lambda node: Patch(node, {"status": {"colour": "red"}}, "status"),
    "the deletion of an object that waits for its finalizer": Delete,
}


@pytest.mark.parametrize("action", IGNORED.values(), ids=IGNORED)
def test_write_without_effect_is_not_repeated(action: Callable[[Node], ControllerAction]) -> None:
    clock, insistent = VirtualClock(), Insistent(action)

    async def run() -> None:
        async with box_over(Store(), clock, insistent) as embedded:
            node = await embedded.client.get(Node, "node-1")
            await embedded.client.patch(node, {"metadata": {"finalizers": ["example.org/wait"]}})
            await asyncio.sleep(60)
            count = len(insistent.seen)
            await asyncio.sleep(60)
            assert len(insistent.seen) - count < 20

    run_virtual(run(), clock)
