"""Score functions as expressions: their code agrees with a definition by hand, and changes keep them valid."""

import ast
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.lab.evolving.expressions import (
    FEATURES,
    MAX_DEPTH,
    MAX_SIZE,
    OPERATORS,
    Expression,
    cross,
    format_expression,
    generate_expression,
    measure_size,
    mutate,
    write_code,
)

GPU = "moorage.io/gpu-milli"
NODE = SimpleNamespace(
    requested={"cpu": 4000, "memory": 10, GPU: 500},
    allocatable={"cpu": 16_000, "memory": 40, GPU: 2000, "pods": 10},
    pods={"a": 1, "b": 2},
)
POD = SimpleNamespace(requests={"cpu": 1600, "memory": 20, GPU: 1000})
VALUES = {
    "cpu_used": 0.25,
    "memory_used": 0.25,
    "gpu_used": 0.25,
    "pod_cpu": 0.1,
    "pod_memory": 0.5,
    "pod_gpu": 0.5,
    "pods": 0.2,
    "node_cpu": 0.16,
}
RESULTS: dict[str, tuple[Expression, float]] = {
    "a constant": (0.5, 0.5),
    "a sum": (("add", "cpu_used", 1.0), 1.25),
    "a difference": (("subtract", "pod_memory", "cpu_used"), 0.25),
    "a product": (("multiply", "pod_memory", "pods"), 0.1),
    "a quotient": (("divide", "pods", "pod_memory"), 0.4),
    "a quotient by 0 is 1": (("divide", "pods", 0.0), 1.0),
    "the smaller one": (("min", "pods", "pod_memory"), 0.2),
    "the larger one": (("max", "pods", "pod_memory"), 0.5),
    "a distance": (("distance", "pods", "pod_memory"), 0.3),
    "a condition that holds": (("if_less", "pods", 1.0, "pod_cpu", "node_cpu"), 0.1),
    "a condition that does not hold": (("if_less", 1.0, "pods", "pod_cpu", "node_cpu"), 0.16),
    **{name: (name, value) for name, value in VALUES.items()},
}


def load_score(expression: Expression) -> Callable[[Any, Any], float]:
    names: dict[str, Any] = {}
    exec(write_code(expression), names)
    score: Callable[[Any, Any], float] = names["score"]
    return score


@pytest.mark.parametrize("name", RESULTS)
def test_code_computes_the_expression(name: str) -> None:
    expression, value = RESULTS[name]
    names: dict[str, Any] = {}
    exec(write_code(expression), names)
    names["math"] = SimpleNamespace(tanh=lambda number: number)
    assert names["score"](POD, NODE) == pytest.approx(50 + 50 * value)


def test_table_covers_all_features_and_operators() -> None:
    assert VALUES.keys() == FEATURES.keys()
    assert {case[0][0] for case in RESULTS.values() if isinstance(case[0], tuple)} == OPERATORS.keys()


def test_scores_of_random_expressions_are_in_range_also_on_empty_nodes() -> None:
    empty = SimpleNamespace(requested={}, allocatable={}, pods={})
    small_pod = SimpleNamespace(requests={})
    random = Random(5)
    for _ in range(300):
        score = load_score(generate_expression(random, 4))
        assert all(0 <= score(pod, node) <= 100 for pod in (POD, small_pod) for node in (NODE, empty))


def test_changes_are_valid_and_limited() -> None:
    random = Random(7)
    expression, other = generate_expression(random, 3), generate_expression(random, 3)
    variants = set()
    for _ in range(400):
        expression = mutate(random, cross(random, expression, other))
        assert measure_size(expression) <= MAX_SIZE
        depth = max(map(len, _list_paths(expression)))
        assert depth <= MAX_DEPTH
        ast.parse(write_code(expression))
        variants.add(format_expression(expression))
    assert len(variants) > 50


def _list_paths(expression: Expression, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    arguments = expression[1:] if isinstance(expression, tuple) else ()
    return [path, *(p for i, part in enumerate(arguments) for p in _list_paths(part, (*path, i)))]
