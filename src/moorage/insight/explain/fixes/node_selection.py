"""Requirements of a pod on the labels and names of nodes."""

from collections.abc import Iterator
from typing import Any, Final

from moorage.common.errors import SelectorError
from moorage.insight.explain.fixes.nodes import find_intended_key, has_own_nodes, is_misspelt
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import LAST_RESORT, RELUCTANT, Draft, Remedy, Subject
from moorage.insight.whatif.edits import remove_items
from moorage.kube.api.node import REGION_LABEL, ZONE_LABEL
from moorage.kube.api.selectors import NODE_NAME_FIELD, NodeSelectorTerm, node_term_matcher
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.node_affinity import find_node_affinity, read_demands

MAX_SETS: Final = 12
MAX_VALUES: Final = 6
MACHINE_LABELS: Final = frozenset(("kubernetes.io/arch", "kubernetes.io/os"))
"""Labels that the image of a container depends on: the pod may start on other nodes, but not run."""
TOPOLOGY: Final = frozenset((ZONE_LABEL, REGION_LABEL))
REQUIRED: Final = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def correct(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Replace labels, values and node names that no node has, and that are probably misspelt."""
    draft, texts = subject.draft(), list[str]()
    for key, text in (subject.pod.spec.node_selector or {}).items():
        intended_key, intended = (
            find_intended_key(subject, key, (text,)),
            find_intended(text, subject.label_values(key)),
        )
        if intended_key:
            draft.remove("spec", "nodeSelector", key).put(("spec", "nodeSelector", intended_key), text)
            texts.append(f"the label {key} in its node selector to {intended_key}")
        elif intended:
            draft.put(("spec", "nodeSelector", key), intended)
            texts.append(
                f"{key} in its node selector from {text} to {intended}{_format_others(subject, key, intended)}"
            )
    required = find_node_affinity(subject.pod).required
    for at, term in enumerate(required.node_selector_terms if required is not None else ()):
        for number, item in enumerate(term.match_expressions):
            path = (*REQUIRED, "nodeSelectorTerms", at, "matchExpressions", number)
            if intended_key := find_intended_key(subject, item.key, item.values if item.operator == "In" else ()):
                draft.put((*path, "key"), intended_key)
                texts.append(f"the label {item.key} in its required node affinity to {intended_key}")
                continue
            values = (
                [find_intended(text, subject.label_values(item.key)) for text in item.values]
                if item.operator == "In"
                else []
            )
            if values and all(values):
                draft.put((*path, "values"), values)
                old, new = ",".join(item.values), ",".join(values)
                existing = _format_others(subject, item.key, values[0])
                texts.append(f"{item.key} in its required node affinity from {old} to {new}{existing}")
        for number, field in enumerate(term.match_fields):
            names = [find_intended(name, subject.nodes.names) for name in field.values]
            if field.operator == "In" and field.key == NODE_NAME_FIELD and names and all(names):
                draft.put((*REQUIRED, "nodeSelectorTerms", at, "matchFields", number, "values"), names)
                texts.append(
                    f"the node name in its required node affinity from {','.join(field.values)} to {','.join(names)}"
                )
    if texts and (offer := subject.offer("selector", f"Change {' and '.join(texts)}", draft.edit(), cost=-1)):
        yield offer


def _format_others(subject: Subject, key: str, suggested: str) -> str:
    values = [suggested, *(value for value in subject.label_values(key) if value != suggested)]
    return f" (existing values: {', '.join(values[:MAX_VALUES])})" if len(values) > 1 else ""


def _existing(subject: Subject, key: str) -> str:
    values = subject.label_values(key)
    return f" (nodes have {', '.join(values[:MAX_VALUES])})" if values else " (no node has this label)"


def loosen(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Remove the labels of the node selector, or the expressions of an affinity term, that a node does not meet."""
    removals = dict.fromkeys(removal for row in rows for removal in _list_removals(subject, subject.nodes[row]))
    offered: set[str] = set()
    has_nodes = has_own_nodes(subject, "NodeAffinity")

    def rank(removal: tuple[Any, ...]) -> tuple[bool, int, bool]:
        # Another zone is less of a change than another kind of machine.
        keys = removal[0]
        return _is_unwise(subject, removal), _size(subject, removal), not all(key in TOPOLOGY for key in keys)

    for removal in sorted(removals, key=rank)[:MAX_SETS]:
        keys, term, expressions, fields = removal
        if not subject.runtime_labels.keys().isdisjoint(keys):
            continue  # admission would restore them
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
        cost = _size(subject, removal) + (LAST_RESORT if _is_unwise(subject, removal) else RELUCTANT * has_nodes)
        if offer := subject.offer(kind, text, draft.edit(), cost=cost):
            offered.add(kind)
            yield offer


def _is_unwise(subject: Subject, removal: tuple[Any, ...]) -> bool:
    """Return whether a way drops the architecture or the operating system, or a misspelled label."""
    keys, term, expressions, _ = removal
    selector = subject.pod.spec.node_selector or {}
    if any(key in MACHINE_LABELS or is_misspelt(subject, key, selector[key]) for key in keys):
        return True
    terms = () if term is None else _terms(subject)
    if term == -1:
        return any(item.key in MACHINE_LABELS for node_term in terms for item in node_term.match_expressions)
    return any(terms[term].match_expressions[number].key in MACHINE_LABELS for number in expressions)


def _size(subject: Subject, removal: tuple[Any, ...]) -> int:
    keys, term, expressions, fields = removal
    if term is None:
        return len(keys)
    if _is_dropped_whole(subject, term, expressions, fields):
        return len(keys) + sum(len(item.match_expressions) + len(item.match_fields) for item in _terms(subject)) + 1
    return len(keys) + len(expressions) + len(fields)


def _list_removals(subject: Subject, node: NodeInfo) -> Iterator[tuple[Any, ...]]:
    """List the parts to remove for each node: keys of the selector, and expressions of an affinity term."""
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
        single = terms[0].match_expressions[0] if len(terms) == 1 and len(terms[0].match_expressions) == 1 else None
        if single is None or terms[0].match_fields:
            return "its required node affinity"
        text = " ".join((single.key, single.operator, ",".join(single.values))).strip()
        return f"its required node affinity {text!r}{_existing(subject, single.key)}"
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
