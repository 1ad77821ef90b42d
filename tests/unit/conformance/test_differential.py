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
    "a group tried once more": ([], [{"group": "default/g", "result": "scheduled"}], "order"),
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


@pytest.mark.parametrize(("ours", "theirs", "kind"), DIFFERENT.values(), ids=DIFFERENT)
def test_differences_are_found(ours: list[Any], theirs: list[Any], kind: str) -> None:
    assert kind in {found.kind for found in differences(ours, theirs)}


def test_what_is_equal_is_not_a_difference() -> None:
    both = [decision(node="n1", tied=("n1", "n2"), nodes={"n1": scored(3)})]

    assert differences(both, [{**both[0], "tied": ["n1", "n2"]}]) == []


def test_texts_of_cel_errors_count_up_to_the_error() -> None:
    ours, theirs = decision(message="CEL runtime error: ours"), decision(message="CEL runtime error: theirs")

    assert differences([ours], [theirs]) == []
    assert differences([ours], [decision(message="CEL compile error: theirs")])


def test_complaints_of_bound_members_count_up_to_whom_they_name() -> None:
    mark = "cannot determine domain for already scheduled pods:"
    ours, theirs = decision(message=f"{mark} more than 1: a, b"), decision(message=f"{mark} more than 1: b, a")

    assert differences([ours], [theirs]) == []
    assert differences([ours], [decision(message="no feasible placements found")])


@pytest.mark.parametrize("features", [frozenset(), frozenset({"volumes", "devices"}), frozenset({"groups"})])
def test_a_seed_gives_the_same_cluster_every_time(features: frozenset[str]) -> None:
    assert generate("1/7", features=features) == generate("1/7", features=features)
    assert generate("1/7", features=features) != generate("1/8", features=features)


def test_shrinking_leaves_only_what_matters() -> None:
    case = generate("1/3")
    guilty = next(thing for thing in case.objects if thing["kind"] == "Pod")["metadata"]["name"]

    def still_differs(smaller: Case) -> bool:
        return any(thing["metadata"]["name"] == guilty for thing in smaller.objects)

    (left,) = shrink(case, still_differs).objects

    assert left == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": guilty}}


def test_goldens_come_back_as_they_were_written(tmp_path: Any) -> None:
    golden = Golden(generate("1/5"), [decision()])
    write(tmp_path / "some.jsonl.gz", [golden])

    assert list(read(tmp_path / "some.jsonl.gz")) == [golden]
