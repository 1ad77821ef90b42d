"""Requirements of a pod on the labels and names of nodes."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from moorage.common.errors import SelectorError
from moorage.insight.explain.subject import Draft, Remedy, Subject
from moorage.insight.whatif.edits import remove_items
from moorage.kube.api.selectors import NODE_NAME_FIELD, NodeSelectorTerm, node_term_matcher
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.node_affinity import find_node_affinity, read_demands

MAX_SETS: Final = 12
MAX_VALUES: Final = 6
MIN_RATIO: Final = 0.85
FACTS: Final = ("kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/")
"""Prefixes of labels that describe the machine, such as its architecture: another value is another choice."""
_DIGITS: Final = re.compile(r"\d+").findall
REQUIRED: Final = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def correct(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Replace values that no node has, and that are similar to an existing one: they are probably misspelt."""
    draft, texts = subject.draft(), list[str]()
    for key, text in (subject.pod.spec.node_selector or {}).items():
        if close := _similar(subject, key, text):
            draft.put(("spec", "nodeSelector", key), close[0])
            texts.append(f"{key} in its node selector from {text} to {close[0]}{_others(close)}")
    required = find_node_affinity(subject.pod).required
    for at, term in enumerate(required.node_selector_terms if required is not None else ()):
        for number, item in enumerate(term.match_expressions):
            similar = [_similar(subject, item.key, text) for text in item.values] if item.operator == "In" else []
            if similar and all(similar):
                path = (*REQUIRED, "nodeSelectorTerms", at, "matchExpressions", number, "values")
                draft.put(path, [close[0] for close in similar])
                old, new = ",".join(item.values), ",".join(close[0] for close in similar)
                texts.append(f"{item.key} in its required node affinity from {old} to {new}{_others(similar[0])}")
    if texts and (offer := subject.offer("selector", f"Change {' and '.join(texts)}", draft.edit(), cost=-1)):
        yield offer


def _similar(subject: Subject, key: str, text: str) -> list[str]:
    """Return the values of a label, the most similar first; none if the value exists or no other is similar."""
    values = [value for value in subject.nodes.label(key).values if value is not None]
    if text in values or key.startswith(FACTS):
        return []
    ratios = {value: SequenceMatcher(None, text, value).ratio() for value in values}
    values.sort(key=lambda value: -ratios[value])
    # Another number is another thing: pool-2 is not a misspelt pool-1.
    is_similar = bool(values) and ratios[values[0]] >= MIN_RATIO and _DIGITS(text) == _DIGITS(values[0])
    return values if is_similar else []


def _others(values: Sequence[str]) -> str:
    return f" (existing values: {', '.join(values[:MAX_VALUES])})" if len(values) > 1 else ""


def _existing(subject: Subject, key: str) -> str:
    values = sorted(value for value in subject.nodes.label(key).values if value is not None)
    return f" (nodes have {', '.join(values[:MAX_VALUES])})" if values else " (no node has this label)"


def loosen(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Remove the labels of the node selector, or the expressions of an affinity term, that a node does not meet."""
    ways = dict.fromkeys(way for row in rows for way in _ways(subject, subject.nodes[row]))
    offered: set[str] = set()
    for way in sorted(ways, key=lambda way: _size(subject, way))[:MAX_SETS]:
        keys, term, expressions, fields = way
        draft = subject.draft()
        for key in keys:
            draft.remove("spec", "nodeSelector", key)
        selector = subject.pod.spec.node_selector or {}
        descriptions = [f"{key}={selector[key]} from its node selector{_existing(subject, key)}" for key in keys]
        if term is not None:
            descriptions.append(_drop(draft, subject, term, expressions, fields))
        kind = "affinity" if term is not None else "selector"
        if kind in offered:
            continue
        text = f"Remove {' and '.join(descriptions)}"
        if offer := subject.offer(kind, text, draft.edit(), cost=_size(subject, way)):
            offered.add(kind)
            yield offer


def _size(subject: Subject, way: tuple[Any, ...]) -> int:
    keys, term, expressions, fields = way
    if term is None:
        return len(keys)
    if _is_dropped_whole(subject, term, expressions, fields):
        return len(keys) + sum(len(item.match_expressions) + len(item.match_fields) for item in _terms(subject)) + 1
    return len(keys) + len(expressions) + len(fields)


def _ways(subject: Subject, node: NodeInfo) -> Iterator[tuple[Any, ...]]:
    """List the parts to remove for each node: keys of the selector, and expressions of one affinity term."""
    selector = subject.pod.spec.node_selector or {}
    keys = tuple(key for key, text in selector.items() if node.labels.get(key) != text)
    demands, required = read_demands(subject.pod), find_node_affinity(subject.pod).required
    if demands.affinity is None or required is None or _is_met(subject, node):
        yield (keys, None, (), ())
        return
    for index, term in enumerate(required.node_selector_terms):
        try:
            matcher = node_term_matcher(term)
        except SelectorError:
            continue
        unmet = tuple(n for n, item in enumerate(matcher.expressions) if not item.matches(node.labels))
        misnamed = tuple(
            n
            for n, item in enumerate(matcher.fields)
            if not item.accepts(node.name if item.key == NODE_NAME_FIELD else None)
        )
        yield (keys, index, unmet, misnamed)
    yield (keys, -1, (), ())


def _is_met(subject: Subject, node: NodeInfo) -> bool:
    affinity = read_demands(subject.pod).affinity
    if affinity is None or not affinity.matches(node.labels, node.name):
        return False
    status = subject.obstacles.of(node.row).get("NodeAffinity")
    names_conflict = "NodeAffinity" in subject.obstacles.everywhere
    return status is None or find_node_affinity(subject.pod).required is None or not names_conflict


def _drop(draft: Draft, subject: Subject, index: int, expressions: tuple[int, ...], fields: tuple[int, ...]) -> str:
    terms = _terms(subject)
    if _is_dropped_whole(subject, index, expressions, fields):
        draft.remove(*REQUIRED)
        return "its required node affinity"
    path = (*REQUIRED, "nodeSelectorTerms", index)
    draft.do(*remove_items((*path, "matchExpressions"), expressions))
    draft.do(*remove_items((*path, "matchFields"), fields))
    term = terms[index]
    dropped = [*(term.match_expressions[n] for n in expressions), *(term.match_fields[n] for n in fields)]
    texts = [" ".join((item.key, item.operator, ",".join(item.values))).strip() for item in dropped]
    return f"{' and '.join(repr(text) for text in texts)} from its required node affinity"


def _terms(subject: Subject) -> tuple[NodeSelectorTerm, ...]:
    required = find_node_affinity(subject.pod).required
    assert required is not None
    return required.node_selector_terms


def _is_dropped_whole(subject: Subject, index: int, expressions: tuple[int, ...], fields: tuple[int, ...]) -> bool:
    """Return whether a term would become empty, which matches nothing, or remains unchanged."""
    if index < 0 or not (expressions or fields):
        return True
    term = _terms(subject)[index]
    return len(term.match_expressions) == len(expressions) and len(term.match_fields) == len(fields)
