"""Comparison of the results of both schedulers for the same pods, except for random choices of upstream."""

from dataclasses import fields
from typing import Final

from tests.conformance.compare import Difference
from tests.conformance.generator import Case
from tests.conformance.ours import decide
from tests.live.differential.play import Fate
from tests.live.differential.scene import Scene

COMPARED: Final = tuple(field.name for field in fields(Fate) if field.compare)


def differences(actual: list[Fate], upstream: list[Fate], scene: Scene) -> tuple[list[Difference], int]:
    """List the differences and count the compared pods: all, or those up to the first random choice.

    After a pod of another fate the clusters are not the same any more: what follows is not compared.
    """
    if [fate.pod for fate in actual] != [fate.pod for fate in upstream]:
        order = Difference("*", "pods", "pods", [fate.pod for fate in actual], [fate.pod for fate in upstream])
        return [order], 0
    for number, (own, their) in enumerate(zip(actual, upstream, strict=True)):
        if own == their:
            continue
        if is_by_chance(own, their, scene):
            return [], number
        return [
            Difference(own.pod, name, name, getattr(own, name), getattr(their, name))
            for name in COMPARED
            if getattr(own, name) != getattr(their, name)
        ], number + 1
    return [], len(actual)


def is_by_chance(actual: Fate, upstream: Fate, scene: Scene) -> bool:
    """Return whether both nodes are equal candidates of a narrowed search, which selects by map order."""
    if not (actual.node and upstream.node) or actual.node == upstream.node:
        return False
    case = Case(scene.seed, upstream.before, scene.config, feature_gates=scene.feature_gates)
    ties = {
        node
        for decision in decide(case)
        if decision["pod"].endswith(f"/{actual.pod}")
        for node in decision.get("tied", ())
    }
    return {actual.node, upstream.node} <= ties
