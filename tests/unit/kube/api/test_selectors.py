import pytest

from moorage.common.errors import SelectorError
from moorage.kube.api.selectors import (
    EVERYTHING,
    LABEL_OPERATORS,
    NODE_OPERATORS,
    NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    is_label_value,
    is_qualified_name,
    label_matcher,
    label_set_matcher,
    node_matcher,
    node_term_matcher,
    parse_requirement,
)


def selector(operator: str, *values: str, key: str = "app") -> LabelSelector:
    return LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))


WEB, DB, BARE = {"app": "web"}, {"app": "db"}, {"tier": "1"}

LABELS = {
    "no selector selects nothing": (None, []),
    "an empty one selects everything": (LabelSelector(), [WEB, DB, BARE]),
    "labels must be equal": (LabelSelector({"app": "web"}), [WEB]),
    "In takes one of its values": (selector("In", "web", "db"), [WEB, DB]),
    "NotIn takes what lacks the key": (selector("NotIn", "web"), [DB, BARE]),
    "Exists takes any value": (selector("Exists"), [WEB, DB]),
    "DoesNotExist takes its absence": (selector("DoesNotExist"), [BARE]),
    "everything must hold": (LabelSelector({"app": "web"}, selector("In", "db").match_expressions), []),
    "an empty value is a value": (selector("In", ""), []),
}


@pytest.mark.parametrize(("output", "want"), LABELS.values(), ids=LABELS)
def test_label_matcher(output: LabelSelector | None, want: list[dict[str, str]]) -> None:
    matcher = label_matcher(output)
    assert [labels for labels in (WEB, DB, BARE) if matcher.matches(labels)] == want


def test_selectors_that_mean_the_same_are_equal() -> None:
    first = LabelSelector({"a": "1", "b": "2"})
    second = LabelSelector({"b": "2"}, (LabelSelectorRequirement("a", "In", ("1",)),))
    assert label_matcher(first) == label_matcher(second) == label_set_matcher({"b": "2", "a": "1"})
    assert hash(label_matcher(first)) == hash(label_matcher(second))


def test_narrowing() -> None:
    assert EVERYTHING.also({"app": "web"}) == label_set_matcher({"app": "web"})
    assert NOTHING.also({"app": "web"}) is NOTHING
    assert EVERYTHING.is_everything
    assert not NOTHING.is_everything


BAD = {
    "an unknown operator": ("app", "Like", ("x",), "operator 'Like' is unknown; write one of In, NotIn"),
    "Gt is for nodes": ("app", "Gt", ("1",), "operator 'Gt' is unknown"),
    "no value for In": ("app", "In", (), "In needs at least one value"),
    "no value for NotIn": ("app", "NotIn", (), "NotIn needs at least one value"),
    "a value for Exists": ("app", "Exists", ("x",), "takes no values, found 1"),
    "an invalid key": ("a b", "Exists", (), "'a b' is not a label key"),
    "an invalid value": ("app", "In", ("a b",), "'a b' is not a label value"),
}


@pytest.mark.parametrize(("key", "operator", "values", "complaint"), BAD.values(), ids=BAD)
def test_a_requirement_that_cannot_be_used(key: str, operator: str, values: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(SelectorError, match=complaint):
        parse_requirement(key, operator, values, operators=LABEL_OPERATORS)


COMPARISONS = {
    "greater": ("Gt", "5", "6", True),
    "equal is not greater": ("Gt", "5", "5", False),
    "less": ("Lt", "5", "4", True),
    "equal is not less": ("Lt", "5", "5", False),
    "by number, not by text": ("Gt", "9", "10", True),
    "a word never matches": ("Gt", "5", "many", False),
    "nor what no int64 holds": ("Gt", "5", "9223372036854775808", False),
    "nor a fraction": ("Gt", "5", "6.5", False),
    "nor an absent label": ("Lt", "5", None, False),
}


@pytest.mark.parametrize(("operator", "bound", "result", "want"), COMPARISONS.values(), ids=COMPARISONS)
def test_comparisons(operator: str, bound: str, result: str | None, want: bool) -> None:
    assert parse_requirement("n", operator, [bound], operators=NODE_OPERATORS).accepts(result) is want


@pytest.mark.parametrize("values", [(), ("1", "2"), ("x",), ("1.5",), ("-1",), ("+1",)])
def test_a_comparison_needs_one_integer(values: tuple[str, ...]) -> None:
    with pytest.raises(SelectorError, match="Gt needs exactly one integer"):
        parse_requirement("n", "Gt", values, operators=NODE_OPERATORS)


def test_invalid_node_term_raises_but_not_in_a_selector() -> None:
    wrong = NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "Exists"),))
    name_term = NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", ("a",)),))
    with pytest.raises(SelectorError, match="write In or NotIn"):
        node_term_matcher(wrong)
    assert node_matcher(NodeSelector((wrong, name_term))).matches({}, "a")
    assert not node_matcher(NodeSelector((wrong,))).matches({}, "a")
    assert not node_matcher(NodeSelector()).matches({}, "a")
    assert not node_term_matcher(NodeSelectorTerm()).matches({}, "a")


QUALIFIED = {
    "a": True,
    "A-b_c.d": True,
    "example.com/a": True,
    "": False,
    "-a": False,
    "a-": False,
    "/a": False,
    "example.com/": False,
    "Example.com/a": False,
    "a/b/c": False,
    "a" * 63: True,
    "a" * 64: False,
    "x" * 253 + "/a": True,
    "x" * 254 + "/a": False,
}


@pytest.mark.parametrize(("name", "want"), QUALIFIED.items(), ids=[name[:20] or "empty" for name in QUALIFIED])
def test_is_qualified_name(name: str, want: bool) -> None:
    assert is_qualified_name(name) is want


def test_is_label_value() -> None:
    assert [text for text in ("", "a", "a.b", "-a", "a b", "a" * 63, "a" * 64) if is_label_value(text)] == [
        "",
        "a",
        "a.b",
        "a" * 63,
    ]


def test_huge_bound_matches_no_label() -> None:
    selector = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("a", "Gt", ("9" * 5000,)),)),))
    assert not node_matcher(selector).matches({"a": "1"}, "n")
