"""A plugin that breaks its contract fails that attempt, in words that name it."""

import asyncio
import re
from typing import Any

import numpy as np
import pytest
from tests.support.engine import build_runner

from moorage.common.errors import PluginError
from moorage.kube.api.pod import PodStatus
from moorage.scheduler.engine.cycle.search_result import NoNode, OneNode
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import (
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import Status, Verdict
from moorage.testing import make_node, make_pod

NODES = (make_node("a"), make_node("b"))
POD = make_pod("p", requests={"cpu": "1"})


class Raises(FilterPlugin):
    def filter(self, *_: Any) -> Status | None:
        raise ValueError("no disk map for this pod")


class SaysError(FilterPlugin):
    def filter(self, *_: Any) -> Status | None:
        return Status.error("lost my index")


class WrongLength(FilterPlugin):
    def filter_nodes(self, *_: Any) -> Verdict:
        return Verdict.reject(where=np.array([True]), because=Status.unschedulable("no"))


class WrongMask(FilterPlugin):
    def filter_nodes(self, *_: Any) -> Verdict:
        return Verdict.reject(where=np.array([1, 0]), because=Status.unschedulable("no"))  # type: ignore[arg-type]


class NoVerdict(FilterPlugin):
    def filter_nodes(self, *_: Any) -> Verdict:
        return True  # type: ignore[return-value]


class PreFilterRaises(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> None:
        raise KeyError("zone")


class PreFilterPending(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> Status:
        return Status.pending("not now")


class PreFilterNonsense(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> Any:
        return False


class TooHigh(ScorePlugin):
    def score(self, *_: Any) -> int:
        return 101


class Negative(ScorePlugin):
    def score_nodes(self, _cycle: CycleState, _pod: Any, nodes: Any) -> Any:
        return np.full(len(nodes), -1)


class NotANumber(ScorePlugin):
    def score_nodes(self, _cycle: CycleState, _pod: Any, nodes: Any) -> Any:
        return np.full(len(nodes), np.nan)


class Fractions(ScorePlugin):
    def score_nodes(self, _cycle: CycleState, _pod: Any, nodes: Any) -> Any:
        return np.full(len(nodes), 0.5)


class NodeByNodeFractions(ScorePlugin):
    def score(self, *_: Any) -> Any:
        return 0.5


class TooFewScores(ScorePlugin):
    def score_nodes(self, *_: Any) -> Any:
        return np.array([1])


class ScoreRaises(ScorePlugin):
    def score(self, *_: Any) -> int:
        raise RuntimeError("no map of the racks")


class NormalizeRaises(ScorePlugin):
    def score(self, *_: Any) -> int:
        return 1

    def normalize_scores(self, *_: Any) -> Any:
        raise RuntimeError("nothing to compare with")


class Forgot(FilterPlugin, ScorePlugin):
    def filter(self, *_: Any) -> None:
        return None

    def score(self, cycle: CycleState, *_: Any) -> int:
        return cycle[StateKey[int]("racks")]


class PreScoreOnly(PreScorePlugin):
    """Implements pre-scoring only, with the same result for all pods."""

    def sign(self, pod: Any) -> tuple[()]:
        return ()

    def pre_score(self, *_: Any) -> Status:
        return Status.error("too late")


class PreScoreRejects(PreScorePlugin, ScorePlugin):
    def pre_score(self, *_: Any) -> Status:
        return Status.unschedulable("cannot rate")

    def score(self, *_: Any) -> int:
        return 0


class ReserveRaises(ReservePlugin):
    def reserve(self, *_: Any) -> None:
        raise RuntimeError("books are closed")

    def unreserve(self, *_: Any) -> None:
        return None


CASES: dict[str, tuple[type[Plugin], str]] = {
    "a filter that raises": (
        Raises,
        'running "Raises" filter plugin: Raises.filter raised ValueError: no disk map for this pod (test_profile',
    ),
    "a filter that returns an error": (SaysError, 'running "SaysError" filter plugin: lost my index'),
    "a mask of the wrong length": (WrongLength, "returned a mask of shape (1,) for a window of 2 nodes"),
    "a mask of the wrong type": (WrongMask, "returned a mask of int64: a mask must be an array of bool"),
    "no verdict": (NoVerdict, "returned bool: return Verdict.accept(len(nodes)), or Verdict.reject("),
    "a pre-filter that raises": (
        PreFilterRaises,
        "running PreFilter plugin \"PreFilterRaises\": PreFilterRaises.pre_filter raised KeyError: 'zone' (test_",
    ),
    "a pre-filter with a code it may not give": (
        PreFilterPending,
        'running PreFilter plugin "PreFilterPending": not now',
    ),
    "a pre-filter that returns an invalid value": (
        PreFilterNonsense,
        "returned False: return None, NodeNames(frozenset({",
    ),
    "a score above 100": (
        TooHigh,
        'applying score defaultWeights on Score plugins: plugin "TooHigh" returns an invalid score 101, '
        "it should in the range of [0, 100] after normalizing",
    ),
    "a score below 0": (Negative, 'plugin "Negative" returns an invalid score -1'),
    "a score that raises": (
        ScoreRaises,
        'plugin "ScoreRaises" failed with: ScoreRaises.score raised RuntimeError: no map of the racks (test_profile_',
    ),
    "a normalization that raises": (
        NormalizeRaises,
        'running Normalize on Score plugins: plugin "NormalizeRaises" failed with: '
        "NormalizeRaises.normalize_scores raised RuntimeError: nothing to compare with",
    ),
    "state that was never stored": (
        Forgot,
        "nothing is stored under 'racks': is the plugin enabled",
    ),
    "a pre-score without a score": (PreScoreOnly, 'running PreScore plugin "PreScoreOnly": too late'),
    "a score that is not a number": (NotANumber, "returned a score that is not a number"),
    "scores with fractions": (Fractions, "returned float64: scores must be integers"),
    "a score with a fraction": (NodeByNodeFractions, "returned 0.5: return an int from 0 to 100"),
    "too few scores": (TooFewScores, "returned (1,) for a window of 2 nodes"),
    "a pre-score that rejects": (PreScoreRejects, 'running PreScore plugin "PreScoreRejects": cannot rate'),
}


@pytest.mark.parametrize(("plugin", "message"), CASES.values(), ids=CASES)
def test_the_attempt_fails_with_the_plugins_name(plugin: type[Plugin], message: str) -> None:
    runner = build_runner(*NODES, plugins=[plugin], cross_check=False)
    with pytest.raises(PluginError) as failed:
        runner.choose(runner.find(POD))
    assert message in str(failed.value)
    assert failed.value.plugin == plugin.name


@pytest.mark.parametrize(("plugin", "message"), CASES.values(), ids=CASES)
def test_the_next_pod_fails_alike(plugin: type[Plugin], message: str) -> None:
    runner = build_runner(*NODES, plugins=[plugin], cross_check=False)
    for _ in range(2):
        with pytest.raises(PluginError, match=re.escape(message)):
            runner.choose(runner.find(POD))


class BadElsewhere(FilterPlugin, ScorePlugin):
    """Cannot score a node that it rejects."""

    def sign(self, pod: Any) -> tuple[()]:
        return ()

    def filter(self, _cycle: CycleState, _pod: Any, node: NodeInfo) -> Status | None:
        return Status.unschedulable("no") if node.name == "a" else None

    def score(self, _cycle: CycleState, _pod: Any, node: NodeInfo) -> int:
        if node.name == "a":
            raise RuntimeError("who asked?")
        return 1


def test_an_infeasible_node_is_not_scored() -> None:
    runner = build_runner(*NODES, make_node("c"), plugins=[BadElsewhere], cross_check=False)
    assert runner.choose(runner.find(POD)).node.name in ("b", "c")


class NeverFits(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> Status:
        return Status.unschedulable("not today")


class RaisesForAll(FilterPlugin):
    """Fails for every pod and node, with one cached result for all pods."""

    def sign(self, pod: Any) -> tuple[()]:
        return ()

    def filter(self, *_: Any) -> Status | None:
        raise ValueError("no disk map")


def test_a_filter_without_remaining_nodes_does_not_fail() -> None:
    runner = build_runner(*(make_node(name, cordoned=True) for name in "ab"), plugins=[RaisesForAll])
    for _ in range(2):
        search_result = runner.find(POD)
        assert isinstance(search_result, NoNode)
        assert search_result.diagnosis.unschedulable_plugins == {"NodeUnschedulable"}


def test_pod_rejected_before_reaches_no_filter() -> None:
    runner = build_runner(*NODES, plugins=[RaisesForAll, NeverFits])
    rejection = runner.find(POD).diagnosis.pre_filter
    assert rejection == Status.unschedulable("not today").by("NeverFits")


class RaisesElsewhere(FilterPlugin):
    def filter(self, _cycle: CycleState, _pod: Any, node: NodeInfo) -> Status | None:
        if node.name == "a":
            raise ValueError("no disk map")
        return None


def test_a_nominated_node_that_fits_is_the_only_one_looked_at() -> None:
    pod = make_pod("p", status=PodStatus(nominated_node_name="b"))
    runner = build_runner(*NODES, plugins=[RaisesElsewhere], waiting=[pod])
    search_result = runner.find(pod)
    assert isinstance(search_result, OneNode)
    assert (search_result.is_nominated, search_result.node.name) == (True, "b")


class PostFilterRaises(PostFilterPlugin):
    async def post_filter(self, *_: Any) -> PostFilterResult:
        raise RuntimeError("no tow truck")


def test_a_post_filter_that_raises_leaves_the_pod_unschedulable() -> None:
    pod = make_pod(requests={"cpu": "1000"})
    runner = build_runner(*NODES, pod, plugins=[PostFilterRaises])
    search_result = runner.find(pod)
    assert isinstance(search_result, NoNode)
    result = asyncio.run(runner.post_filter(search_result))
    assert result.message.startswith(
        "PostFilterRaises.post_filter raised RuntimeError: no tow truck (test_profile_runner.py:"
    )
    assert result.nominated_node is None


def test_reserve_that_raises() -> None:
    runner = build_runner(*NODES, plugins=[ReserveRaises])
    search_result = runner.find(POD)
    with pytest.raises(PluginError, match=r'running Reserve plugin "ReserveRaises": .*RuntimeError: books are closed'):
        runner.reserve(search_result.cycle, POD, "a")
