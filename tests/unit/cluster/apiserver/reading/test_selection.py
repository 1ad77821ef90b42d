import pytest

from moorage.cluster.apiserver.reading.selection import parse_labels, selection
from moorage.cluster.apiserver.storage.store import Store
from moorage.common.errors import ApiError
from moorage.kube.resources import Resources

PODS = Resources().find("", "v1", "pods")
LABELS = {
    "equality": ("app=web", True),
    "equality written twice": ("app==web", True),
    "inequality": ("app!=web", False),
    "a missing label is not equal": ("other!=x", True),
    "one of several": ("app in (db,web)", True),
    "none of several": ("app notin (db,web)", False),
    "presence": ("app", True),
    "absence": ("!app", False),
    "all requirements must match": ("app=web,tier=x", False),
    "a comma inside parentheses separates values": ("tier in (a,b),app in (web)", True),
    "greater": ("tier>1", False),
    "an empty selector": ("", True),
}


@pytest.mark.parametrize(("text", "want"), LABELS.values(), ids=LABELS)
def test_labels(text: str, want: bool) -> None:
    assert parse_labels(text).matches({"app": "web", "tier": "b"}) is want


BAD_LABELS = ("app in", "a=b=c", "=x", "app in ()x", "a b", "!", "app=-", "in (a)", "a>b")


@pytest.mark.parametrize("text", BAD_LABELS)
def test_invalid_label_selector_is_rejected(text: str) -> None:
    with pytest.raises(ApiError) as error:
        parse_labels(text)
    assert error.value.status == 400


FIELDS = {
    "a pod's node": ("spec.nodeName=n1", True),
    "another node": ("spec.nodeName=n2", False),
    "a field that is not equal": ("status.phase!=Failed,status.phase!=Succeeded", True),
    "a name": ("metadata.name=a", True),
    "a field with its default": ("spec.hostNetwork=false", True),
    "an escaped character": ("status.phase!=a\\=b\\,c", True),
}


@pytest.mark.parametrize(("text", "want"), FIELDS.values(), ids=FIELDS)
def test_fields(text: str, want: bool) -> None:
    assert PODS is not None
    data = {"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    entry = Store().put("pods", "default/a", data)
    assert selection(PODS, {"fieldSelector": text}).matches(PODS, entry) is want


@pytest.mark.parametrize(
    "text", ["spec.foo=1", "spec.nodeName", "metadata.labels.a=b", "spec.nodeName=a\\x", "spec.nodeName=a=b"]
)
def test_unsupported_field_selector_is_rejected(text: str) -> None:
    assert PODS is not None
    with pytest.raises(ApiError) as error:
        selection(PODS, {"fieldSelector": text})
    assert error.value.status == 400
