"""Cost bounds of selectors: the bound holds, and exceeding it is an error of the expression."""

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.expressions import Expressions
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import DRIVER, device

from moorage.kube.cel.cost import (
    MAX_COST,
    OverBudget,
    Size,
    _Estimate,
    estimate_cost,
    measure_size,
)
from moorage.kube.cel.syntax_tree import read_tree
from moorage.scheduler.plugins.dynamic_resources.cel import program
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    Program,
    device_facts,
)

FACTS = device_facts(DRIVER, device("d", attributes={"model": "a100" * 8, "cores": 16}, capacity={"memory": "40Gi"}))
TEN = "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"
LONG = f'"{"a" * 2000}"'


def in_loops(body: str, depth: int) -> str:
    """Repeat an expression a power of ten times."""
    for level in range(depth):
        body = f"{TEN}.all(v{level}, {body})"
    return body


TOO_EXPENSIVE = {
    "replace that multiplies": '"a"' + f'.replace("a", "{"a" * 32}")' * 7 + ' == ""',
    "replace of nothing": f'{LONG}.replace("", {LONG}).size() > 0',
    "strings that double": "cel.bind(a, 'aaaaaaaa', " + "cel.bind(a, a + a + a + a, " * 9 + "a.size() > 0" + ")" * 10,
    "lists that double": "cel.bind(a, [1, 1, 1, 1], " + "cel.bind(a, a + a + a + a, " * 9 + "a.size() > 0" + ")" * 10,
    "join of mapped values": f'{TEN}.map(x, {TEN}.map(y, {TEN}.map(z, {LONG}).join("")).join("")).join("") == ""',
    "format of an entire list": f'{TEN}.map(x, "%s%s".format([{TEN}.map(y, {LONG}), {LONG}])).size() == 0',
    "loops in loops": in_loops("true", 6),
    "functions of ours in loops": in_loops('quantity("1") == quantity("2") || true', 4),
    "a pattern that grows when compiled, in loops": in_loops('"a".matches("(x{0,30}){0,30}(y{0,30}){0,30}")', 3),
    "a concatenated pattern, in loops": in_loops(f'"a".matches(device.driver + {LONG})', 1),
    "a search that restarts at every letter": f'({" + ".join([LONG] * 4)}).findAll("(a|aa)*b|a").size() > 0',
    "sets of many letters": f"sets.equivalent({LONG}.split(''), {LONG}.split(''))",
}


@pytest.mark.parametrize("expression", TOO_EXPENSIVE.values(), ids=TOO_EXPENSIVE)
def test_expression_over_the_cost_limit_is_an_error(expression: str) -> None:
    with pytest.raises(CelRuntimeError, match="actual cost limit exceeded"):
        Program(expression).matches(FACTS)


AFFORDABLE = {
    "a loop over all attributes": "device.attributes.all(d, device.attributes[d].all(k, k.size() > 0))",
    "a pair of loops over them": 'cel.bind(a, device.attributes["gpu.example"], a.all(k, a.all(l, k + l != "")))',
    "a pattern per item": 'device.attributes["gpu.example"].all(k, k.matches("^[a-z]{1,20}$"))',
    "a pattern from the device": 'device.driver.matches("^" + device.driver + "$")',
    "strings that are split and joined": '"a,b,c".split(",").map(x, x.replace("a", "bb")).join("-") == "bb-b-c"',
    "quantities": 'cel.bind(c, device.capacity["gpu.example"], c.all(k, c[k].isLessThan(quantity("1Ti"))))',
    "a pattern that would backtrack": f'"{"a" * 40}!".find("(a+)+$") == ""',
}


@pytest.mark.parametrize("expression", AFFORDABLE.values(), ids=AFFORDABLE)
def test_common_expressions_remain_within_the_cost_limit(expression: str) -> None:
    assert Program(expression).matches(FACTS)


def test_the_larger_branch_counts() -> None:
    cheap, dear = '"a" == "b"', f"{TEN}.all(x, {TEN}.all(y, true))"

    def cost(expression: str) -> float:
        return estimate_cost(parse_expression_tree(expression), {})

    combined = cost(f"true ? {cheap} : {dear}")
    assert combined == cost(f"true ? {dear} : {cheap}")
    assert cost(dear) < combined < cost(dear) + cost(cheap)


def test_a_budget_is_for_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each domain that is computed at run time costs an evaluation more."""
    expression = '!("x" in device.attributes["a" + "b"]) && !("x" in device.attributes["c" + "d"])'
    assert Program(expression).matches(FACTS)
    monkeypatch.setattr(
        program, "MAX_COST", 1.5 * estimate_cost(parse_expression_tree(expression), {"device": FACTS.size})
    )
    with pytest.raises(CelRuntimeError):
        Program(expression).matches(device_facts(DRIVER, device("other", attributes={"model": "x"})))


def test_sizes_are_rounded_up_so_that_devices_of_a_kind_are_priced_once() -> None:
    assert measure_size({"a": {"uuid": "x" * 36}}) == measure_size({"b": {"uuid": "y" * 60}})
    assert measure_size({"a": "x" * 64}) != measure_size({"a": "x" * 65})


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.integers(0, 5))
def test_any_expression_raises_only_our_errors(chance: Random, depth: int) -> None:
    makes = Expressions(chance)
    expression = makes.boolean(depth)
    for text in (expression, makes.garbled(expression)):
        with suppress(CelCompileError, CelRuntimeError):
            Program(text).matches(device_facts(DRIVER, device("d", attributes={"model": "a100"})))


@settings(max_examples=100)
@given(st.text(max_size=40), st.text(max_size=40))
def test_the_cost_bound_holds_for_any_pattern(pattern: str, text: str) -> None:
    stored, searched = (string_literal(each) for each in (pattern, text))
    expression = f"{searched}.find({stored}) != 'x' && {searched}.findAll({stored}).size() >= 0"
    with suppress(CelCompileError, CelRuntimeError):
        Program(f"{expression} && {searched}.matches({stored})").matches(FACTS)


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.integers(0, 4), st.booleans())
def test_no_value_is_larger_than_its_bound(chance: Random, depth: int, is_text: bool) -> None:
    makes = Expressions(chance)
    expression = makes.text(depth) if is_text else makes.items(depth)
    variables = {"device": FACTS.as_device(frozenset(), set())}
    try:
        estimate = _Estimate()
        bound = estimate.visit(parse_expression_tree(expression), {"device": FACTS.size})
    except OverBudget:
        return
    except CelCompileError:  # deeper than cel-cpp takes
        return
    assert estimate.cost <= MAX_COST
    try:
        result = program._compile(program._environments()[1], expression, check=False).eval(data=variables)
    except RuntimeError:  # out of iterations
        return
    if result.type().name() != "ERROR":
        assert fits(result.plain_value(), bound), (expression, bound)


def fits(value: Any, bound: Size) -> bool:
    if isinstance(value, str):
        return len(value.encode()) <= bound.length
    return len(value) <= bound.length and all(fits(item, bound.entry()) for item in value)


def parse_expression_tree(expression: str) -> Any:
    return read_tree(program._compile(program._environments()[1], expression, check=False).serialize())


def string_literal(text: str) -> str:
    return '"' + "".join(f"\\U{ord(letter):08x}" for letter in text) + '"'
