"""`manual.mutants`: the changes it makes, how it installs them, and the tests it selects."""

import ast
import importlib.util
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from manual.mutants import ROOT, SOURCE, find_mutations, install, list_mutations, nearby_tests

CHANGES = {
    "comparisons are swapped": ("a < b", ["a <= b"]),
    "arithmetic is swapped": ("a - b * 2", ["a + b * 2", "b + 2"]),
    "and becomes or": ("a and b", ["a or b"]),
    "a negation is removed": ("not a", ["a"]),
    "numbers and booleans are negated": ("f(0, 1.0, True, 7)", ["pass", "1", "0.0", "False"]),
    "a condition is negated": ("if a:\n    b()", ["not a", "pass"]),
    "a result becomes None": ("return a", ["return None"]),
    "a constant result remains": ("return None", []),
    "a call is dropped": ("a.b()", ["pass"]),
    "an addition is swapped and dropped": ("a += b", ["a -= b", "pass"]),
    "an assigned attribute is dropped": ("a.b = c", ["pass"]),
    "a variable remains": ("a = c", []),
    "log messages remain": ("log.info('x', a=1)", []),
    "annotations remain": ("a: Literal[1] = b", []),
}


@pytest.mark.parametrize(("source", "changes"), CHANGES.values(), ids=CHANGES)
def test_mutations(source: str, changes: list[str]) -> None:
    assert [mutation.change.partition("  ->  ")[2] for mutation in find_mutations(ast.parse(source))] == changes


MODULE = """
LIMIT = 1

class Counter:
    def __init__(self):
        self.total = 0
        self.last = None

    def add(self, amount):
        def accepted():
            return amount > 0
        if accepted():
            self.total += amount
        return self.total
"""


def load(path: Path) -> ModuleType:
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("counted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOTALS = {
    "return amount > 0  ->  return None": [0, 0],
    "amount > 0  ->  amount >= 0": [2, 5],
    "self.total += amount  ->  self.total -= amount": [-2, -5],
    "self.total += amount  ->  pass": [0, 0],
    "return self.total  ->  return None": [None, None],
}


@pytest.mark.parametrize(("change", "totals"), TOTALS.items(), ids=TOTALS)
def test_mutant_replaces_the_code_of_loaded_functions(change: str, totals: list[int | None], tmp_path: Path) -> None:
    path = tmp_path / "counted.py"
    counter = load(path).Counter()
    functions = [function for function in vars(type(counter)).values() if isinstance(function, FunctionType)]
    numbers = [number for number, mutation in enumerate(list_mutations(path)[1]) if mutation.change == change]
    install(path, numbers[0], functions)
    assert [counter.add(2), counter.add(3)] == totals


def test_constants_of_modules_and_initial_attributes_are_not_mutated(tmp_path: Path) -> None:
    load(tmp_path / "counted.py")
    mutations = list_mutations(tmp_path / "counted.py")[1]
    assert [(mutation.line, mutation.change) for mutation in mutations if mutation.line < 9] == [(6, "0  ->  1")]
    assert len({mutation[:2] for mutation in mutations}) == len(mutations), "nested functions count once"


def test_tests_near_a_module_are_those_at_the_mirrored_path() -> None:
    folder = ROOT / "tests" / "unit" / "scheduler" / "queue"
    assert nearby_tests(SOURCE / "scheduler" / "queue" / "heap.py") == [folder / "test_heap.py"]
    assert folder / "test_heap.py" in nearby_tests(SOURCE / "scheduler" / "queue" / "without_tests.py")
