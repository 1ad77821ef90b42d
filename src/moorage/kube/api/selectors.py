"""Label and node selectors: parsed once into matchers that are hashable, so that equal selectors share their work."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from moorage.common.caches import cached
from moorage.common.errors import SelectorError
from moorage.kube.api.integers import to_int64
from moorage.kube.api.struct import KubeStruct

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")
NODE_NAME_FIELD: Final = "metadata.name"
MANY: Final = 16
"""Selectors with more requirements than this are evaluated by key: an object of a megabyte has 100,000."""
ACCEPT_ABSENT: Final = ("NotIn", "DoesNotExist")
"""Operators that accept an absent key."""

_NAME: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)\Z")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")


class LabelSelectorRequirement(KubeStruct, frozen=True):
    """One expression of a label selector, as written."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(KubeStruct, frozen=True):
    """Labels that must be equal and expressions that must hold, as written."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(LabelSelectorRequirement, frozen=True):
    """One expression over a node's labels or fields, as written."""


class NodeSelectorTerm(KubeStruct, frozen=True):
    """Expressions that must all hold. A term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True):
    """Alternative terms; without terms nothing matches."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Requirement(Struct, frozen=True):
    """One parsed expression. ``bound`` is the integer that Gt and Lt compare with."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels satisfy the expression."""
        return self.accepts(labels.get(self.key))

    def accepts(self, text: str | None) -> bool:
        """Return whether this value of the key satisfies the expression. ``None`` means the key is absent."""
        match self.operator:
            case "In":
                return text in self.values
            case "NotIn":
                return text not in self.values
            case "Exists":
                return text is not None
            case "DoesNotExist":
                return text is None
            case "Gt":
                return text is not None and (number := to_int64(text)) is not None and number > self.bound
            case _:
                return text is not None and (number := to_int64(text)) is not None and number < self.bound


def merge_requirements(requirements: Iterable[Requirement]) -> list[Requirement]:
    """Return equivalent requirements, at most one of each operator for a key."""
    requirements = tuple(requirements)
    if len({item.key for item in requirements}) == len(requirements):
        return list(requirements)
    groups: dict[tuple[str, str], list[Requirement]] = {}
    for item in requirements:
        groups.setdefault((item.key, item.operator), []).append(item)
    return [group[0] if len(group) == 1 else _merge(group) for group in groups.values()]


def _merge(group: Sequence[Requirement]) -> Requirement:
    key, operator, values = group[0].key, group[0].operator, [item.values for item in group]
    match operator:
        case "In":
            return Requirement(key, operator, frozenset.intersection(*values))
        case "NotIn":
            return Requirement(key, operator, frozenset().union(*values))
        case "Gt":
            return max(group, key=lambda item: item.bound)
        case "Lt":
            return min(group, key=lambda item: item.bound)
        case _:
            return group[0]


class RequirementsByKey:
    """Many requirements, indexed by label key: only requirements about the labels of an object are evaluated."""

    __slots__ = ("_by_key", "_required_keys")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        merged_requirements = merge_requirements(requirements)
        self._by_key: dict[str, tuple[Requirement, ...]] = {item.key: (item,) for item in merged_requirements}
        if len(self._by_key) < len(merged_requirements):
            self._by_key = {}
            for item in merged_requirements:
                self._by_key[item.key] = (*self._by_key.get(item.key, ()), item)
        self._required_keys = {item.key for item in merged_requirements if item.operator not in ACCEPT_ABSENT}

    def match(self, labels: Mapping[str, str]) -> bool:
        """Return whether a label set satisfies all requirements."""
        if not labels.keys() >= self._required_keys:
            return False
        by_key = self._by_key
        for key, text in labels.items():
            for item in by_key.get(key, ()):
                if not item.accepts(text):
                    return False
        return True


class LabelMatcher(Struct, frozen=True, dict=True):
    """A parsed label selector: all requirements must hold. A null selector is parsed to ``NOTHING``."""

    requirements: tuple[Requirement, ...] = ()
    is_nothing: bool = False

    def __hash__(self) -> int:
        if len(self.requirements) <= MANY:
            return hash((self.requirements, self.is_nothing))
        value: int | None = self.__dict__.get("hash")
        if value is None:
            value = self.__dict__["hash"] = hash(self.requirements)
        return value

    @property
    def is_everything(self) -> bool:
        """Whether every label set matches: the empty selector, ``{}``."""
        return not self.requirements and not self.is_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a label set is selected."""
        if self.is_nothing:
            return False
        if len(self.requirements) > MANY:
            return _by_key(self, self.requirements).match(labels)
        # Plain loops here and below: preemption checks single nodes thousands of times, and generators are slow.
        for requirement in self.requirements:  # noqa: SIM110
            if not requirement.accepts(labels.get(requirement.key)):
                return False
        return True

    def also(self, labels: Mapping[str, str]) -> "LabelMatcher":
        """Narrow the selection to label sets that also carry these labels. Nothing remains nothing."""
        if self.is_nothing or not labels:
            return self
        if not self.requirements:
            return label_set_matcher(labels)
        return LabelMatcher(_canonical([*self.requirements, *_equalities(labels)]))


NOTHING: Final = LabelMatcher(is_nothing=True)
EVERYTHING: Final = LabelMatcher()


def label_matcher(selector: LabelSelector | None) -> LabelMatcher:
    """Parse a label selector: null selects nothing, ``{}`` everything."""
    if selector is None:
        return NOTHING
    if not selector.match_expressions:
        return label_set_matcher(selector.match_labels)
    expressions = [
        parse_requirement(item.key, item.operator, item.values, operators=LABEL_OPERATORS)
        for item in selector.match_expressions
    ]
    return LabelMatcher(_canonical([*_equalities(selector.match_labels), *expressions]))


def label_set_matcher(labels: Mapping[str, str]) -> LabelMatcher:
    """Select what carries all of these labels, as a Service's selector does."""
    return LabelMatcher(tuple(_equalities(labels if len(labels) == 1 else dict(sorted(labels.items())))))


def _by_key(owner: "LabelMatcher | NodeTermMatcher", requirements: tuple[Requirement, ...]) -> RequirementsByKey:
    by_key: RequirementsByKey | None = owner.__dict__.get("by_key")
    if by_key is None:
        by_key = owner.__dict__["by_key"] = RequirementsByKey(requirements)
    return by_key


class NodeTermMatcher(Struct, frozen=True, dict=True):
    """A parsed node selector term; ``matches_nothing`` covers empty terms and terms that do not parse."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name satisfies the term."""
        if self.matches_nothing:
            return False
        if len(self.expressions) > MANY:
            if not _by_key(self, self.expressions).match(labels):
                return False
        else:
            for item in self.expressions:
                if not item.accepts(labels.get(item.key)):
                    return False
        for item in self.fields:  # noqa: SIM110
            if not item.accepts(name if item.key == NODE_NAME_FIELD else None):
                return False
        return True


class NodeMatcher(Struct, frozen=True):
    """A parsed node selector: one of the terms must hold."""

    terms: tuple[NodeTermMatcher, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name is selected."""
        for term in self.terms:  # noqa: SIM110
            if term.matches(labels, name):
                return True
        return False


def count_characters(selector: NodeSelector) -> int:
    """Return the number of characters in the values of a node selector, the part of variable length."""
    return sum(
        sum(map(len, item.values))
        for term in selector.node_selector_terms
        for item in (*term.match_expressions, *term.match_fields)
    )


def node_matcher(selector: NodeSelector) -> NodeMatcher:
    """Parse a node selector; a term that does not parse matches nothing, as upstream ignores its error."""
    return NodeMatcher(tuple([_forgiving_term(term) for term in selector.node_selector_terms]))


def _forgiving_term(term: NodeSelectorTerm) -> NodeTermMatcher:
    try:
        return node_term_matcher(term)
    except SelectorError:
        return NodeTermMatcher(matches_nothing=True)


def node_term_matcher(term: NodeSelectorTerm) -> NodeTermMatcher:
    """Parse one node selector term. Raise :class:`SelectorError` if it is invalid."""
    if not term.match_expressions and not term.match_fields:
        return NodeTermMatcher(matches_nothing=True)
    expressions = tuple(
        parse_requirement(item.key, item.operator, item.values, operators=NODE_OPERATORS)
        for item in term.match_expressions
    )
    return NodeTermMatcher(expressions, tuple(_parse_field(item) for item in term.match_fields))


def _parse_field(item: NodeSelectorRequirement) -> Requirement:
    if item.operator not in ("In", "NotIn"):
        raise SelectorError(f"matchFields operator {item.operator!r} is unknown; write In or NotIn")
    if len(item.values) != 1:
        raise SelectorError(f"matchFields {item.key!r} needs exactly one value, found {len(item.values)}")
    return Requirement(item.key, item.operator, frozenset(item.values))


def parse_requirement(key: str, operator: str, values: Iterable[str], *, operators: tuple[str, ...]) -> Requirement:
    """Validate and parse one expression by the rules of Kubernetes."""
    operands = tuple(values)
    if operator not in operators:
        raise SelectorError(f"{key}: operator {operator!r} is unknown; write one of {', '.join(operators)}")
    if not is_qualified_name(key):
        raise SelectorError(
            f"{key!r} is not a label key; write a name of at most 63 characters, with an optional prefix/"
        )
    if operator in ("In", "NotIn") and not operands:
        raise SelectorError(f"{key}: operator {operator} needs at least one value")
    if operator in ("Exists", "DoesNotExist") and operands:
        raise SelectorError(f"{key}: operator {operator} takes no values, found {len(operands)}")
    if operator in ("Gt", "Lt"):
        # The integer is a label value, too: upstream ignores terms with a sign.
        limit = to_int64(operands[0]) if len(operands) == 1 and is_label_value(operands[0]) else None
        if limit is None:
            text = f"operator {operator} needs exactly one integer without a sign, found {list(operands)}"
            raise SelectorError(f"{key}: {text}")
        return Requirement(key, operator, frozenset(operands), limit)
    for operand in operands:
        if not is_label_value(operand):
            raise SelectorError(f"{key}: {operand!r} is not a label value")
    return Requirement(key, operator, frozenset(operands))


@cached(2048)
def is_qualified_name(name: str) -> bool:
    """Return whether a text may be a label key or resource name: a name, or a DNS prefix, a slash and a name."""
    return check_qualified_name(name)


def check_qualified_name(name: str) -> bool:
    """Return the same without a cache."""
    prefix, slash, local = name.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.match(prefix)):
        return False
    return bool(_NAME.match(local))


@cached(2048)
def is_label_value(text: str) -> bool:
    """Return whether a text may be the value of a label."""
    return text == "" or bool(_NAME.match(text))


def _equalities(labels: Mapping[str, str]) -> list[Requirement]:
    return [Requirement(key, "In", frozenset((text,))) for key, text in labels.items()]


def _canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Order the requirements, so that selectors meaning the same are equal."""
    return tuple(sorted(requirements, key=lambda item: (item.key, item.operator, sorted(item.values))))
