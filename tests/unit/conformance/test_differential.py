"""The differential check itself: the same clusters every time, nothing overlooked, and small counter-examples."""

from typing import Any

import pytest
from tests.conformance.compare import differences
from tests.conformance.generator import Case, generate
from tests.conformance.goldens import Golden, read, write
from tests.conformance.shrink import shrink


def decision(**fields: Any) -> dict[str, Any]:
    return {"pod": "default/a", "profile": "p", "result": "scheduled", **fields}


def scored(raw: int) -> dict[str, Any]:
    return {"total": raw, "scores": {"P": {"raw": raw, "normalized": raw, "weighted": raw}}}


DIFFERENT = {
    "another order of pods": (
        [decision(), decision(pod="default/b")],
        [decision(pod="default/b"), decision()],
        "order",
    ),
    "another message of a group": (
        [{"group": "default/g", "result": "error", "message": "a"}],
        [{"group": "default/g", "result": "error", "message": "b"}],
        "message",
    ),
    "a group retried": ([], [{"group": "default/g", "result": "scheduled"}], "order"),
    "a missing decision": ([], [decision()], "order"),
    "another node": ([decision(node="n1")], [decision(node="n2")], "node"),
    "another message": ([decision(message="a")], [decision(message="b")], "message"),
    "a key of ours only": ([decision(tied=["n1"])], [decision()], "tied"),
    "a node of theirs only": ([decision(nodes={})], [decision(nodes={"n1": {}})], "nodes"),
    "another score": ([decision(nodes={"n": scored(1)})], [decision(nodes={"n": scored(2)})], "scores.P"),
    "another reason": (
        [decision(nodes={"n": {"code": "Unschedulable", "reasons": ["a"]}})],
        [decision(nodes={"n": {"code": "Unschedulable", "reasons": ["b"]}})],
        "nodes.reasons",
    ),
}


@pytest.mark.parametrize(("actual", "upstream", "kind"), DIFFERENT.values(), ids=DIFFERENT)
def test_differences_are_found(actual: list[Any], upstream: list[Any], kind: str) -> None:
    assert kind in {difference.kind for difference in differences(actual, upstream)}


def test_equal_decisions_have_no_difference() -> None:
    decisions = [decision(node="n1", tied=("n1", "n2"), nodes={"n1": scored(3)})]

    assert differences(decisions, [{**decisions[0], "tied": ["n1", "n2"]}]) == []


def test_texts_of_cel_errors_count_up_to_the_error() -> None:
    own, upstream = decision(message="CEL runtime error: ours"), decision(message="CEL runtime error: theirs")

    assert differences([own], [upstream]) == []
    assert differences([own], [decision(message="CEL compile error: theirs")])


def test_messages_about_bound_members_are_compared_without_their_names() -> None:
    mark = "cannot determine domain for already scheduled pods:"
    own, upstream = decision(message=f"{mark} more than 1: a, b"), decision(message=f"{mark} more than 1: b, a")

    assert differences([own], [upstream]) == []
    assert differences([own], [decision(message="no feasible placements found")])


@pytest.mark.parametrize("features", [frozenset(), frozenset({"volumes", "devices"}), frozenset({"groups"})])
def test_same_seed_generates_the_same_cluster(features: frozenset[str]) -> None:
    assert generate("1/7", features=features) == generate("1/7", features=features)
    assert generate("1/7", features=features) != generate("1/8", features=features)


def test_shrinking_leaves_only_relevant_objects() -> None:
    case = generate("1/3")
    guilty = next(obj for obj in case.objects if obj["kind"] == "Pod")["metadata"]["name"]

    def still_differs(smaller: Case) -> bool:
        return any(obj["metadata"]["name"] == guilty for obj in smaller.objects)

    (remaining,) = shrink(case, still_differs).objects

    assert remaining == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": guilty}}


def test_goldens_survive_a_round_trip(tmp_path: Any) -> None:
    golden = Golden(generate("1/5"), [decision()])
    write(tmp_path / "some.jsonl.gz", [golden])

    assert list(read(tmp_path / "some.jsonl.gz")) == [golden]
