from best_fit import BestFit

from moorage.testing import SCORE_FORMS, Rig, check_plugin, make_node, make_pod, run_score


def test_fuller_node_wins() -> None:
    large = make_node("large", allocatable={"cpu": 16, "memory": "64Gi"})
    small = make_node("small", allocatable={"cpu": 4, "memory": "16Gi"})
    rig = Rig(large, small, make_pod("there", node="small", requests={"cpu": 1, "memory": "4Gi"}))
    pod = make_pod(requests={"cpu": 2, "memory": "8Gi"})
    for form in SCORE_FORMS:
        assert run_score(BestFit(), rig, pod, form) == [13, 75]


def test_both_forms_agree() -> None:
    check_plugin(BestFit)
