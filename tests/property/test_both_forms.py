from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from moorage.kube.api.affinity import NodeAffinity as Wishes
from moorage.kube.api.affinity import PreferredSchedulingTerm
from moorage.kube.api.devices import DeviceClass, DeviceClassSpec
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, Plugin, ScorePlugin
from moorage.scheduler.framework.status import IntArray, Status, Verdict
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.plugins.node_affinity import NodeAffinity
from moorage.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.testing import check_plugin, clusters, make_pod
from moorage.testing.checks import PluginFactory
from moorage.testing.strategies import GPU

JUDGES_AND_RATERS = [plugin for plugin in IN_TREE if issubclass(plugin, FilterPlugin | ScorePlugin)]


RESOURCES = (ResourceSpec("cpu", 3), ResourceSpec("memory", 1), ResourceSpec(GPU, 5), ResourceSpec("ephemeral-storage"))
SHAPE = RequestedToCapacityRatioParam(
    (UtilizationShapePoint(10, 10), UtilizationShapePoint(40, 3), UtilizationShapePoint(90, 7))
)
SSD = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("disk", "In", ("ssd",)),))


def fit(**args: Any) -> PluginFactory:
    return lambda handle: NodeResourcesFit(args=NodeResourcesFitArgs(**args), handle=handle)


CONFIGURED: list[PluginFactory] = [
    fit(scoring_strategy=ScoringStrategy(MOST_ALLOCATED, RESOURCES)),
    fit(scoring_strategy=ScoringStrategy(REQUESTED_TO_CAPACITY_RATIO, RESOURCES, SHAPE), ignored_resources=(GPU,)),
    fit(scoring_strategy=ScoringStrategy(LEAST_ALLOCATED, RESOURCES), ignored_resource_groups=("example.com",)),
    lambda _: NodeResourcesBalancedAllocation(args=NodeResourcesBalancedAllocationArgs(resources=RESOURCES)),
    lambda _: NodeAffinity(
        args=NodeAffinityArgs(Wishes(required=NodeSelector((SSD,)), preferred=(PreferredSchedulingTerm(7, SSD),)))
    ),
]


def test_in_tree_plugins_keep_their_contracts() -> None:
    # NodeName needs pods with a node name, which random pods do not have.
    check_plugin(*JUDGES_AND_RATERS, *CONFIGURED, examples=100, require_coverage=False)


def test_fit_keeps_its_contract_with_device_resources() -> None:
    gpus = DeviceClass(metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(extended_resource_name=GPU))
    check_plugin(NodeResourcesFit, objects=[gpus], examples=30)


class Forked(FilterPlugin):
    """Returns one result for a single node and another for all nodes."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("no") if node.taints else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return Verdict.accept(len(nodes))


class Nearsighted(FilterPlugin):
    """Evaluates a node by its window."""

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return Verdict.reject(where=np.full(len(nodes), len(nodes) > 1), because=Status.unschedulable("crowd"))


class Wordless(FilterPlugin):
    """Rejects nodes without a reason."""

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return Verdict.reject(where=nodes.unschedulable.copy(), because=Status.unschedulable())


class Meddler(FilterPlugin):
    """Changes the nodes, as far as they allow it."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        node.node.metadata.labels["seen"] = "yes"
        return None


class Namedropper(FilterPlugin):
    """Signs pods equally, but uses their names."""

    depends_on = DependsOn.NODE

    def sign(self, pod: Pod) -> tuple[()]:
        return ()

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("a stranger") if pod.name == "namesake" else None


class Busybody(ScorePlugin):
    """Declares that it depends on a single node, but counts the pods of all."""

    depends_on = DependsOn.PODS

    def sign(self, pod: Pod) -> tuple[()]:
        return ()

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return min(100, int(self._handle.nodes.pod_count.sum()))


class Forgetful(FilterPlugin):
    """Declares that it depends on requests, but reads the labels of pods."""

    depends_on = DependsOn.REQUESTS

    def sign(self, pod: Pod) -> tuple[()]:
        return ()

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        checked = any("moorage.io/checked" in other.labels for other in node.pods.values())
        return Status.unschedulable("checked") if checked else None


class Enthusiast(ScorePlugin):
    """Returns more than 100."""

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 101


class Fractions(ScorePlugin):
    """Scores in floats."""

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        return np.full(len(nodes), 0.5)


BROKEN = {
    "different forms": (Forked, "filter returned .* filter_nodes None"),
    "a result that depends on the window": (Nearsighted, "crowd"),
    "no reason": (Wordless, "without a reason"),
    "a changed node": (Meddler, "may only read"),
    "an incomplete signature": (Namedropper, "gives two pods the same signature"),
    "a result that depends on other nodes": (Busybody, "declare it in depends_on"),
    "a result that depends on labels of pods": (Forgetful, "declare it in depends_on"),
    "a score above 100": (Enthusiast, "not between 0 and 100"),
    "a score that is not an integer": (Fractions, "float64, not int64"),
}


@pytest.mark.parametrize(("plugin", "complaint"), BROKEN.values(), ids=BROKEN)
def test_broken_contract_is_detected(plugin: type[Plugin], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_plugin(plugin, clusters=clusters(max_pods=0), pods=st.just(make_pod()), examples=200)
