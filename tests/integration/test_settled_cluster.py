"""A settled cluster is quiet: no controller writes an unchanged object or wakes itself up repeatedly."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest
from moorage.cluster.controllers.actions import ControllerAction
from moorage.cluster.controllers.builtin_controllers import cluster_controllers, kubelet_controllers
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.manager import Controller, ControllerManager
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.cluster.in_process import InProcessClient, wait_briefly
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

Data = dict[str, Any]
HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
PERIODIC: Final = ("nodes", "leases", "events")
"""Resources that kubelets and the scheduler write periodically."""
KINDS: Final = (
    *("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"),
    *("PodDisruptionBudget", "PersistentVolumeClaim", "ResourceClaim", "ResourceClaimTemplate", "PodTemplate"),
)
EVERY_KIND: Final = Path(__file__).with_name("every_kind.yaml")
TEMPLATE: Final = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
SELECTOR: Final = {"matchLabels": {"app": "web"}}
WEB: Final[tuple[Data, ...]] = (
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 4, "selector": SELECTOR, "template": TEMPLATE},
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": SELECTOR},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "too-big", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100"}}}]},
    },
)


class CountedController:
    """Delegates to a controller and counts its reconciliations."""

    def __init__(self, controller: Controller, counts: Counter[str]) -> None:
        self._controller = controller
        self._counts = counts
        self.name = controller.name
        self.kinds = controller.kinds
        self.pause = controller.pause

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        return self._controller.affected(obj, cache)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        self._counts[self.name] += 1
        return self._controller.reconcile(key, cache)


def run_settled(objects: Sequence[Data], *, seconds: float) -> tuple[Counter[str], Counter[str]]:
    """Run a cluster for an hour; return the writes and the reconciliations of the time after that."""
    clock = VirtualClock()
    api = Api(clock)
    writes: Counter[str] = Counter()
    wakeups: Counter[str] = Counter()

    async def count_write(request: ApiRequest) -> None:
        if request.method != "GET":
            writes[f"{request.method} {request.path}"] += 1
        await wait_briefly(request)

    def connect() -> InProcessClient:
        return InProcessClient(api, clock, count_write)

    async def run() -> None:
        cluster = EmbeddedCluster(connect, clock, ClusterOptions(nodes=1, policy=load_policy(collect_plugins())))
        controllers = (*cluster_controllers(clock, FeatureGates()), *kubelet_controllers(clock))
        cluster.manager = ControllerManager(connect(), [CountedController(item, wakeups) for item in controllers])
        async with cluster:
            await cluster.applier.apply(to_documents(objects, source="objects"))
            await asyncio.sleep(HOUR)
            writes.clear()
            wakeups.clear()
            await asyncio.sleep(seconds)

    run_virtual(run(), clock)
    return writes, wakeups


def test_no_controller_writes_on_a_settled_cluster() -> None:
    documents = [data for data in yaml.safe_load_all(EVERY_KIND.read_text()) if data["kind"] in KINDS]
    for data in documents:
        if data["kind"] == "CronJob":
            data["spec"]["suspend"] = True
    writes, wakeups = run_settled([*documents, *WEB], seconds=DAY)
    assert [request for request in writes if not any(f"/{name}" in request for name in PERIODIC)] == []
    assert {name for name, count in wakeups.items() if count > 100} <= {
        "heartbeats",
        "nodes",
        "garbage",
    }  # leases have owners
