"""Score functions as expression trees: random trees, mutation, crossover, and their Python code."""

from collections.abc import Iterator
from random import Random
from typing import Final, TypeAlias

Expression: TypeAlias = "float | str | tuple[str, *tuple[Expression, ...]]"
"""A constant, the name of a feature, or an operator with its arguments."""

FEATURES: Final = {
    "cpu_used": ("requested CPU of the node, as a share of its CPU", "share(node.requested, node, 'cpu')"),
    "memory_used": ("the same for memory", "share(node.requested, node, 'memory')"),
    "gpu_used": ("the same for GPUs", "share(node.requested, node, 'moorage.io/gpu-milli')"),
    "pod_cpu": ("requested CPU of the pod, as a share of the node's CPU", "share(pod.requests, node, 'cpu')"),
    "pod_memory": ("the same for memory", "share(pod.requests, node, 'memory')"),
    "pod_gpu": ("the same for GPUs", "share(pod.requests, node, 'moorage.io/gpu-milli')"),
    "pods": ("number of pods on the node, as a share of its maximum", "len(node.pods) / size(node, 'pods')"),
    "node_cpu": ("CPU of the node, divided by 100 cores", "node.allocatable.get('cpu', 0) / 100_000"),
}
"""The description and the code of each feature."""

OPERATORS: Final = {
    "add": (2, "({} + {})"),
    "subtract": (2, "({} - {})"),
    "multiply": (2, "({} * {})"),
    "divide": (2, "divide({}, {})"),
    "min": (2, "min({}, {})"),
    "max": (2, "max({}, {})"),
    "distance": (2, "abs({} - {})"),
    "if_less": (4, "({2} if {0} < {1} else {3})"),
}
"""The number of arguments and the code of each operator."""

MAX_DEPTH: Final = 6
MAX_SIZE: Final = 40

_HELPERS: Final = """import math


def size(node, resource):
    return node.allocatable.get(resource, 0) or 1


def share(amounts, node, resource):
    return amounts.get(resource, 0) / size(node, resource)


def divide(a, b):
    return a / b if abs(b) > 1e-6 else 1.0


def score(pod, node):
"""


def generate_expression(random: Random, depth: int = 3) -> Expression:
    """Return a random expression of at most this depth."""
    if depth <= 0 or random.random() < 0.2:
        return round(random.uniform(-2, 2), 2) if random.random() < 0.25 else random.choice(list(FEATURES))
    operator = random.choice(list(OPERATORS))
    return (operator, *(generate_expression(random, depth - 1) for _ in range(OPERATORS[operator][0])))


def mutate(random: Random, expression: Expression) -> Expression:
    """Return the expression with one changed part: a constant is moved, or a part is replaced by a random one."""
    path = random.choice(list(_paths(expression)))
    part = _get_subtree(expression, path)
    if isinstance(part, float) and random.random() < 0.7:
        return _limit(_replace(expression, path, round(part + random.gauss(0, 0.5), 2)), expression)
    return _limit(_replace(expression, path, generate_expression(random, 2)), expression)


def cross(random: Random, first: Expression, second: Expression) -> Expression:
    """Return the first expression with one part replaced by a part of the second."""
    path = random.choice(list(_paths(first)))
    part = _get_subtree(second, random.choice(list(_paths(second))))
    return _limit(_replace(first, path, part), first)


def measure_size(expression: Expression) -> int:
    """Return the number of constants, features and operators."""
    return sum(1 for _ in _paths(expression))


def format_expression(expression: Expression) -> str:
    """Return an expression on one line, with the names of features.

    >>> format_expression(("multiply", 2.0, ("max", "cpu_used", "pods")))
    '(2.0 * max(cpu_used, pods))'
    """
    if not isinstance(expression, tuple):
        return str(expression)
    operator, *arguments = expression
    return OPERATORS[str(operator)][1].format(*map(format_expression, arguments))


def write_code(expression: Expression) -> str:
    """Return a module that defines ``score(pod, node)``: a smooth function of the expression, from 0 to 100."""
    parts = {_get_subtree(expression, path) for path in _paths(expression)}
    assignments = "".join(f"    {name} = {code}\n" for name, (_, code) in FEATURES.items() if name in parts)
    return f"{_HELPERS}{assignments}    return 50 + 50 * math.tanh({format_expression(expression)})\n"


def _limit(variant: Expression, original: Expression) -> Expression:
    """Return the changed expression, or the original one if the change makes it too large."""
    paths = list(_paths(variant))
    return variant if len(paths) <= MAX_SIZE and max(map(len, paths)) <= MAX_DEPTH else original


def _paths(expression: Expression, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield path
    if isinstance(expression, tuple):
        for number, argument in enumerate(expression[1:], 1):
            yield from _paths(argument, (*path, number))


def _get_subtree(expression: Expression, path: tuple[int, ...]) -> Expression:
    for step in path:
        assert isinstance(expression, tuple)
        expression = expression[step]
    return expression


def _replace(expression: Expression, path: tuple[int, ...], part: Expression) -> Expression:
    if not path:
        return part
    assert isinstance(expression, tuple)
    step = path[0]
    new_part = _replace(expression[step], path[1:], part)
    return (*expression[:step], new_part, *expression[step + 1 :])  # type: ignore[return-value]
