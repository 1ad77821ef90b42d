"""GangScheduling: PreEnqueue, quorums, and queueing hints."""

import pytest
from tests.support.groups import COMPOSITE, GATE, composite, gang, member

from moorage.common.errors import PluginError
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.plugin import Wait
from moorage.scheduler.framework.status import Code
from moorage.scheduler.plugins.gang_scheduling import GangScheduling
from moorage.testing import make_node
from moorage.testing.rig import Rig

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def plugin_over(*objects: object, gates: str = GATE) -> tuple[GangScheduling, Rig]:
    rig = Rig(make_node("n"), *objects, features=FeatureGates.parse(gates))  # type: ignore[arg-type]
    return GangScheduling(handle=rig), rig


def message(plugin: GangScheduling, name: str = "a") -> str:
    status = plugin.pre_enqueue(member(name))
    return "" if status is None else status.message


@pytest.mark.parametrize(
    ("minimum", "names", "text"),
    [
        (2, "ab", ""),
        (3, "ab", "waiting for minCount pods from a gang to appear in scheduling queue"),
        (None, "a", ""),
    ],
)
def test_gang_is_admitted_with_enough_members(minimum: int | None, names: str, text: str) -> None:
    plugin, _ = plugin_over(gang(minimum=minimum), *map(member, names))
    assert message(plugin) == text


def test_members_on_nodes_count() -> None:
    plugin, _ = plugin_over(gang(minimum=2), member("a"), member("b", node="n"))
    assert message(plugin) == ""


@pytest.mark.release("1.37")
def test_pods_wait_for_a_missing_group() -> None:
    plugin, _ = plugin_over(member("a"))
    assert message(plugin) == 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    plugin, _ = plugin_over(member("a"), gates=COMPOSITE)
    problem = "pod group object not found in state for podgroup/default/g"
    assert message(plugin) == f"failed to build hierarchy snapshot: {problem}"


def test_pods_of_no_group_enter_freely() -> None:
    plugin, _ = plugin_over()
    assert plugin.pre_enqueue(member("a", "")) is None


def test_a_tree_enters_as_a_unit() -> None:
    objects = [
        composite("top", 2),
        gang("g", 1, parent="top"),
        gang("h", 2, parent="top"),
        member("a"),
        member("b", "h"),
    ]
    plugin, rig = plugin_over(*objects, gates=COMPOSITE)
    assert message(plugin) == 'waiting for composite pod group "top" tree to meet quorum'
    rig.add(member("c", "h"))
    assert message(plugin) == ""


@pytest.mark.parametrize(
    ("quorum", "remaining", "scheduled", "code", "text"),
    [
        (3, 0, 3, Code.SUCCESS, ""),
        (3, 5, 4, Code.SUCCESS, ""),
        (3, 2, 1, Code.WAIT, "minCount (3) is not yet satisfied: 1 scheduled, 2 remaining"),
        (3, 1, 1, Code.UNSCHEDULABLE, "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"),
        (None, 1, 0, Code.WAIT, "minCount (1) is not yet satisfied: 0 scheduled, 1 remaining"),
        (None, 0, 0, Code.UNSCHEDULABLE, "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining"),
    ],
)
def test_whether_going_on_makes_sense(
    quorum: int | None, remaining: int, scheduled: int, code: Code, text: str
) -> None:
    plugin, _ = plugin_over()
    status = plugin.placement_feasible(GroupTree(gang(minimum=quorum)), remaining, scheduled)
    assert (Code.SUCCESS if status is None else status.code, "" if status is None else status.message) == (code, text)


def test_last_member_of_the_quorum_allows_all() -> None:
    plugin, rig = plugin_over(gang(minimum=2), member("a"), member("b"), member("c"))
    cycle = CycleState()
    rig.cache.assume(member("a").on_node("n"))
    assert plugin.permit(cycle, member("a"), "n") == Wait(300.0)
    assert len(cycle.pods_to_activate) == 1
    rig.cache.assume(member("b").on_node("n"))
    assert plugin.permit(CycleState(), member("b"), "n") is None


def test_basic_groups_and_single_pods_never_wait() -> None:
    plugin, _ = plugin_over(gang(minimum=None), member("a"))
    assert plugin.permit(CycleState(), member("a"), "n") is None
    assert plugin.permit(CycleState(), member("x", ""), "n") is None


def test_a_group_that_is_deleted_is_an_error_at_permit() -> None:
    plugin, _ = plugin_over(member("a"))
    with pytest.raises(PluginError, match="failed to get podGroup default/g"):
        plugin.permit(CycleState(), member("a"), "n")


def test_hints_go_by_group() -> None:
    plugin, _ = plugin_over(gang(), gang("h"), member("a"))
    assert plugin.after_pod_added(member("a"), None, member("b")) is QUEUE
    assert plugin.after_pod_added(member("a"), None, member("b", "h")) is SKIP
    assert plugin.after_pod_added(member("a"), None, member("b", "")) is SKIP
    assert plugin.after_group_added(member("a"), None, gang()) is QUEUE
    assert plugin.after_group_added(member("a"), None, gang("h")) is SKIP


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (gang(minimum=3), gang(minimum=2), QUEUE),
        (gang(minimum=2), gang(minimum=3), SKIP),
        (gang(minimum=2), gang(minimum=2), SKIP),
        (gang(minimum=None), gang(minimum=2), SKIP),
        (gang("h", 3), gang("h", 2), SKIP),
    ],
)
def test_only_a_lower_minimum_of_the_same_group_requeues(before: PodGroup, after: PodGroup, hint: QueueingHint) -> None:
    plugin, _ = plugin_over(gang(), member("a"))
    assert plugin.after_group_changed(member("a"), before, after) is hint


def test_hints_of_trees_go_by_root() -> None:
    objects = [composite("top"), gang("g", parent="top"), gang("h", parent="top"), gang("i")]
    plugin, _ = plugin_over(*objects, gates=COMPOSITE)
    assert plugin.after_pod_added(member("a"), None, member("b", "h")) is QUEUE
    assert plugin.after_pod_added(member("a"), None, member("b", "i")) is SKIP
    assert plugin.after_group_added(member("a"), None, composite("top")) is QUEUE
    assert plugin.after_group_added(member("a"), None, composite("other")) is SKIP
