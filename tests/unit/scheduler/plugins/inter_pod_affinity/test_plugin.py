import numpy as np
import pytest
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import CLUSTER, namespace, pod, to

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.config.args import InterPodAffinityArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

PLAIN = InterPodAffinityArgs()
IGNORING = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
SCORES: dict[str, tuple[list[KubeObject], Pod, InterPodAffinityArgs, list[int] | None]] = {
    "no pod has preferences": ([pod(node="a1")], pod(), PLAIN, None),
    "preferred affinity raises the domain": ([pod(node="a1")], pod("x", likes=[(5, to())]), PLAIN, [100, 100, 0, 0, 0]),
    "preferred anti-affinity lowers the domain": (
        [pod(node="a1")],
        pod("x", dislikes=[(5, to())]),
        PLAIN,
        [0, 0, 100, 100, 100],
    ),
    "every pod counts": (
        [pod(node="a1"), pod(node="a2"), pod(node="b1")],
        pod("x", likes=[(5, to())]),
        PLAIN,
        [100, 100, 50, 50, 0],
    ),
    "a pod on a node without the key counts nowhere": ([pod(node="bare")], pod("x", likes=[(5, to())]), PLAIN, None),
    "preferred affinity of existing pods counts": (
        [pod("db", "a1", likes=[(5, to())])],
        pod(),
        PLAIN,
        [100, 100, 0, 0, 0],
    ),
    "preferred anti-affinity of existing pods counts": (
        [pod("db", "a1", dislikes=[(5, to())])],
        pod(),
        PLAIN,
        [0, 0, 100, 100, 100],
    ),
    "required affinity of existing pods counts by the hard weight": (
        [pod("db", "a1", near=[to()]), pod("db", "b1", name="liking", likes=[(4, to())])],
        pod(),
        InterPodAffinityArgs(hard_pod_affinity_weight=2),
        [50, 50, 100, 100, 0],
    ),
    "the hard weight may be 0": (
        [pod("db", "a1", near=[to()])],
        pod(),
        InterPodAffinityArgs(hard_pod_affinity_weight=0),
        None,
    ),
    "required anti-affinity of existing pods does not count": ([pod("db", "a1", away=[to()])], pod(), PLAIN, None),
    "preferences of existing pods are ignored for pods without preferences": (
        [pod("db", "a1", likes=[(5, to())])],
        pod(near=[to()]),
        IGNORING,
        None,
    ),
    "for pods that have some they still count": (
        [pod("db", "a1", likes=[(5, to())])],
        pod(likes=[(1, to("nobody"))]),
        IGNORING,
        [100, 100, 0, 0, 0],
    ),
    "different keys add up on a node": (
        [pod(node="a1")],
        pod("x", likes=[(1, to()), (3, to(key="rack"))]),
        PLAIN,
        [100, 25, 75, 0, 0],
    ),
    "opinions that cancel out still are opinions": (
        [pod(node="a1")],
        pod("x", likes=[(5, to())], dislikes=[(5, to())]),
        PLAIN,
        [0, 0, 0, 0, 0],
    ),
    "terminating pods count": (
        [pod(node="a1", terminating=True)],
        pod("x", likes=[(5, to())]),
        PLAIN,
        [100, 100, 0, 0, 0],
    ),
    "namespaces are those of the terms": (
        [namespace("other", team="x"), pod(node="a1", namespace="other"), pod(node="b1")],
        pod("x", likes=[(5, to(namespace_selector=LabelSelector(match_labels={"team": "x"})))]),
        PLAIN,
        [100, 100, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("objects", "incoming", "args", "want"), SCORES.values(), ids=SCORES)
def test_score(
    form: ScoreForm, objects: list[KubeObject], incoming: Pod, args: InterPodAffinityArgs, want: list[int] | None
) -> None:
    rig = Rig(*CLUSTER, *objects)
    assert run_score(InterPodAffinity(args=args, handle=rig), rig, incoming, form) == want


NORMALIZED = {
    "the example of upstream's documentation": ([-10, 0, 25], [0, 28, 100]),
    "equal scores are all 0": ([7, 7], [0, 0]),
    "the division comes before the multiplication": ([0, 29, 100], [0, 28, 100]),
}


@pytest.mark.parametrize(("raw", "want"), NORMALIZED.values(), ids=NORMALIZED)
def test_normalize(raw: list[int], want: list[int]) -> None:
    rig, scores = Rig(), np.array(raw, dtype=np.int64)
    assert InterPodAffinity(handle=rig).normalize_scores(CycleState(), pod(), rig.nodes, scores).tolist() == want
