"""kube-scheduler itself and `moorage scheduler`, one after the other, on one API server: every pod has one fate."""

from rich.console import Console

from tests.live.differential.groups import FLAGS, GroupFate, compare, make_group_scene
from tests.live.differential.runner import Differential
from tests.support.control_plane import ControlPlane, control_plane

CLUSTERS = 10
GROUP_CLUSTERS = 5


def test_kube_scheduler_and_moorage_decide_the_same(plane: ControlPlane) -> None:
    account = Differential(plane, Console(soft_wrap=True)).run("live", 0, CLUSTERS)
    assert not account.found, f"{account}: {account.found}"
    # A comparison of nothing would find no differences either.
    assert account.clusters == CLUSTERS
    assert account.pods >= 2 * CLUSTERS
    for kind in ("bound", "Unschedulable", "preempting", "with volumes", "with devices"):
        assert account.seen[kind], f"nobody was {kind}: {account.seen}"


def test_kube_scheduler_and_moorage_place_the_same_groups() -> None:
    fates: list[GroupFate] = []
    with control_plane(*FLAGS) as plane:
        for number in range(GROUP_CLUSTERS):
            found, theirs = compare(plane, make_group_scene(f"live-groups/{number}"))
            assert not found, "\n".join(map(str, found))
            fates += theirs
    assert any(fate.victims for fate in fates)
    assert any(all(member.node for member in fate.members) for fate in fates)
    assert any(fate.condition.startswith("False Unschedulable minCount") for fate in fates)
