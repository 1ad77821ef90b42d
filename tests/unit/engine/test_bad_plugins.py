"""A plugin that breaks its contract fails that attempt, in words that name it."""

from typing import Any

import numpy as np
import pytest
from tests.support.engine import placement_over

from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.plugin import (
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.framework.status import Status, Verdict
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


class TooFewScores(ScorePlugin):
    def score_nodes(self, *_: Any) -> Any:
        return np.array([1])


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
    "a filter that raises": (Raises, 'running "Raises" filter plugin: no disk map for this pod'),
    "a filter that says error": (SaysError, 'running "SaysError" filter plugin: lost my index'),
    "a mask of the wrong length": (WrongLength, "a mask has shape (1,) for a window of 2 nodes"),
    "a mask of the wrong type": (WrongMask, "a mask must be an array of bool, not of int64"),
    "no verdict at all": (NoVerdict, "filter_nodes answered bool, not a Verdict"),
    "a pre-filter that raises": (PreFilterRaises, "running PreFilter plugin \"PreFilterRaises\": 'zone'"),
    "a pre-filter with a code it may not give": (
        PreFilterPending,
        'running PreFilter plugin "PreFilterPending": not now',
    ),
    "a pre-filter that answers nonsense": (PreFilterNonsense, "it answered False, which is no answer of PreFilter"),
    "a score above 100": (TooHigh, 'plugin "TooHigh" returns an invalid score 101'),
    "a score below 0": (Negative, 'plugin "Negative" returns an invalid score -1'),
    "a score that is no number": (NotANumber, "a score is not a number"),
    "scores with fractions": (Fractions, "scores must be integers, not float64"),
    "too few scores": (TooFewScores, "score_nodes answered (1,) for a window of 2 nodes"),
    "a pre-score that rejects": (PreScoreRejects, 'running PreScore plugin "PreScoreRejects": cannot rate'),
}


@pytest.mark.parametrize(("plugin", "message"), CASES.values(), ids=CASES)
def test_the_attempt_fails_with_the_plugins_name(plugin: type[Plugin], message: str) -> None:
    placement = placement_over(*NODES, plugins=[plugin], cross_check=False)
    with pytest.raises(PluginError) as failed:
        placement.choose(placement.find(POD))
    assert message in str(failed.value)
    assert failed.value.plugin == plugin.name


def test_reserve_that_raises() -> None:
    placement = placement_over(*NODES, plugins=[ReserveRaises])
    found = placement.find(POD)
    with pytest.raises(PluginError, match='running Reserve plugin "ReserveRaises": books are closed'):
        placement.reserve(found.cycle, POD, "a")
