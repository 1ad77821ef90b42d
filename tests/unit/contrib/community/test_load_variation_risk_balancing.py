"""LoadVariationRiskBalancing: scores by mean load and its variation."""

import pytest
from tests.unit.contrib.community.load_builders import balancing, node

from moorage.contrib.community.measured_load import MeasuredLoad
from moorage.scheduler.config.contrib_args import (
    LoadVariationRiskBalancingArgs,
)
from moorage.testing import make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

Balancing = LoadVariationRiskBalancingArgs


RISKS: dict[str, tuple[LoadVariationRiskBalancingArgs, MeasuredLoad, int]] = {
    # The pod requests a tenth of the CPU and no memory.
    "idle and steady": (Balancing(), MeasuredLoad(0, 0, 0, 0), 95),
    "busy and steady": (Balancing(), MeasuredLoad(50, 0, 0, 0), 70),
    "idle and restless": (Balancing(), MeasuredLoad(0, 40, 0, 0), 75),
    "the riskier resource counts": (Balancing(), MeasuredLoad(0, 0, 90, 50), 30),
    "nothing is worse than full": (Balancing(), MeasuredLoad(99, 100, 0, 0), 0),
    "without a deviation a node is steady": (Balancing(), MeasuredLoad(cpu=50), 70),
    "what is not measured does not count": (Balancing(), MeasuredLoad(memory=20, memory_deviation=20), 80),
    "nothing is known": (Balancing(), MeasuredLoad(), 0),
    "a margin": (Balancing(safe_variance_margin=2), MeasuredLoad(0, 20, 0, 0), 75),
    "a root": (Balancing(safe_variance_sensitivity=2), MeasuredLoad(0, 25, 0, 0), 70),
    "a root of nothing": (Balancing(safe_variance_sensitivity=0), MeasuredLoad(0, 50, 0, 0), 95),
    "no margin": (Balancing(safe_variance_margin=0), MeasuredLoad(0, 90, 0, 0), 95),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("args", "load", "score"), RISKS.values(), ids=RISKS)
def test_balancing(args: LoadVariationRiskBalancingArgs, load: MeasuredLoad, score: int, form: ScoreForm) -> None:
    rig = Rig(node("n"))
    assert run_score(balancing(rig, args, n=load), rig, make_pod(requests={"cpu": "1"}), form) == [score]
