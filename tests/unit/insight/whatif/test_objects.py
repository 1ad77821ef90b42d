"""Edits of manifests."""

import pytest
from tests.unit.insight.explain.clusters import node, pod, session
from tests.unit.insight.whatif.clusters import read_state

from moorage.common.errors import InputError
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, PatchObject

BAD_EDITS = {
    "a pod that is not there": (DeleteObject(ObjectId("Pod", "default", "aa")), "did you mean 'default/a'"),
    "a node that exists": (CreateObject(node("n1")), "an object of this name already exists"),
    "a place that is not there": (
        PatchObject(ObjectId("Node", "", "n1"), ({"op": "remove", "path": "/spec/x"},)),
        "nonexistent key: x",
    ),
    "another name": (
        PatchObject(ObjectId("Node", "", "n1"), ({"op": "replace", "path": "/metadata/name", "value": "n2"},)),
        "cannot change the kind or the name",
    ),
}


@pytest.mark.parametrize(("edit", "message"), BAD_EDITS.values(), ids=BAD_EDITS)
def test_invalid_edits_change_nothing(edit: DeleteObject | CreateObject | PatchObject, message: str) -> None:
    with session(node("n1"), pod("a")) as opened:
        before = read_state(opened)
        with pytest.raises(InputError, match=message):
            opened.apply(CreateObject(node("n9")), edit)
        assert read_state(opened) == before
