"""kube-scheduler and `moorage scheduler` in turn, on one API server: all pods have the same outcome."""

from rich.console import Console

from tests.live.differential.groups import FLAGS, GroupFate, compare, make_group_scene
from tests.live.differential.runner import Differential
from tests.support.control_plane import ControlPlane, control_plane

CLUSTERS = 10
GROUP_CLUSTERS = 5


def test_both_schedulers_make_the_same_decisions(plane: ControlPlane) -> None:
    account = Differential(plane, Console(soft_wrap=True)).run("live", 0, CLUSTERS)
    assert not account.found, f"{account}: {account.found}"
    # An empty comparison would have no differences either.
    assert account.clusters == CLUSTERS
    assert account.pods >= 2 * CLUSTERS
    for kind in ("bound", "Unschedulable", "preempting", "with volumes", "with devices"):
        assert account.seen[kind], f"no pod was {kind}: {account.seen}"


def test_both_schedulers_place_groups_equally() -> None:
    fates: list[GroupFate] = []
    with control_plane(*FLAGS) as plane:
        for number in range(GROUP_CLUSTERS):
            mismatches, upstream = compare(plane, make_group_scene(f"live-groups/{number}"))
            assert not mismatches, "\n".join(map(str, mismatches))
            fates += upstream
    assert any(fate.victims for fate in fates)
    assert any(all(member.node for member in fate.members) for fate in fates)
    assert any(fate.condition.startswith("False Unschedulable minCount") for fate in fates)
