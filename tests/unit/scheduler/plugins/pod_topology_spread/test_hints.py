import pytest
from tests.unit.scheduler.plugins.pod_topology_spread.spread_builders import DEDICATED, on, pod, soft, spread

from moorage.kube.api.affinity import Toleration
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.config.args import PodTopologySpreadArgs
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.pod_topology_spread.hints import SpreadHints
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import ConstraintSource
from moorage.testing import make_node
from moorage.testing.rig import Rig

QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
PLACED, OTHER = on("a1")[0], pod(node="a1", app="db")
POD_HINTS: dict[str, tuple[Pod, Pod | None, Pod | None, QueueingHint]] = {
    "a pod that counts came": (pod(spread()), None, PLACED, QUEUE),
    "one was promised a node": (pod(spread()), None, pod(status=PodStatus(nominated_node_name="a1")), QUEUE),
    "one is pending": (pod(spread()), None, pod(), SKIPPED),
    "one of another namespace came": (pod(spread()), None, on("a1", namespace="other")[0], SKIPPED),
    "one that does not count came": (pod(spread()), None, OTHER, SKIPPED),
    "one that counts went": (pod(spread()), PLACED, None, QUEUE),
    "one that does not count went": (pod(spread()), OTHER, None, SKIPPED),
    "one began to count": (pod(spread()), OTHER, PLACED, QUEUE),
    "one ceased to count": (pod(spread()), PLACED, OTHER, QUEUE),
    "one changed and still counts": (pod(spread()), PLACED, pod(node="a1", labels={"x": "y"}), SKIPPED),
    "soft constraints do not matter": (pod(soft()), None, PLACED, SKIPPED),
}


def hints() -> SpreadHints:
    return SpreadHints(ConstraintSource(PodTopologySpreadArgs(), Rig()))


@pytest.mark.parametrize(("waiting", "old", "new", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod(waiting: Pod, old: Pod | None, new: Pod | None, want: QueueingHint) -> None:
    assert hints().after_assigned_pod(waiting, old, new) == want


TOLERATING = pod(tolerates=[Toleration("dedicated", "Exists")])
OWN_HINTS: dict[str, tuple[Pod, Pod, Pod, QueueingHint]] = {
    "a toleration came and taints are honoured": (pod(spread(node_taints_policy="Honor")), pod(), TOLERATING, QUEUE),
    "a toleration came and taints are ignored": (pod(spread()), pod(), TOLERATING, SKIPPED),
    "it no longer counts itself": (pod(spread()), pod(), pod(app="db"), QUEUE),
    "its labels changed and it still counts": (pod(spread()), pod(), pod(labels={"x": "y"}), SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), OWN_HINTS.values(), ids=OWN_HINTS)
def test_hint_after_own_change(waiting: Pod, old: Pod, new: Pod, want: QueueingHint) -> None:
    assert hints().after_own_change(waiting, old, new) == want


IN_A, IN_B, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()
TAINTED = make_node(labels={"zone": "a"}, taints=[DEDICATED])
NODE_HINTS: dict[str, tuple[Pod, Node | None, Node | None, QueueingHint]] = {
    "a node with the keys came": (pod(spread()), None, IN_A, QUEUE),
    "a node with some of the keys came": (pod(spread(), spread(key="tier")), None, IN_A, SKIPPED),
    "a node without came": (pod(spread()), None, NOWHERE, SKIPPED),
    "a node with the keys went": (pod(spread()), IN_A, None, QUEUE),
    "a node without went": (pod(spread()), NOWHERE, None, SKIPPED),
    "a node got the keys": (pod(spread()), NOWHERE, IN_A, QUEUE),
    "a node lost them": (pod(spread()), IN_A, NOWHERE, QUEUE),
    "a node moved": (pod(spread()), IN_A, IN_B, QUEUE),
    "a node was tainted": (pod(spread()), IN_A, TAINTED, QUEUE),
    "a node without the keys was tainted": (pod(spread(key="tier")), IN_A, TAINTED, SKIPPED),
    "a node changed otherwise": (pod(spread()), IN_A, make_node(labels={"zone": "a", "x": "y"}), SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_after_node(waiting: Pod, old: Node | None, new: Node | None, want: QueueingHint) -> None:
    assert hints().after_node(waiting, old, new) == want


def test_events() -> None:
    assert [item.event for item in PodTopologySpread(handle=Rig()).events_to_register()] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL),
        ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT),
    ]
