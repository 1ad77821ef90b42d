"""kube-scheduler itself and `moorage scheduler`, one after the other, on one API server: every pod has one fate."""

from rich.console import Console

from tests.live.differential.runner import Differential
from tests.support.control_plane import ControlPlane

CLUSTERS = 10


def test_kube_scheduler_and_moorage_decide_the_same(plane: ControlPlane) -> None:
    account = Differential(plane, Console(soft_wrap=True)).run("live", 0, CLUSTERS)
    assert not account.found, f"{account}: {account.found}"
    # A comparison of nothing would find no differences either.
    assert account.clusters == CLUSTERS
    assert account.pods >= 2 * CLUSTERS
    for kind in ("bound", "Unschedulable", "preempting", "with volumes", "with devices"):
        assert account.seen[kind], f"nobody was {kind}: {account.seen}"
