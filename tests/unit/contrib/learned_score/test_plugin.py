"""LearnedScore: scores of a policy, fallbacks and arguments."""

from collections.abc import MutableMapping
from typing import Any

import numpy as np
import pytest
from tests.unit.contrib.learned_score.policy_builders import PATIENT, POD, POLICIES, UNLIMITED, counted, started
from tests.unit.scheduler.config.test_contrib_args import loaded

from moorage.common.errors import ConfigErrors
from moorage.contrib.learned_score.plugin import LearnedScore, spread_scores
from moorage.contrib.learned_score.process import NONSENSE, RAISED
from moorage.scheduler.config.contrib_args import LearnedScoreArgs
from moorage.scheduler.config.durations import Duration
from moorage.testing.checks import check_plugin
from moorage.testing.rig import SCORE_FORMS, ScoreForm, run_score


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize("limit", [PATIENT, UNLIMITED], ids=["own process", "this process"])
def test_the_best_node_of_the_policy_has_100_and_the_worst_0(limit: Duration, form: ScoreForm) -> None:
    with started("fullest", limit) as (plugin, rig):
        assert run_score(plugin, rig, POD, form) == [100, 33, 0]
        assert counted(plugin) == {}


def test_a_policy_may_compare_nodes_with_each_other() -> None:
    check_plugin(
        lambda handle: LearnedScore(args=LearnedScoreArgs(f"{POLICIES}:relative", UNLIMITED), handle=handle),
        examples=25,
    )


def test_only_the_best_score_is_100() -> None:
    close = np.array([0.0, 1.0, 1.0 - 1e-12])
    assert spread_scores(close).tolist() == [0, 100, 99]
    assert spread_scores(np.array([1.7e308, -1.7e308, 0.0])).tolist() == [100, 0, 50]
    assert spread_scores(np.zeros(0)).tolist() == []


FAILURES = {"raises": RAISED, "too_few": NONSENSE, "no_number": NONSENSE, "words": NONSENSE}


@pytest.mark.parametrize("limit", [PATIENT, UNLIMITED], ids=["own process", "this process"])
@pytest.mark.parametrize(("policy", "reason"), FAILURES.items(), ids=FAILURES)
def test_the_fallback_counts_when_a_policy_fails(
    policy: str, reason: str, limit: Duration, logged: list[MutableMapping[str, Any]]
) -> None:
    with started(policy, limit) as (plugin, rig):
        for form in SCORE_FORMS:
            assert run_score(plugin, rig, POD, form) == [0, 66, 100]
        assert counted(plugin) == {reason: 2}
    assert [line["reason"] for line in logged if "policy" in line] == [reason]


FALLBACKS: dict[str, list[int] | None] = {"LeastAllocated": [0, 66, 100], "MostAllocated": [100, 33, 0], "None": None}


@pytest.mark.parametrize(("fallback", "scores"), FALLBACKS.items(), ids=FALLBACKS)
def test_which_fallback_is_chosen(fallback: str, scores: list[int] | None) -> None:
    with started("raises", UNLIMITED, fallback) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == scores


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no policy": ({"policy": ""}, "args.policy: Required value"),
    "a path that is neither": ({"policy": "weights.pt"}, "write module:function, or the path of an .onnx file"),
    "a negative limit": ({"policy": "a:b", "timeLimit": "-1s"}, "must not be negative; 0s waits without a limit"),
    "an unknown fallback": ({"policy": "a:b", "fallback": "Best"}, '"LeastAllocated"'),
    "a resource twice": ({"policy": "a:b", "resources": ["cpu", "cpu"]}, "without duplicates"),
}


@pytest.mark.parametrize(("args", "problem"), WRONG.values(), ids=WRONG)
def test_arguments_that_are_rejected(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        loaded("LearnedScore", args)
    assert problem in str(raised.value)


def test_arguments_and_their_defaults() -> None:
    assert loaded("LearnedScore", {"policy": "a:b"}) == LearnedScoreArgs(
        "a:b", Duration.parse("50ms"), "LeastAllocated", ("cpu", "memory")
    )
