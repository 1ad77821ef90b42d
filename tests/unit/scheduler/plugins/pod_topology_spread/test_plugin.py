"""PodTopologySpread: incrementally updated counts equal those of a new plugin; queueing hints."""

import pytest
from tests.unit.scheduler.plugins.pod_topology_spread.spread_builders import (
    CLUSTER,
    DEDICATED,
    on,
    pod,
    service,
    soft,
    spread,
)

from moorage.kube.api.affinity import Toleration, TopologySpreadConstraint
from moorage.kube.api.node import HOSTNAME_LABEL, Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import label_set_matcher
from moorage.scheduler.config.args import PodTopologySpreadArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.pod_topology_spread.plugin import MIN_KEPT, PodTopologySpread, SpreadCache
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import Constraints, ConstraintSource, Inclusion
from moorage.scheduler.state.pod_index import MAX_COUNTS
from moorage.testing import make_node
from moorage.testing.rig import (
    FORMS,
    SCORE_FORMS,
    Rig,
    all_at_once,
    one_at_a_time,
    run_filter,
    run_score,
    score_all_at_once,
)

KINDS: dict[str, tuple[TopologySpreadConstraint, ...]] = {
    "a hard constraint over zones": (spread(2),),
    "a hard constraint over hosts": (spread(2, HOSTNAME_LABEL),),
    "hard constraints over zones and hosts": (spread(3), spread(2, HOSTNAME_LABEL)),
    "a soft constraint over hosts": (soft(1, HOSTNAME_LABEL),),
    "a soft constraint over zones": (soft(),),
    "soft constraints over zones and hosts": (soft(2), soft(1, HOSTNAME_LABEL)),
    "the system's default constraints": (),
}


NODES = tuple(make_node(f"n{number}", zone="x", labels={"zone": "abc"[number % 3]}) for number in range(7))


@pytest.mark.parametrize("nodes", [NODES, CLUSTER], ids=["every node has every label", "one node has no zone"])
@pytest.mark.parametrize("constraints", KINDS.values(), ids=KINDS)
def test_counts_follow_added_and_removed_pods(constraints, nodes) -> None:  # type: ignore[no-untyped-def]
    rig = Rig(service(app="web"), *nodes)
    cached, incoming = PodTopologySpread(handle=rig), pod(*constraints)
    placed = []
    for step in range(24):
        fresh = PodTopologySpread(handle=rig)
        assert run_filter(cached, rig, incoming, all_at_once) == run_filter(fresh, rig, incoming, one_at_a_time)
        assert run_score(cached, rig, incoming, score_all_at_once) == run_score(fresh, rig, incoming, SCORE_FORMS[0])
        placed.append(pod(*constraints, name=f"p{step}", node=nodes[step * step % 5].name))
        rig.cache.add_pod(placed[-1])
        if step % 4 == 3:
            rig.cache.remove_pod(placed.pop(0))


@pytest.mark.parametrize("constraint", [spread(), soft(), soft(1, HOSTNAME_LABEL)], ids=["hard", "soft", "hosts"])
def test_a_count_dropped_by_the_index_is_recounted(constraint: TopologySpreadConstraint) -> None:
    rig, incoming = Rig(*NODES), pod(constraint)
    cached = PodTopologySpread(handle=rig)
    for number in range(3):
        run_filter(cached, rig, incoming, all_at_once)
        run_score(cached, rig, incoming, score_all_at_once)
        for requested in range(MAX_COUNTS):
            rig.pods.count(None, label_set_matcher({"number": f"{requested}"}), terminating=True)
        rig.cache.add_pod(pod(constraint, name=f"p{number}", node="n0"))
        fresh = PodTopologySpread(handle=rig)
        assert run_filter(cached, rig, incoming, all_at_once) == run_filter(fresh, rig, incoming, one_at_a_time)
        assert run_score(cached, rig, incoming, score_all_at_once) == run_score(fresh, rig, incoming, SCORE_FORMS[0])


@pytest.mark.parametrize("form", FORMS)
def test_a_what_if_does_not_change_cached_counts(form) -> None:  # type: ignore[no-untyped-def]
    rig, incoming = Rig(*NODES), pod(spread())
    plugin = PodTopologySpread(handle=rig)
    before = run_filter(plugin, rig, incoming, form)
    cycle = plugin_cycle(plugin, rig)
    plugin.add_pod(cycle, incoming, pod(node="n0"), rig.nodes[0])
    assert plugin.filter(cycle, incoming, rig.nodes[0]) is not None
    assert run_filter(plugin, rig, incoming, form) == before


def plugin_cycle(plugin: PodTopologySpread, rig: Rig):  # type: ignore[no-untyped-def]
    cycle = CycleState()
    assert plugin.pre_filter(cycle, pod(spread()), rig.nodes) is None
    return cycle


class Note:
    """Something to keep."""

    def __init__(self, constraints: Constraints, incoming: object, inclusion: Inclusion) -> None:
        self.constraints = constraints


def test_only_equal_pods_share_cached_counts() -> None:
    memory, source = SpreadCache(Note), source_of_defaults()
    web, equal, second = pod(spread()), pod(spread(), name="web-2", requests={"cpu": 2}), pod(spread(), app="other")
    assert memory.find(source.hard(web), web, 5) is memory.find(source.hard(equal), equal, 5)
    assert memory.find(source.hard(web), web, 5) is not memory.find(source.hard(second), second, 5)


def test_cached_counts_are_limited_by_memory() -> None:
    memory, source = SpreadCache(Note), source_of_defaults()
    kinds = [pod(spread(skew)) for skew in range(1, MIN_KEPT + 2)]
    cached = [memory.find(source.hard(kind), kind, 1 << 40) for kind in kinds]
    assert memory.find(source.hard(kinds[-1]), kinds[-1], 1 << 40) is cached[-1]
    assert memory.find(source.hard(kinds[0]), kinds[0], 1 << 40) is not cached[0]


def source_of_defaults() -> ConstraintSource:
    return ConstraintSource(PodTopologySpreadArgs(), Rig())


QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP


PLACED, OTHER = on("a1")[0], pod(node="a1", app="db")


POD_HINTS: dict[str, tuple[Pod, Pod | None, Pod | None, QueueingHint]] = {
    "a counted pod was added": (pod(spread()), None, PLACED, QUEUE),
    "a counted pod was nominated": (pod(spread()), None, pod(status=PodStatus(nominated_node_name="a1")), QUEUE),
    "a counted pod is pending": (pod(spread()), None, pod(), SKIPPED),
    "a pod of another namespace was added": (pod(spread()), None, on("a1", namespace="other")[0], SKIPPED),
    "a pod that is not counted was added": (pod(spread()), None, OTHER, SKIPPED),
    "a counted pod was deleted": (pod(spread()), PLACED, None, QUEUE),
    "a pod that is not counted was deleted": (pod(spread()), OTHER, None, SKIPPED),
    "a pod began to count": (pod(spread()), OTHER, PLACED, QUEUE),
    "a pod ceased to count": (pod(spread()), PLACED, OTHER, QUEUE),
    "a counted pod changed and still counts": (pod(spread()), PLACED, pod(node="a1", labels={"x": "y"}), SKIPPED),
    "the pod has soft constraints only": (pod(soft()), None, PLACED, SKIPPED),
}


def hints() -> PodTopologySpread:
    return PodTopologySpread(handle=Rig())


@pytest.mark.parametrize(("waiting", "old", "new", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod(waiting: Pod, old: Pod | None, new: Pod | None, want: QueueingHint) -> None:
    assert hints().after_assigned_pod(waiting, old, new) == want


TOLERATING = pod(tolerates=[Toleration("dedicated", "Exists")])


OWN_HINTS: dict[str, tuple[Pod, Pod, Pod, QueueingHint]] = {
    "a toleration was added and taints are honored": (
        pod(spread(node_taints_policy="Honor")),
        pod(),
        TOLERATING,
        QUEUE,
    ),
    "a toleration was added and taints are ignored": (pod(spread()), pod(), TOLERATING, SKIPPED),
    "it no longer counts itself": (pod(spread()), pod(), pod(app="db"), QUEUE),
    "its labels changed and it still counts": (pod(spread()), pod(), pod(labels={"x": "y"}), SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), OWN_HINTS.values(), ids=OWN_HINTS)
def test_hint_after_a_change_of_the_pod(waiting: Pod, old: Pod, new: Pod, want: QueueingHint) -> None:
    assert hints().after_own_change(waiting, old, new) == want


IN_A, IN_B, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()


TAINTED = make_node(labels={"zone": "a"}, taints=[DEDICATED])


NODE_HINTS: dict[str, tuple[Pod, Node | None, Node | None, QueueingHint]] = {
    "a node with the keys was added": (pod(spread()), None, IN_A, QUEUE),
    "a node with some of the keys was added": (pod(spread(), spread(key="tier")), None, IN_A, SKIPPED),
    "a node without was added": (pod(spread()), None, NOWHERE, SKIPPED),
    "a node with the keys was removed": (pod(spread()), IN_A, None, QUEUE),
    "a node without was removed": (pod(spread()), NOWHERE, None, SKIPPED),
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
