"""Files of objects: YAML and JSON, several documents, lists, and messages with the place of a problem."""

import io
from pathlib import Path
from typing import Any

import pytest

from moorage.common.errors import InputError
from moorage.kube.manifests import describe_unknown_fields, read_files, to_documents

FILES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "YAML documents": ("kind: A\n---\nkind: B\n", [("A", "document 1"), ("B", "document 2")]),
    "JSON documents": ('{"kind": "A"}\n {"kind": "B"} ', [("A", "document 1"), ("B", "document 2")]),
    "YAML that starts like JSON": ("{kind: A}", [("A", "document 1")]),
    "a list": (
        '{"kind": "List", "items": [{"kind": "A"}, {"kind": "List", "items": [{"kind": "B"}]}]}',
        [("A", "document 1, items[0]"), ("B", "document 1, items[1], items[0]")],
    ),
    "items of a typed list": ("kind: PodList\napiVersion: v1\nitems: [{}]", [("Pod", "document 1, items[0]")]),
    "a list of nothing": ("kind: List\nitems:", []),
    "half a character": (r'{"kind": "A", "x": "\ud800"}', [("A", "document 1")]),
}


@pytest.mark.parametrize(("text", "want"), FILES.values(), ids=FILES)
def test_documents_of_a_file(text: str, want: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    documents = read_files([str(path)])
    assert [(item.kind, item.source.removeprefix(f"{path}, ")) for item in documents] == want


def test_standard_input_is_a_dash() -> None:
    (document,) = read_files(["-"], stdin=io.StringIO("kind: A"))
    assert document.source == "standard input, document 1"


def test_invalid_text_on_standard_input_is_reported() -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff"), encoding="utf-8")
    with pytest.raises(InputError, match="standard input: this is not UTF-8 text"):
        list(read_files(["-"], stdin=stdin))


TITLES: dict[str, tuple[dict[str, Any], str]] = {
    "a complete object": ({"kind": "Pod", "metadata": {"namespace": "a", "name": "b"}}, "f, object 1 (Pod a/b)"),
    "an object without a kind": ({"metadata": {"name": "b"}}, "f, object 1 (b)"),
    "fields of other types": ({"kind": 1, "metadata": []}, "f, object 1"),
}


@pytest.mark.parametrize(("content", "want"), TITLES.values(), ids=TITLES)
def test_title_of_an_object(content: dict[str, Any], want: str) -> None:
    (document,) = to_documents([content], source="f")
    assert document.title == want


NOT_OBJECTS: dict[str, tuple[Any, str]] = {
    "a text": ("hello", "f, object 1: expected a Kubernetes object, found a string"),
    "nothing": (None, "f, object 1: expected a Kubernetes object, found null"),
    "items that are not list": (
        {"kind": "List", "items": 5},
        "f, object 1, items: expected a list of objects, found a number",
    ),
}


@pytest.mark.parametrize(("content", "message"), NOT_OBJECTS.values(), ids=NOT_OBJECTS)
def test_other_contents_are_reported(content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(to_documents([content], source="f"))


REJECTED_FILES = {
    "an empty file": ("# nothing\n", "no objects"),
    "a scheduler configuration": (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
        "pass it with --config",
    ),
}


@pytest.mark.parametrize(("text", "message"), REJECTED_FILES.values(), ids=REJECTED_FILES)
def test_files_without_objects_are_rejected(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_files([str(file)]))


def test_unknown_fields_are_described() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"contaners": [], "nodeName": "n"}}
    documents = list(to_documents([pod], source="here"))
    assert describe_unknown_fields(documents) == (
        "unknown fields are ignored: here, object 1 (Pod p), spec.contaners (did you mean 'containers'?)"
    )
    custom = {"apiVersion": "example.com/v1", "kind": "Quirk", "anything": 1}
    assert describe_unknown_fields(to_documents([custom], source="here")) == ""
