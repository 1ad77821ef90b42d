import numpy as np
import pytest
from tests.unit.scheduler.plugins.pod_topology_spread.spread_builders import CLUSTER, on, pod, soft

from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    LabelSelector,
)
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

SCORES: dict[str, tuple[list[Pod], Pod, list[int] | None]] = {
    "no soft constraint, no score": (on("a1"), pod(), None),
    "an empty cluster has equal scores, except nodes without the key": (
        [],
        pod(soft()),
        [100, 100, 100, 100, 100, 0],
    ),
    "the reference's example": (
        on("a1", "a1", "a2", "b1"),
        pod(soft()),
        [0, 0, 60, 60, 100, 0],
    ),
    "host names count the pods on the very node": (
        on("a1", "a1", "b1"),
        pod(soft(key=HOSTNAME_LABEL)),
        [0, 100, 50, 100, 100, 100],
    ),
    "counts on a host ignore the policies": (
        on("c1", "c1", "a1"),
        pod(soft(key=HOSTNAME_LABEL, node_taints_policy="Honor")),
        [50, 100, 100, 100, 0, 100],
    ),
    "counts of domains do not": (
        on("c1", "c1", "a1"),
        pod(soft(node_taints_policy="Honor")),
        [0, 0, 100, 100, 100, 0],
    ),
    "terminating pods do not count": (on("a1", terminating=True), pod(soft()), [100, 100, 100, 100, 100, 0]),
    "an empty selector counts no pod": (
        on("a1"),
        pod(soft(label_selector=LabelSelector())),
        [100, 100, 100, 100, 100, 0],
    ),
    "a larger skew waters the difference down": (on("a1"), pod(soft(5)), [66, 66, 100, 100, 100, 0]),
    # Six times ln 5 and six times ln 7 are 9.66 and 11.68, so 21 together and 22 if they were rounded before.
    "constraints add up before they are rounded": (
        on(*["a1"] * 6),
        pod(soft(), soft(key=HOSTNAME_LABEL)),
        [0, 52, 100, 100, 100, 0],
    ),
    "nodes without one of the keys get nothing": (on("a1"), pod(soft(), soft(key="tier")), [0, 0, 0, 0, 100, 0]),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("existing", "incoming", "want"), SCORES.values(), ids=SCORES)
def test_score(form: ScoreForm, existing: list[Pod], incoming: Pod, want: list[int] | None) -> None:
    rig = Rig(*CLUSTER, *existing)
    assert run_score(PodTopologySpread(handle=rig), rig, incoming, form) == want


def test_only_feasible_nodes_make_domains_but_all_pods_in_them_count() -> None:
    rig = Rig(*CLUSTER, *on("a1", "a1", "b1"))
    plugin, cycle, incoming = PodTopologySpread(handle=rig), CycleState(), pod(soft())
    feasible = rig.nodes.take(np.array([1, 3]))
    assert plugin.pre_score(cycle, incoming, feasible) is None
    # ln(2 + 2) = 1.386 with two domains: 2.77 and 1.39.
    assert plugin.score_nodes(cycle, incoming, feasible).tolist() == [3, 1]
    assert [plugin.score(cycle, incoming, node) for node in feasible] == [3, 1]
