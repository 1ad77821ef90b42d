"""Results of a failed attempt: the note of its event, and the patch of the pod's status."""

from typing import Any

import pytest

from moorage.common.text import cut_note
from moorage.kube.api.meta import Condition
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.engine.failures import status_patch
from moorage.scheduler.engine.outcomes import Diagnosis
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.status import Status
from moorage.testing import make_pod

WHY = "0/1 nodes are available: 1 Insufficient cpu."
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WHY}


def known(message: str = WHY, nominated: str = "") -> Pod:
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return make_pod(status=PodStatus(conditions=(condition,), nominated_node_name=nominated))


PATCHES: dict[str, tuple[Pod, str | None, dict[str, Any]]] = {
    "a first failure": (make_pod(), None, {"conditions": [CONDITION]}),
    "the same again": (known(), None, {}),
    "another reason": (known("no nodes"), None, {"conditions": [CONDITION]}),
    "a nomination": (known(), "n1", {"nominatedNodeName": "n1"}),
    "the same nomination": (known(nominated="n1"), "n1", {}),
    "a nomination that is taken back": (known(nominated="n1"), "", {"nominatedNodeName": ""}),
    "a nomination that stays": (known(nominated="n1"), None, {}),
    "both": (make_pod(), "n1", {"conditions": [CONDITION], "nominatedNodeName": "n1"}),
}


@pytest.mark.parametrize(("pod", "nominated", "patch"), PATCHES.values(), ids=PATCHES)
def test_only_changed_fields_are_written(pod: Pod, nominated: str | None, patch: dict[str, Any]) -> None:
    assert status_patch(pod, "Unschedulable", WHY, nominated) == patch


NOTES = {
    "a short note": ("short", "short"),
    "as long as it may be": ("x" * 1024, "x" * 1024),
    "one byte too long": ("x" * 1025, "x" * 1020 + " ..."),
    "bytes count, and no letter is cut in two": ("é" * 513, "é" * 510 + " ..."),
}


@pytest.mark.parametrize(("note", "want"), NOTES.values(), ids=NOTES)
def test_notes_fit_the_events_api(note: str, want: str) -> None:
    assert cut_note(note) == want
    assert len(cut_note(note).encode()) <= 1024


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
    "what the post-filters said, behind": (
        Diagnosis(1, NodeStatuses({"a": FULL}, Status.unresolvable()), post_filter_message="preemption: none."),
        "0/1 nodes are available: 1 Insufficient cpu. preemption: none.",
    ),
    "nothing to say": (Diagnosis(2), "0/2 nodes are available:"),
}


@pytest.mark.parametrize(("diagnosis", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_the_sentence_users_read(diagnosis: Diagnosis, sentence: str) -> None:
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
