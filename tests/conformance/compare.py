"""Compare decisions of both sides, field by field: a result has decisions on pods, then on groups."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

Decision = dict[str, Any]

#: CEL errors come from different libraries: they are compared up to this text.
_CEL_ERRORS: Final = ("CEL compile error:", "CEL runtime error", "derived attribute gpu.example/numa")
_ABSENT: Final = "(absent)"
_NARROWED: Final = "node(s) didn't satisfy plugin(s)"
#: The bound member in the message is random, and so is the order of two conflicting values.
_BY_CHANCE: Final = ("cannot determine domain for already scheduled pods:", "should have the same")


class Difference(NamedTuple):
    """One differing field; ``kind`` is the field without the names in it."""

    pod: str
    path: str
    kind: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.pod}: {self.path}\n    ours:   {self.ours!r}\n    theirs: {self.theirs!r}"


def differences(actual: list[Decision], upstream: list[Decision]) -> list[Difference]:
    """Return all differing fields, pod by pod; another order of pods is a separate difference."""
    own_order, their_order = [_subject(item) for item in actual], [_subject(item) for item in upstream]
    if own_order != their_order:
        return [Difference("*", "decisions[].pod", "order", own_order, their_order)]
    results: list[Difference] = []
    for own, their in zip(actual, upstream, strict=True):
        if _is_by_chance(own, their):
            break
        results += _decision(own, their)
    return results


def _subject(decision: Decision) -> str:
    return decision["pod"] if "pod" in decision else f"group {decision['group']}"


def _is_by_chance(actual: Decision, upstream: Decision) -> bool:
    """Return whether upstream selected the node at random: a narrowed search uses map order, without scores the first.

    Later results depend on this selection, so they cannot be compared either.
    """
    if actual.get("node", "") == upstream.get("node", "") or "node" not in actual or "node" not in upstream:
        return False
    entries = [*actual.get("nodes", {}).values(), *upstream.get("nodes", {}).values()]
    narrowed = any(reason.startswith(_NARROWED) for entry in entries for reason in entry.get("reasons", ()))
    return narrowed and not any("total" in entry for entry in entries)


def _decision(actual: Decision, upstream: Decision) -> Iterator[Difference]:
    pod = _subject(upstream)
    # Of several gating plugins, upstream names the first one of its map.
    by_chance = {"unschedulablePlugins"} if actual.get("result") == upstream.get("result") == "gated" else set()
    for key in sorted({*actual, *upstream} - {"nodes"} - by_chance):
        own, their = actual.get(key, _ABSENT), upstream.get(key, _ABSENT)
        if _comparable(own) != _comparable(their):
            yield Difference(pod, key, key, own, their)
    own_nodes, their_nodes = actual.get("nodes", {}), upstream.get("nodes", {})
    for node in sorted({*own_nodes, *their_nodes}):
        yield from _node(pod, node, own_nodes.get(node), their_nodes.get(node))


def _node(pod: str, node: str, actual: Decision | None, upstream: Decision | None) -> Iterator[Difference]:
    if actual is None or upstream is None:
        yield Difference(pod, f"nodes.{node}", "nodes", actual or _ABSENT, upstream or _ABSENT)
        return
    for key in sorted({*actual, *upstream} - {"scores"}):
        own, their = actual.get(key, _ABSENT), upstream.get(key, _ABSENT)
        if _comparable(own) != _comparable(their):
            yield Difference(pod, f"nodes.{node}.{key}", f"nodes.{key}", own, their)
    own_scores, their_scores = actual.get("scores", {}), upstream.get("scores", {})
    for plugin in sorted({*own_scores, *their_scores}):
        own, their = own_scores.get(plugin, _ABSENT), their_scores.get(plugin, _ABSENT)
        if own != their:
            yield Difference(pod, f"nodes.{node}.scores.{plugin}", f"scores.{plugin}", own, their)


def _comparable(content: Any) -> Any:
    if isinstance(content, str):
        for mark in (*_CEL_ERRORS, *_BY_CHANCE):
            content = content.partition(mark)[0] + (mark if mark in content else "")
    elif isinstance(content, list | tuple):
        return [_comparable(item) for item in content]
    elif isinstance(content, dict):
        return {key: _comparable(item) for key, item in content.items()}
    return content
