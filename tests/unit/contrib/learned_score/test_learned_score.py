"""LearnedScore: a policy scores feasible nodes, and a failing policy only loses its score."""

import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.config.test_community_args import loaded

from moorage.common.clock import VirtualClock
from moorage.common.errors import ConfigErrors
from moorage.common.virtual_time import run_virtual
from moorage.contrib.learned_score.plugin import LearnedScore, spread_out
from moorage.contrib.learned_score.policies import UnusablePolicy
from moorage.contrib.learned_score.process import NONSENSE, NOT_RUNNING, RAISED, REASONS, SLOW
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.config.learned_args import LearnedScoreArgs
from moorage.testing.builders import make_node, make_pod
from moorage.testing.checks import check_plugin
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

POLICIES = "tests.support.policies_on_trial"
PATIENT, BRIEF, UNLIMITED = Duration.of(seconds=30), Duration.parse("200ms"), Duration()
NODES = (
    make_node("small", allocatable={"cpu": "2", "memory": "8Gi", "pods": "110"}),
    make_node("medium", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"}),
    make_node("large", allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"}),
)
POD = make_pod("web", requests={"cpu": "1", "memory": "1Gi"})


@contextmanager
def started(
    policy: str, limit: Duration = PATIENT, fallback: str = "LeastAllocated"
) -> Iterator[tuple[LearnedScore, Rig]]:
    rig = Rig(*NODES)
    name = policy if policy.endswith(".onnx") else f"{POLICIES}:{policy}"
    plugin = LearnedScore(args=LearnedScoreArgs(name, limit, fallback), handle=rig)
    run_virtual(plugin.start(), VirtualClock())
    try:
        yield plugin, rig
    finally:
        run_virtual(plugin.close(), VirtualClock())


def counted(plugin: LearnedScore) -> dict[str, float]:
    return {reason: count for reason in REASONS if (count := plugin.fallbacks.value(reason=reason))}


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
    assert spread_out(close).tolist() == [0, 100, 99]
    assert spread_out(np.array([1.7e308, -1.7e308, 0.0])).tolist() == [100, 0, 50]
    assert spread_out(np.zeros(0)).tolist() == []


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


def test_hanging_policy_times_out_and_its_process_ends() -> None:
    with started("hangs", BRIEF) as (plugin, rig):
        process = plugin._process._child._process
        began = monotonic()
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [0, 66, 100]
        assert monotonic() - began < 20  # it would never come back by itself
        assert process.returncode == -9
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [0, 66, 100]
        assert counted(plugin) == {SLOW: 1, NOT_RUNNING: 1}


def test_ended_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with started("sleeps_for_large_pods", Duration.of(seconds=2)) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        assert run_score(plugin, rig, make_pod("large", requests={"cpu": "2", "memory": "1Gi"}), SCORE_FORMS[1]) == [
            0,
            66,
            100,
        ]
        monkeypatch.setattr("moorage.contrib.learned_score.process.monotonic", lambda: monotonic() + 60)
        plugin._process.start()
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        assert counted(plugin) == {SLOW: 1}


def test_dead_process_fails_one_request() -> None:
    with started("dies") as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [0, 66, 100]
        assert counted(plugin) == {NOT_RUNNING: 1}


def test_a_worker_ends_with_its_parent() -> None:
    script = (
        "import os\n"
        "from tests.unit.contrib.learned_score.test_learned_score import *\n"
        "with started('fullest') as (plugin, rig):\n"
        "    print(plugin._process._child._process.pid, flush=True)\n"
        "    os._exit(0)\n"
    )
    root = Path(__file__).parents[4]
    completed = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    pid = int(completed.stdout)
    deadline = monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "learned_score" in Path(f"/proc/{pid}/cmdline").read_text():
        assert monotonic() < deadline


UNUSABLE = {
    "nowhere:policy": "cannot be imported: No module named 'nowhere'",
    f"{POLICIES}:fulest": "has no 'fulest'",
    f"{POLICIES}:number": "is 7, which cannot be called",
    "missing.onnx": "the policy missing.onnx is not there",
}


@pytest.mark.parametrize(("policy", "problem"), UNUSABLE.items(), ids=UNUSABLE)
def test_unloadable_policy_is_reported_at_the_start(policy: str, problem: str) -> None:
    if policy.endswith(".onnx"):
        pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'moorage[onnx]'")
    plugin = LearnedScore(args=LearnedScoreArgs(policy, PATIENT), handle=Rig(*NODES))
    with pytest.raises(UnusablePolicy) as failure:
        run_virtual(plugin.start(), VirtualClock())
    assert problem in str(failure.value)


MODEL = (
    "CAgSADqTAQogCgVub2RlcwoHd2VpZ2h0cxIGc2NvcmVzIgZNYXRNdWwSB2Z1bGxlc3QqMQgICAEQASIgAAAAAAAAAAAAAIC/AAAAAAAAAAAAAAAA"
    "AAAAAAAAAABCB3dlaWdodHNaGAoFbm9kZXMSDwoNCAESCQoDEgFuCgIICGIZCgZzY29yZXMSDwoNCAESCQoDEgFuCgIIAUIECgAQDQ=="
)
"""The same as `fullest`, as ONNX: nodes (n × 8) times weights (8 × 1), of which the third is -1."""


def test_a_policy_from_an_onnx_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'moorage[onnx]'")
    file = tmp_path / "policy.onnx"
    file.write_bytes(b64decode(MODEL))
    with started(str(file)) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        assert counted(plugin) == {}
    with started(str(file), UNLIMITED) as (plugin, rig):
        assert run_score(plugin, rig, POD, SCORE_FORMS[1]) == [100, 33, 0]
        broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(UnusablePolicy, match="cannot be read"):
        LearnedScore(args=LearnedScoreArgs(str(broken), UNLIMITED), handle=rig)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no policy": ({"policy": ""}, "args.policy: Required value"),
    "a path that is neither": ({"policy": "weights.pt"}, "write module:function, or the path of an .onnx file"),
    "a negative limit": ({"policy": "a:b", "timeLimit": "-1s"}, "must not be negative; 0s waits without a limit"),
    "an unknown fallback": ({"policy": "a:b", "fallback": "Best"}, '"LeastAllocated"'),
    "a resource twice": ({"policy": "a:b", "resources": ["cpu", "cpu"]}, "each of them once"),
}


@pytest.mark.parametrize(("args", "problem"), WRONG.values(), ids=WRONG)
def test_arguments_that_are_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigErrors) as raised:
        loaded("LearnedScore", args)
    assert problem in str(raised.value)


def test_arguments_and_their_defaults() -> None:
    assert loaded("LearnedScore", {"policy": "a:b"}) == LearnedScoreArgs(
        "a:b", Duration.parse("50ms"), "LeastAllocated", ("cpu", "memory")
    )
