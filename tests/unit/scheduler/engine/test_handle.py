"""A change of an object of a kind that a plugin lists wakes the pods that the plugin rejected."""

from collections.abc import Sequence

from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import StorageClass
from moorage.scheduler.engine.event_handlers import events_of_listed
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import EventRegistration
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import (
    FilterPlugin,
    PreEnqueuePlugin,
    QueuedPod,
    QueueSortPlugin,
    ReservePlugin,
)
from moorage.scheduler.framework.status import Status
from moorage.testing import Cluster, in_virtual_time

PASS = custom_kind("BoardingPass", "boardingpasses", "listed.example.org/v1")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": PASS.full_name},
    "spec": {
        "group": PASS.group,
        "scope": "Namespaced",
        "names": {"kind": PASS.name, "plural": PASS.plural, "singular": "boardingpass"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}
OWN = {"apiVersion": PASS.api_version, "kind": PASS.name, "metadata": {"name": "p", "namespace": "default"}}


class NeedsPass(FilterPlugin):
    """Reject pods that have no pass of their name."""

    def __init__(self, *, handle: Handle) -> None:
        self._passes = handle.lister(PASS.type)
        self.asked = 0

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.asked += 1
        return None if self._passes.get(pod.name, pod.namespace) else Status.unresolvable("node(s) want a pass")


class Indifferent(NeedsPass):
    """The same, but it registers for no events."""

    def events_to_register(self) -> Sequence[EventRegistration]:
        return ()


@in_virtual_time
async def test_a_pod_is_woken_by_the_kind_that_its_plugin_lists() -> None:
    async with Cluster(nodes=1, plugins=[NeedsPass], definitions=[DEFINITION]) as cluster:
        await cluster.apply(POD)
        await cluster.wait_for(lambda: "want a pass" in cluster.why_pending("p"))
        await cluster.sleep(30)
        await cluster.apply(OWN)
        await cluster.wait_for(lambda: len(cluster.running()) == 1, seconds=5)


@in_virtual_time
async def test_events_that_a_plugin_names_are_respected() -> None:
    async with Cluster(nodes=1, plugins=[Indifferent], definitions=[DEFINITION]) as cluster:
        await cluster.apply(POD)
        await cluster.wait_for(lambda: "want a pass" in cluster.why_pending("p"))
        await cluster.sleep(30)
        await cluster.apply(OWN)
        await cluster.sleep(30)
        assert cluster.running() == []


@in_virtual_time
async def test_a_kind_that_is_defined_later_is_found() -> None:
    async with Cluster(nodes=1, plugins=[NeedsPass]) as cluster:
        await cluster.apply(POD)
        await cluster.wait_for(lambda: "want a pass" in cluster.why_pending("p"))
        await cluster.apply(DEFINITION)
        await cluster.apply(OWN)
        await cluster.wait_for(lambda: len(cluster.running()) == 1, seconds=120)


class Curfew(Indifferent):
    """Rejects pods until it is opened."""

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle
        self.is_open = False
        handle.wake_rejected()  # there are no pods yet
        handle.resort_queue()

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if self.is_open else Status.unresolvable("node(s) were closed")


@in_virtual_time
async def test_a_plugin_wakes_the_pods_that_it_rejected() -> None:
    async with Cluster(nodes=1, plugins=[Curfew]) as cluster:
        await cluster.apply(POD)
        await cluster.wait_for(lambda: "were closed" in cluster.why_pending("p"))
        await cluster.sleep(30)
        curfew = cluster.plugin(Curfew)
        curfew.is_open = True
        curfew.handle.wake_rejected()
        await cluster.wait_for(lambda: len(cluster.running()) == 1, seconds=5)


class Fair(QueueSortPlugin, PreEnqueuePlugin, ReservePlugin):
    """Tries the team with the fewest placed pods first, once it has opened."""

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle
        self.is_open = False
        self.placed: list[str] = []

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if self.is_open else Status.unschedulable("closed")

    def sort_key(self, queued: QueuedPod) -> int:
        return sum(name[0] == queued.pod.name[0] for name in self.placed)

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.placed.append(pod.name)
        self.handle.resort_queue()
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        pass


FAIR = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {enabled: [{name: Fair}], disabled: [{name: "*"}]}
    multiPoint: {enabled: [{name: Fair}]}
"""


@in_virtual_time
async def test_an_order_that_moves_is_applied_on_request() -> None:
    async with Cluster(nodes=1, plugins=[Fair], config=FAIR) as cluster:
        await cluster.apply(*({**POD, "metadata": {"name": name}} for name in ("a0", "a1", "a2", "b0", "b1")))
        fair = cluster.plugin(Fair)
        fair.is_open = True
        fair.handle.wake_rejected()
        await cluster.wait_for(lambda: len(cluster.running()) == 5)
        assert fair.placed == ["a0", "b0", "a1", "b1", "a2"]


def test_only_kinds_that_are_not_registered_for_anyway_are_added() -> None:
    registrations = events_of_listed([Pod, Node, StorageClass, PodDisruptionBudget, PASS.type])
    assert [registration.event.resource for registration in registrations] == [
        "poddisruptionbudgets.v1.policy",
        "boardingpasses.v1.listed.example.org",
    ]
