"""The diagnosis of an unschedulable pod: the sentence for users, and the plugins with events that can requeue it."""

import pytest

from moorage.scheduler.engine.outcomes import Diagnosis
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.status import Status

FULL, TAINTED = (
    Status.unschedulable("Insufficient cpu").by("NodeResourcesFit"),
    Status.unresolvable("tainted").by("Taints"),
)
SENTENCES = {
    "nodes by reason, sorted": (
        Diagnosis(3, NodeStatuses({"a": FULL, "b": TAINTED, "c": FULL}, Status.unresolvable())),
        "0/3 nodes are available: 1 tainted, 2 Insufficient cpu.",
    ),
    "a pre-filter's word instead of the nodes'": (
        Diagnosis(3, pre_filter=Status.unresolvable("no such claim")),
        "0/3 nodes are available: no such claim.",
    ),
    "the messages of the post-filters at the end": (
        Diagnosis(1, NodeStatuses({"a": FULL}, Status.unresolvable()), post_filter_message="preemption: none."),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: none.",
    ),
    "no node was evaluated": (Diagnosis(2), "0/2 nodes are available:"),
}


@pytest.mark.parametrize(("diagnosis", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_message_counts_nodes_by_reason(diagnosis: Diagnosis, sentence: str) -> None:
    assert diagnosis.message == sentence


def test_diagnosis_names_the_rejecting_plugins() -> None:
    diagnosis = Diagnosis(1)
    for status in (
        FULL,
        Status.pending("soon").by("Gang"),
        Status.error("broken").by("Broken"),
        Status.unschedulable("x"),
    ):
        diagnosis.add_rejection(status)
    assert diagnosis.unschedulable_plugins == {"NodeResourcesFit", "Gang"}
    assert diagnosis.pending_plugins == {"Gang"}
