"""`moorage lab tune` writes a configuration that kube-scheduler accepts, if all plugins are in-tree."""

from pathlib import Path
from typing import Any

import pytest

from moorage.lab.tuning.plan import Knob, NumberRange
from moorage.lab.tuning.tune import tuned_config
from moorage.scheduler.config.yaml_text import dump
from tests.live.test_convert import assert_read

WEIGHT = NumberRange(0, 10)
SETTINGS: dict[str, list[tuple[Knob, Any]]] = {
    "weights": [(Knob("NodeResourcesFit", "", WEIGHT), 7), (Knob("ImageLocality", "", WEIGHT), 3)],
    "a plugin with weight 0": [(Knob("NodeResourcesBalancedAllocation", "", WEIGHT), 0)],
    "arguments": [
        (Knob("NodeResourcesFit", "scoringStrategy.type", ()), "MostAllocated"),
        (Knob("InterPodAffinity", "hardPodAffinityWeight", ()), 40),
    ],
    "a shape": [
        (
            Knob("NodeResourcesFit", "scoringStrategy", ()),
            {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 1}],
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 90, "score": 10}]
                },
            },
        )
    ],
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_kube_scheduler_reads_tuned_configurations(settings: list[tuple[Knob, Any]], tmp_path: Path) -> None:
    assert_read(dump(tuned_config("", settings)), tmp_path)
