"""Decisions on the wire: exact keys, and none that does not apply."""

import json

import msgspec
import pytest
import yaml

from moorage.scheduler.decisions.decision import (
    Decision,
    NodeEntry,
    Nomination,
    PluginScore,
    Rejection,
    Result,
    json_chunks,
    to_json,
    yaml_chunks,
)

HEAD = {"pod": "default/a", "profile": "default-scheduler"}


def make_decision(result: Result, **fields: object) -> Decision:
    return Decision(**HEAD, result=result, **fields)


CASES = {
    "a gated pod has no node, message or nodes": (make_decision(Result.GATED), {"result": "gated"}),
    "a single feasible node is listed and not scored": (
        make_decision(Result.SCHEDULED, node="n1", nodes={"n1": NodeEntry()}),
        {"result": "scheduled", "node": "n1", "nodes": {"n1": {}}},
    ),
    "scores of zero are written": (
        make_decision(
            Result.SCHEDULED, node="n1", nodes={"n1": NodeEntry(total=0, scores={"P": PluginScore(0, 0, 0)})}
        ),
        {
            "result": "scheduled",
            "node": "n1",
            "nodes": {"n1": {"total": 0, "scores": {"P": {"raw": 0, "normalized": 0, "weighted": 0}}}},
        },
    ),
    "a profile without score plugins has empty scores": (
        make_decision(Result.SCHEDULED, node="n1", nodes={"n1": NodeEntry(total=0, scores={})}),
        {"result": "scheduled", "node": "n1", "nodes": {"n1": {"total": 0, "scores": {}}}},
    ),
    "a rejected node has a plugin and a reason": (
        make_decision(
            Result.UNSCHEDULABLE,
            message="0/1 nodes are available: 1 Too many pods.",
            unschedulable_plugins=("NodeResourcesFit",),
            nodes={"n1": NodeEntry("NodeResourcesFit", "Unschedulable", ("Too many pods",))},
            post_filter=Nomination("n1", ()),
        ),
        {
            "result": "unschedulable",
            "message": "0/1 nodes are available: 1 Too many pods.",
            "unschedulablePlugins": ["NodeResourcesFit"],
            "nodes": {"n1": {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Too many pods"]}},
            "postFilter": {"nominatedNode": "n1", "victims": []},
        },
    ),
    "PreFilter's end of an attempt leaves no nodes": (
        make_decision(Result.UNSCHEDULABLE, message="no", pre_filter=Rejection("X", "Unschedulable", ("no",))),
        {
            "result": "unschedulable",
            "message": "no",
            "preFilter": {"plugin": "X", "code": "Unschedulable", "reasons": ["no"]},
        },
    ),
    "until quiet, what happened in the end is there": (
        make_decision(Result.SCHEDULED, node="n1", attempts=2, evicted=True, nominated_node="n1"),
        {"result": "scheduled", "node": "n1", "attempts": 2, "evicted": True, "nominatedNode": "n1"},
    ),
}


@pytest.mark.parametrize(("decision", "want"), CASES.values(), ids=CASES)
def test_wire_form(decision: Decision, want: dict[str, object]) -> None:
    document = {"decisions": [{**HEAD, **want}]}

    assert json.loads(to_json([decision])) == document
    assert json.loads(b"".join(json_chunks([decision]))) == document
    assert yaml.safe_load(b"".join(yaml_chunks([decision]))) == document


SIZES = {"no decision": 0, "one decision": 1, "several decisions": 3}
MORE = {"without more": {}, "with more": {"waiting": [{"pod": "a", "é": 1}], "empty": {}}}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
@pytest.mark.parametrize("count", SIZES.values(), ids=SIZES)
def test_chunks_form_one_document_with_a_chunk_per_decision(count: int, more: dict[str, object]) -> None:
    decisions = [decision for decision, _ in CASES.values()][:count]
    document = {"decisions": msgspec.to_builtins(decisions), **more}
    json_text, yaml_text = (b"".join(write(decisions, more)) for write in (json_chunks, yaml_chunks))
    assert json_text == msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    assert yaml_text.decode() == yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10_000)
    for write in (json_chunks, yaml_chunks):
        assert sum(HEAD["pod"].encode() in chunk for chunk in write(decisions, more)) == count
