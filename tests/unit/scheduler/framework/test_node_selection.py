"""Columns must select the nodes that the matcher selects one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.selectors import (
    MANY,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    node_matcher,
)
from moorage.scheduler.framework.node_selection import matching_nodes, weigh_nodes
from moorage.testing import make_node
from moorage.testing.rig import Rig

NODES = (
    make_node("a", labels={"disk": "ssd", "size": "3"}),
    make_node("b", labels={"disk": "hdd", "size": "x"}),
    make_node("c", labels={"size": "12"}),
)


def selector(*terms: NodeSelectorTerm) -> NodeSelector:
    return NodeSelector(node_selector_terms=terms)


def by_label(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=key, operator=operator, values=values),))


def by_field(operator: str, *values: str, key: str = "metadata.name") -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key=key, operator=operator, values=values),))


CASES = {
    "no terms select nothing": (selector(), ""),
    "an empty term selects nothing": (selector(NodeSelectorTerm()), ""),
    "a value that is listed": (selector(by_label("disk", "In", "ssd", "nvme")), "a"),
    "a value that is not listed, or no value": (selector(by_label("disk", "NotIn", "ssd")), "bc"),
    "an existing label": (selector(by_label("disk", "Exists")), "ab"),
    "a label that is not there": (selector(by_label("disk", "DoesNotExist")), "c"),
    "a larger number": (selector(by_label("size", "Gt", "3")), "c"),
    "a smaller number": (selector(by_label("size", "Lt", "12")), "a"),
    "a node by name": (selector(by_field("In", "b")), "b"),
    "all nodes but one": (selector(by_field("NotIn", "b")), "ac"),
    "a node that is not there": (selector(by_field("In", "z")), ""),
    "an unknown field": (selector(by_field("In", "b", key="spec.other")), ""),
    "either of two terms": (selector(by_label("disk", "In", "ssd"), by_field("In", "c")), "ac"),
    "an invalid term next to a valid one": (
        selector(by_label("disk", "Like", "s"), by_field("In", "c")),
        "c",
    ),
}


@pytest.mark.parametrize(("wanted", "names"), CASES.values(), ids=CASES)
def test_selection(wanted: NodeSelector, names: str) -> None:
    nodes = Rig(*NODES).nodes
    matches = matching_nodes(node_matcher(wanted), nodes)
    assert "".join(node.name for node, hit in zip(nodes, matches, strict=True) if hit) == names


REQUIREMENTS = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["disk", "size", "none"]),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"]),
    values=st.lists(st.sampled_from(["ssd", "hdd", "3", "12"]), max_size=2).map(tuple),
)
TERMS = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple),
    match_fields=st.lists(
        st.builds(
            NodeSelectorRequirement,
            key=st.just("metadata.name"),
            operator=st.sampled_from(["In", "NotIn"]),
            values=st.sampled_from([("a",), ("b",), ("z",)]),
        ),
        max_size=1,
    ).map(tuple),
)


@given(terms=st.lists(TERMS, max_size=3).map(tuple), rows=st.permutations(range(3)), size=st.integers(0, 3))
def test_columns_agree_with_the_matcher_in_any_window(
    terms: tuple[NodeSelectorTerm, ...], rows: list[int], size: int
) -> None:
    matcher = node_matcher(selector(*terms))
    window = Rig(*NODES).nodes.take(np.array(rows[:size], dtype=np.int64))
    matches = matching_nodes(matcher, window)
    assert matches.tolist() == [matcher.matches(node.labels, node.name) for node in window]


@given(
    requirements=st.lists(REQUIREMENTS, min_size=1, max_size=3 * MANY),
    terms=st.lists(TERMS, min_size=MANY + 1, max_size=2 * MANY).map(tuple),
)
def test_many_expressions_and_terms_agree_with_single_ones(
    requirements: list[NodeSelectorRequirement], terms: tuple[NodeSelectorTerm, ...]
) -> None:
    nodes = Rig(*NODES).nodes
    single = [node_matcher(selector(NodeSelectorTerm(match_expressions=(item,)))) for item in requirements]
    long_term = node_matcher(selector(NodeSelectorTerm(match_expressions=tuple(requirements))))
    want = [all(matcher.matches(node.labels, node.name) for matcher in single) for node in nodes]
    assert matching_nodes(long_term, nodes).tolist() == want
    assert [long_term.matches(node.labels, node.name) for node in nodes] == want
    matchers = [node_matcher(selector(term)) for term in terms]
    weights = [sum(matcher.matches(node.labels, node.name) * 2 for matcher in matchers) for node in nodes]
    assert matching_nodes(node_matcher(selector(*terms)), nodes).tolist() == [weight > 0 for weight in weights]
    weighted = [(matcher.terms[0], 2) for matcher in matchers]
    assert weigh_nodes(weighted, nodes).tolist() == weights


def test_a_key_that_no_node_has_needs_no_column() -> None:
    nodes = Rig(*NODES).nodes
    keys = [f"key-{number}" for number in range(1_000)]
    terms = (*(by_label(key, "Exists") for key in keys), by_label("disk", "In", "ssd"))
    assert matching_nodes(node_matcher(selector(*terms)), nodes).tolist() == [True, False, False]
    absent = tuple(NodeSelectorRequirement(key, "DoesNotExist") for key in keys)
    assert matching_nodes(node_matcher(selector(NodeSelectorTerm(absent))), nodes).all()
    assert [key for key, _ in nodes._columns.labels.items()] == ["disk"]
