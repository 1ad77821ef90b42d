"""Decisions in words."""

import pytest
from rich.console import Console

from moorage.scheduler.decisions.decision import Decision, NodeEntry, Nomination, PluginScore, Result
from moorage.scheduler.decisions.printing import explanation, print_decisions, summary

REJECTED = NodeEntry("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",))


def make_decision(result: Result = Result.SCHEDULED, pod: str = "default/a", **fields: object) -> Decision:
    return Decision(pod=pod, profile="default-scheduler", result=result, **fields)


def scored(total: int) -> NodeEntry:
    return NodeEntry(total=total, scores={"P": PluginScore(total, total, total)})


CASES = {
    "a best node is compared with the other feasible nodes": (
        make_decision(node="n1", nodes={"n1": scored(5), "n2": scored(4), "n3": REJECTED}),
        "score 5, best of 2 feasible nodes",
    ),
    "a tie is owned up to": (
        make_decision(node="n1", nodes={"n1": scored(5), "n2": scored(5), "n3": scored(5)}),
        "score 5, best of 3 feasible nodes, tied with 2 others",
    ),
    "a single fit was not scored": (
        make_decision(node="n1", nodes={"n1": NodeEntry(), "n2": REJECTED}),
        "the only feasible node of 2",
    ),
    "a nominated node that fits was looked at alone": (
        make_decision(node="n1", nodes={"n1": NodeEntry()}),
        "the only candidate, such as a node nominated by preemption",
    ),
    "a rejection is upstream's sentence": (make_decision(Result.UNSCHEDULABLE, message="0/2 nodes"), "0/2 nodes"),
    "victims are named": (
        make_decision(Result.UNSCHEDULABLE, message="0/2 nodes", post_filter=Nomination("n2", ("default/low",))),
        "0/2 nodes\ncould run on n2 after evicting default/low",
    ),
    "victims that leave already are not": (
        make_decision(Result.UNSCHEDULABLE, message="0/2 nodes", post_filter=Nomination("n2")),
        "0/2 nodes\nwaits for the victims on n2 to terminate",
    ),
    "a gate is named": (
        make_decision(Result.GATED, unschedulable_plugins=("SchedulingGates",)),
        "gated by SchedulingGates",
    ),
    "a group that is missing is owned up to": (
        make_decision(Result.INCOMPLETE),
        "its pod group, or a parent of that group, does not exist (or groups contain each other)",
    ),
    "an eviction is printed": (
        make_decision(Result.UNSCHEDULABLE, message="no", evicted=True),
        "no\nevicted by preemption",
    ),
}


@pytest.mark.parametrize(("decision", "want"), CASES.values(), ids=CASES)
def test_explanation(decision: Decision, want: str) -> None:
    assert explanation(decision) == want


def test_summary_counts_results() -> None:
    decisions = [
        make_decision(),
        make_decision(),
        make_decision(Result.GATED),
        make_decision(Result.ERROR, evicted=True),
    ]

    assert summary(decisions) == "4 pods: 2 scheduled, 1 gated, 1 evicted"
    assert summary([make_decision(Result.ERROR)] * 2) == "2 pods: 2 errors"
    assert summary([]) == "no pending pods"


@pytest.mark.parametrize("result", Result)
def test_every_result_can_be_shown_and_is_counted(result: Result) -> None:
    console = Console(record=True, width=100)
    print_decisions([make_decision(result)], console)
    assert str(result) in console.export_text()
    assert summary([make_decision(result)]) == f"1 pod: 1 {result}"


@pytest.mark.parametrize(("attempts", "heading"), [(0, False), (3, True)])
def test_several_attempts_are_shown(attempts: int, heading: bool) -> None:
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as captured:
        print_decisions([make_decision(node="n1", attempts=attempts)], console)

    assert ("Attempts" in captured.get()) is heading
    assert "default/a" in captured.get()
