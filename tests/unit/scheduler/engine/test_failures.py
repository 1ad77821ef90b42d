"""Results of a failed attempt: the note of its event, and the patch of the pod's status."""

from typing import Any

import pytest

from moorage.common.text import cut_note
from moorage.kube.api.meta import Condition
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.engine.failures import status_patch
from moorage.testing import make_pod

WHY = "0/1 nodes are available: 1 Insufficient cpu."
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": WHY}


def known(message: str = WHY, nominated: str = "") -> Pod:
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return make_pod(status=PodStatus(conditions=(condition,), nominated_node_name=nominated))


PATCHES: dict[str, tuple[Pod, str | None, dict[str, Any]]] = {
    "a first failure": (make_pod(), None, {"conditions": [CONDITION]}),
    "a repetition": (known(), None, {}),
    "another reason": (known("no nodes"), None, {"conditions": [CONDITION]}),
    "a nomination": (known(), "n1", {"nominatedNodeName": "n1"}),
    "the same nomination": (known(nominated="n1"), "n1", {}),
    "a nomination that is taken back": (known(nominated="n1"), "", {"nominatedNodeName": ""}),
    "a nomination that remains": (known(nominated="n1"), None, {}),
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
