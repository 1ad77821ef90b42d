"""Members of groups, the state of each member, and the hierarchy of groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.groups import composite, gang, member

from moorage.scheduler.state.pod_groups import PodGroups, group_key

KEY = "default/g"


def counts(groups: PodGroups) -> tuple[int, int, int] | None:
    """Return how many members are known, have a node, and have none."""
    members = groups.members(KEY)
    return None if members is None else (members.known_count, members.scheduled_count, len([*members.unscheduled()]))


def test_a_member_is_waiting_then_assumed_then_assigned_then_removed() -> None:
    groups, pod = PodGroups(), member("a")
    placed = pod.on_node("n")
    groups.add_waiting(pod)
    assert counts(groups) == (1, 0, 1)
    groups.assume(placed)
    assert counts(groups) == (1, 1, 0)
    groups.displace(placed)
    assert counts(groups) == (1, 0, 1)
    groups.assume(placed)
    groups.assign(placed)
    assert counts(groups) == (1, 1, 0)
    groups.displace(placed)
    assert counts(groups) is None


def test_a_group_is_known_as_long_as_it_has_a_member_or_an_object() -> None:
    groups, pod = PodGroups(), member("a")
    groups.put(gang())
    groups.add_waiting(pod)
    groups.drop(gang())
    assert (groups.group(KEY), counts(groups)) == (None, (1, 0, 1))
    groups.drop_waiting(pod)
    assert groups.members(KEY) is None


def test_pods_without_a_group_are_of_no_concern() -> None:
    groups, pod = PodGroups(), member("a", "")
    for action in (groups.add_waiting, groups.assume, groups.assign, groups.displace, groups.drop_waiting):
        action(pod)
    assert [*groups] == []
    assert group_key(pod) is None


def test_without_the_gate_no_group_has_a_parent() -> None:
    groups = PodGroups()
    groups.put(gang(parent="top"))
    groups.add_waiting(member("a"))
    assert groups.find_root(member("a")) == groups.group(KEY)


def test_root_is_available_with_a_complete_chain() -> None:
    groups = PodGroups(with_composites=True)
    groups.put(gang(parent="mid"))
    groups.put(composite("mid", parent="top"))
    assert groups.find_root(member("a")) is None
    groups.put(top := composite("top"))
    assert groups.find_root(member("a")) == top
    assert groups.leaf_keys(top) == [KEY]
    groups.drop(composite("mid", parent="top"))
    assert groups.find_root(member("a")) is None
    assert groups.leaf_keys(top) == []


def test_children_are_listed_in_the_order_of_their_creation() -> None:
    groups = PodGroups(with_composites=True)
    groups.put(top := composite("top"))
    for name, created in (("c", "3"), ("b", "1"), ("d", "2"), ("a", "2")):
        groups.put(gang(name, parent="top", created=f"2026-01-01T00:00:0{created}Z"))
    assert [child.group.name for child in groups.tree(top).children] == ["b", "a", "d", "c"]


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "b", "c")])
def test_groups_in_a_circle_have_no_root_and_no_end_of_work(names: tuple[str, ...]) -> None:
    groups = PodGroups(with_composites=True)
    for name, parent in zip(names, (*names[1:], names[0]), strict=True):
        groups.put(composite(name, parent=parent))
    groups.put(gang(parent="a"))
    assert groups.find_root(member("p")) is None
    for name in names:
        parent_group = groups.composite(f"default/{name}")
        assert parent_group is not None
        assert groups.leaf_keys(parent_group) == [KEY]
        assert groups.tree(parent_group)


@given(st.lists(st.tuples(st.sampled_from("wufad"), st.integers(0, 3)), max_size=40))
def test_counts_follow_any_history(steps: list[tuple[str, int]]) -> None:
    groups = PodGroups()
    pods = [member(f"p{number}") for number in range(4)]
    waiting, assumed, assigned = set[int](), set[int](), set[int]()
    for verb, number in steps:
        pod = pods[number]
        match verb:
            case "w" if number not in assigned:
                groups.add_waiting(pod)
                waiting.add(number)
            case "u":
                groups.drop_waiting(pod)
                waiting.discard(number)
            case "f":
                groups.displace(pod)
                assumed.discard(number)
                assigned.discard(number)
            case "a" if number in waiting and number not in assigned:
                groups.assume(pod.on_node("n"))
                assumed.add(number)
            case "d":
                groups.assign(pod.on_node("n"))
                for numbers in (waiting, assumed):
                    numbers.discard(number)
                assigned.add(number)
        members = waiting | assumed | assigned
        expected = (len(members), len(assumed) + len(assigned), len(waiting - assumed)) if members else None
        assert counts(groups) == expected
