"""Plugin arguments: defaults and upstream's checks, plugin by plugin."""

from typing import Any

import pytest
from tests.support.plugin_args import SECOND, load, strategy

from moorage.kube.api.affinity import TopologySpreadConstraint
from moorage.scheduler.config import Duration
from moorage.scheduler.config.args import (
    DEFAULT_SHAPE,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

CPU, MEMORY = ResourceSpec("cpu", 1), ResourceSpec("memory", 1)


COMPLETED = {
    "DefaultPreemption": ("DefaultPreemption", None, DefaultPreemptionArgs(10, 100)),
    "a written zero remains": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0},
        DefaultPreemptionArgs(0, 100),
    ),
    "InterPodAffinity": ("InterPodAffinity", {}, InterPodAffinityArgs(1, False)),
    "a written zero weight of affinity remains": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True},
        InterPodAffinityArgs(0, True),
    ),
    "NodeAffinity": ("NodeAffinity", {}, NodeAffinityArgs()),
    "NodeResourcesFit": (
        "NodeResourcesFit",
        {},
        NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("LeastAllocated", (CPU, MEMORY))),
    ),
    "a strategy without resources gets the default ones": (
        "NodeResourcesFit",
        strategy(type="MostAllocated"),
        NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("MostAllocated", (CPU, MEMORY))),
    ),
    "a resource without weight, or with zero, weighs one": (
        "NodeResourcesFit",
        strategy(type="MostAllocated", resources=[{"name": "cpu"}, {"name": "memory", "weight": 0}]),
        NodeResourcesFitArgs(scoring_strategy=ScoringStrategy("MostAllocated", (CPU, MEMORY))),
    ),
    "a shape for the ratio": (
        "NodeResourcesFit",
        strategy(
            type="RequestedToCapacityRatio",
            requestedToCapacityRatio={"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        ),
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(
                "RequestedToCapacityRatio",
                (CPU, MEMORY),
                RequestedToCapacityRatioParam((UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))),
            )
        ),
    ),
    "NodeResourcesBalancedAllocation": (
        "NodeResourcesBalancedAllocation",
        {},
        NodeResourcesBalancedAllocationArgs((CPU, MEMORY)),
    ),
    "a balanced resource weighs one": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu"}]},
        NodeResourcesBalancedAllocationArgs((CPU,)),
    ),
    "PodTopologySpread": ("PodTopologySpread", {"defaultingType": ""}, PodTopologySpreadArgs((), "System")),
    "custom constraints": (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        },
        PodTopologySpreadArgs((TopologySpreadConstraint(1, "zone", "ScheduleAnyway"),), "List"),
    ),
    "VolumeBinding": ("VolumeBinding", {}, VolumeBindingArgs(600, DEFAULT_SHAPE)),
    "DynamicResources": ("DynamicResources", {}, DynamicResourcesArgs(Duration(10 * SECOND), Duration(600 * SECOND))),
    "zero switches the filter's time-out off": (
        "DynamicResources",
        {"filterTimeout": "0s", "bindingTimeout": "1s"},
        DynamicResourcesArgs(Duration(0), Duration(SECOND)),
    ),
    "apiVersion and kind may be written": (
        "InterPodAffinity",
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs"},
        InterPodAffinityArgs(),
    ),
}


@pytest.mark.parametrize(("plugin", "args", "want"), COMPLETED.values(), ids=COMPLETED)
def test_completed(plugin: str, args: dict[str, Any] | None, want: Any) -> None:
    assert load(plugin, args) == want


GATED = {
    "no shape without storage scoring": ("VolumeBinding", "StorageCapacityScoring=false", VolumeBindingArgs(600, ())),
    "no filter time-out without its gate": (
        "DynamicResources",
        "DRASchedulerFilterTimeout=false",
        DynamicResourcesArgs(None, Duration(600 * SECOND)),
    ),
    "no binding time-out without binding conditions": (
        "DynamicResources",
        "DRADeviceBindingConditions=false",
        DynamicResourcesArgs(Duration(10 * SECOND), None),
    ),
}


@pytest.mark.parametrize(("plugin", "gates", "want"), GATED.values(), ids=GATED)
def test_defaults_that_hang_on_gates(plugin: str, gates: str, want: Any) -> None:
    assert load(plugin, {}, gates) == want
