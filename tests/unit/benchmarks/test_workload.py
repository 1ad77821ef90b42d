import json

import pytest
from benchmarks.live import workload
from benchmarks.live.templates import Expression, Template, merged

from moorage.common.errors import InputError

EXPRESSIONS = {
    "a number is used unchanged": ("7", 7),
    "the number of the object": ("i % 10", 3),
    "groups as large as there are nodes": ("i // min(500, nodes)", 0),
    "what is left": ("max(0, pods - 8 * nodes)", 60),
}
BAD_EXPRESSIONS = {
    "an unknown name": "pod + 1",
    "something that is called": "open('/etc/passwd')",
    "an attribute": "i.real",
    "no sum": "i +",
}


@pytest.mark.parametrize(("text", "want"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_expression_is_evaluated(text: str, want: int) -> None:
    assert Expression(text, "here").of(i=13, nodes=30, pods=300) == want


@pytest.mark.parametrize("text", BAD_EXPRESSIONS.values(), ids=BAD_EXPRESSIONS)
def test_other_expressions_are_rejected_with_a_hint(text: str) -> None:
    with pytest.raises(InputError, match=r"here: .*\n  hint: (write|use)"):
        Expression(text, "here")


def test_objects_of_a_template_differ_in_marked_fields() -> None:
    template = Template({"name": "pod-${i}", "group": "g${i // 2}", "of": "${nodes}"}, "here")
    objects = [json.loads(body) for body in template.all(3, nodes=5, pods=3)]
    assert objects == [
        {"name": "pod-0", "group": "g0", "of": "5"},
        {"name": "pod-1", "group": "g0", "of": "5"},
        {"name": "pod-2", "group": "g1", "of": "5"},
    ]


def test_merge_replaces_leaves_and_keeps_other_fields() -> None:
    base = {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"list": [1]}}
    over = {"metadata": {"labels": {"y": "2"}}, "spec": {"list": [2]}}
    assert merged(base, over) == {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {"list": [2]}}


@pytest.mark.parametrize("name", workload.names())
@pytest.mark.parametrize("nodes", [10, 100])
def test_every_workload_creates_the_expected_pods(name: str, nodes: int) -> None:
    work = workload.load(name, nodes, pods=50)
    objects = [(path, json.loads(body)) for group in work.objects() for path, body in group]
    pods = [content for path, content in objects if path.endswith("/pods") and "nodeName" not in content["spec"]]
    assert len(pods) == work.bound + work.reported
    assert sum(path == "/api/v1/nodes" for path, _ in objects) == nodes
    identities = [(path, content["metadata"]["name"]) for path, content in objects]
    assert len(set(identities)) == len(identities)


def test_all_selects_the_drained_workloads() -> None:
    assert set(workload.names()) - set(workload.drained()) == {"start", "latency"}


def test_an_unknown_workload_is_rejected_with_the_nearest() -> None:
    with pytest.raises(InputError, match="there is no workload 'basik'\n  hint: did you mean 'basic'"):
        workload.load("basik", 10)
