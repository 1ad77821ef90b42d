"""`make mutants`: change one expression or statement of a function at a time, and run the tests near it.

A mutant survives if all these tests pass. It is then either equivalent to the original, or a test is missing. The tests
near ``src/moorage/a/b.py`` are ``tests/unit/a/test_b.py``, or all of ``tests/unit/a`` if that file is missing. No file
is modified: all tests are collected once, and each mutant replaces the code of imported functions in a forked process.
"""

import argparse
import ast
import gc
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src" / "moorage"
TIMEOUT_SECONDS: Final = 60  # a mutant is treated as killed if its tests take longer
SWAPS: Final[dict[type[ast.AST], Any]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutation(NamedTuple):
    """One change of a syntax tree, which ``apply`` makes in place."""

    line: int
    change: str
    apply: Callable[[], None]


def find_mutations(node: ast.AST) -> Iterator[Mutation]:
    """Yield all mutations below a node, without nested functions, annotations, decorators and log messages.

    Assignments in a constructor are not dropped, since almost any test notices a missing attribute.
    """
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or isinstance(child, FUNCTIONS):
                continue
            if isinstance(child, ast.Expr) and ast.unparse(child).startswith("log."):
                continue
            is_initial = isinstance(child, ast.Assign) and getattr(node, "name", "") == "__init__"
            for variant in () if is_initial else _variants(child, is_condition=field == "test"):
                ast.fix_missing_locations(ast.copy_location(variant, child))
                before, after = (ast.unparse(part).split("\n")[0] for part in (child, variant))
                replace = partial(setattr, node, field, variant)
                if children is value:
                    replace = partial(children.__setitem__, index, variant)
                yield Mutation(getattr(child, "lineno", 0), f"{before}  ->  {after}", replace)
            yield from find_mutations(child)


def _variants(node: ast.AST, *, is_condition: bool) -> Iterator[ast.AST]:
    """Yield the nodes that replace a node, each in one mutant."""
    match node:
        case ast.Compare(left, [operator], operands):
            yield ast.Compare(left, [SWAPS[type(operator)]()], operands)
        case ast.BinOp(left, operator, right) if type(operator) in SWAPS:
            yield ast.BinOp(left, SWAPS[type(operator)](), right)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(SWAPS[type(operator)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.expr() if is_condition:
            yield ast.UnaryOp(ast.Not(), node)
        case ast.Constant(value) if isinstance(value, int | float) and value in (0, 1):
            yield ast.Constant(type(value)(not value))
        case ast.Return(ast.expr() as result) if not isinstance(result, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.AugAssign(target, operator, value) if type(operator) in SWAPS:
            yield ast.AugAssign(target, SWAPS[type(operator)](), value)
            yield ast.Pass()
        case ast.Expr(ast.Call() | ast.Await()) | ast.Raise() | ast.Break() | ast.Continue() | ast.Delete():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def list_mutations(path: Path) -> tuple[ast.Module, list[Mutation]]:
    """Return the tree of a module and the mutations in its functions."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    return tree, [mutation for function in functions for mutation in find_mutations(function)]


def install(path: Path, number: int, functions: Iterable[FunctionType]) -> None:
    """Replace the code of the imported functions of a module by that of a mutant."""
    tree, mutations = list_mutations(path)
    mutations[number].apply()
    mutant = {(code.co_qualname, code.co_firstlineno): code for code in _nested_code(compile(tree, str(path), "exec"))}
    for function in functions:
        code = function.__code__
        if code.co_filename == str(path):
            function.__code__ = mutant[code.co_qualname, code.co_firstlineno]


def _nested_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested_code(constant)


def nearby_tests(path: Path) -> list[Path]:
    """Return the test files near a module."""
    mirrored = ROOT / "tests" / "unit" / path.relative_to(SOURCE).with_name(f"test_{path.name}")
    return [mirrored] if mirrored.exists() else sorted(mirrored.parent.glob("test_*.py"))


class Mutants:
    """A pytest plugin that runs the tests near each mutant in a forked process, and the original before."""

    def __init__(self, sample: Sequence[tuple[Path, int]]) -> None:
        self._sample = sample
        self.killed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print the result of each mutant."""
        self._functions = [obj for obj in gc.get_objects() if isinstance(obj, FunctionType)]
        gc.freeze()  # a collection in a child would copy all memory
        if not self._passes(session, None):
            raise pytest.UsageError("the tests fail without a mutation: fix them first")
        for path, number in self._sample:
            survived = self._passes(session, (path, number))
            self.killed += not survived
            mutation = list_mutations(path)[1][number]
            verdict = "survived" if survived else "killed  "
            sys.stdout.write(f"{verdict} {path.relative_to(ROOT)}:{mutation.line}  {mutation.change}\n")
            sys.stdout.flush()
        return True

    def _passes(self, session: pytest.Session, mutant: tuple[Path, int] | None) -> bool:
        child = os.fork()
        if child:
            return os.waitpid(child, 0)[1] == 0
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            items = session.items
            if mutant is not None:
                signal.alarm(TIMEOUT_SECONDS)
                items = [item for item in items if item.path in nearby_tests(mutant[0])]
                install(*mutant, self._functions)
            for item, following in zip(items, (*items[1:], None), strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            else:
                status = 0
        finally:
            os._exit(status)


def main() -> None:
    """Run a sample of mutants, and print the survivors and the score."""
    parser = argparse.ArgumentParser(prog="python -m manual.mutants", description="Run mutants of modules.")
    parser.add_argument("paths", nargs="+", type=Path, help="modules or folders below src/moorage")
    parser.add_argument("--n", type=int, default=25, help="number of mutants (default: 25)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.paths]
    modules = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    mutants = [(path, number) for path in modules for number in range(len(list_mutations(path)[1]))]
    sample = sorted(random.Random(options.seed).sample(mutants, min(options.n, len(mutants))))
    tests = sorted({str(test) for path, _ in sample for test in nearby_tests(path)})
    run = Mutants(sample)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        flags = [
            "-q",
            "-s",
            "--hypothesis-seed=0",
            *(f"-pno:{name}" for name in ("randomly", "cacheprovider", "xdist")),
        ]
        status = pytest.main([*flags, *tests], plugins=[run])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(status)
    sys.stdout.write(f"{run.killed} of {len(sample)} mutants killed (seed {options.seed}, {len(mutants)} in all)\n")


if __name__ == "__main__":
    main()
