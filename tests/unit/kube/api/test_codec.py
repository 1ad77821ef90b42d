from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.kube.api.affinity import PreferredSchedulingTerm
from moorage.kube.api.codec import UNREADABLE, build_patch, convert, decode, encode, without_nulls
from moorage.kube.api.documents import read_documents
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.testing import make_pod


def test_null_means_absent() -> None:
    body = b'{"metadata": {"name": "p", "labels": null}, "spec": {"containers": null, "priority": null}}'
    assert decode(Pod, body) == convert(Pod, {"metadata": {"name": "p"}})


CONVERTED: dict[str, tuple[Any, dict[str, str]]] = {
    "a null value": ({"a": None, "b": "c"}, {"b": "c"}),
    "null as text": ({"a": "null"}, {"a": "null"}),
    "a null mapping": (None, {}),
}


@pytest.mark.parametrize(("labels", "expected"), CONVERTED.values(), ids=CONVERTED)
def test_conversion_drops_nulls(labels: Any, expected: dict[str, str]) -> None:
    pod = convert(Pod, {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": []}})
    assert pod.labels == expected


@pytest.mark.parametrize("name", [1 << 70, b"bytes", {1, 2}], ids=["integer", "bytes", "set"])
def test_conversion_reports_values_that_are_not_json(name: Any) -> None:
    with pytest.raises(UNREADABLE):
        convert(Pod, {"metadata": {"name": "p", "labels": name}})


def test_conversion_reports_deep_nesting() -> None:
    content: Any = {}
    for _ in range(100_000):
        content = {"a": content}
    with pytest.raises(msgspec.ValidationError, match="nested too deeply"):
        convert(Pod, content)


def test_nulls_are_dropped_at_any_depth() -> None:
    assert without_nulls({"a": None, "b": [{"c": None, "d": 1}, 2]}) == {"b": [{"d": 1}, 2]}


def preferred_terms(node_affinity: dict[str, Any]) -> tuple[PreferredSchedulingTerm, ...] | None:
    affinity = decode(Pod, msgspec.json.encode({"spec": {"affinity": {"nodeAffinity": node_affinity}}})).spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    return affinity.node_affinity.preferred


def test_absent_and_empty_differ_where_required() -> None:
    assert preferred_terms({}) is None
    assert preferred_terms({"preferredDuringSchedulingIgnoredDuringExecution": []}) == ()


def test_an_error_names_the_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$.spec.containers\[0\].ports\[0\].hostPort"):
        decode(Pod, b'{"spec": {"containers": [{"ports": [{"hostPort": "eighty"}]}]}}')


def test_fields_unused_by_the_scheduler_are_dropped() -> None:
    assert decode(Node, b'{"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}').name == "n"


def test_object_survives_a_round_trip() -> None:
    pod = make_pod(requests={"cpu": "500m"}, labels={"a": "b"}, priority=3)
    content = encode(pod)
    assert (content["apiVersion"], content["kind"]) == ("v1", "Pod")
    assert convert(Pod, content) == pod


def test_documents_are_read_in_order_without_empty_ones() -> None:
    assert list(read_documents("a: 1\n---\n---\nb: 2020-01-01\n", source="f")) == [{"a": 1}, {"b": "2020-01-01"}]


def test_yaml_that_does_not_parse_is_rejected_with_its_line() -> None:
    with pytest.raises(InputError, match=r"cluster.yaml, line 3, column \d+: invalid YAML"):
        list(read_documents("a: 1\nb: 2\n c: 3: 4\n", source="cluster.yaml"))


def test_patch_contains_only_the_differences() -> None:
    before = make_pod("web", labels={"app": "web"}, status=PodStatus(phase="Pending"))
    assert build_patch(before, replace(before, status=PodStatus())) == {"status": {"phase": None}}
    relabeled = replace(before, metadata=replace(before.metadata, labels={"app": "api"}))
    assert build_patch(before, relabeled) == {"metadata": {"labels": {"app": "api"}}}
    assert build_patch(before, replace(before, spec=replace(before.spec))) == {}
