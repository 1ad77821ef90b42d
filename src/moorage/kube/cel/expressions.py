"""Compiled CEL expressions on untyped data, with a budget for their cost: rules of custom resources and policies."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moorage.common.caches import LRU, cached
from moorage.kube.cel.cost import PER_BYTE, SCALAR, OverBudget, estimate_cost, measure_fields
from moorage.kube.cel.syntax_tree import Call, Expression, Fold, ListNode, MapNode, Name, Select, read_tree

if TYPE_CHECKING:
    from cel_expr_python import cel

VARIABLES: Final = ("self", "oldSelf")
MAX_PROGRAMS: Final = 4096
OBJECT_BUDGET: Final = 10_000_000
"""Upstream's cost limit for all rules of an object."""
RULE_COST: Final = 1000
"""The cost of starting an evaluation."""
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
MAX_EXPRESSION: Final = 16 << 10
"""Characters of an expression. The time to compile grows faster than the length."""
_FAILURES: Final = (RuntimeError, ValueError, TypeError, OverflowError)


class RuleProgram(NamedTuple):
    """A compiled expression, or the reason why it cannot be compiled."""

    expression: "cel.Expression | None"
    tree: Expression | None
    problem: str = ""

    @property
    def uses_old(self) -> bool:
        """Whether the expression compares with the previous value."""
        return self.tree is not None and any(node == Name("oldSelf") for node in walk(self.tree))


class RuleBudget:
    """The cost that the rules of an object may still have."""

    def __init__(self, left: float = OBJECT_BUDGET) -> None:
        self.left = left

    def spend(self, cost: float) -> None:
        """Spend a cost. Raise OverBudget if the remaining budget is insufficient."""
        self.left -= cost
        if self.left < 0:
            raise OverBudget


class RuleVariables:
    """The variables for all rules of a value, such as ``self`` and ``oldSelf``, with bounds on their sizes."""

    def __init__(self, values: Mapping[str, Any], budget: RuleBudget) -> None:
        self._sizes = {name: SCALAR if value is None else measure_fields(value) for name, value in values.items()}
        self._budget = budget
        budget.spend(sum(bound.weight for bound in self._sizes.values()) * PER_BYTE)
        env = _environment(tuple(values))
        # The activation converts each field at most once.
        self._activation = None if env is None else env.Activation(dict(values))

    def evaluate(self, program: RuleProgram) -> Any:
        """Return the result of an expression.

        Raise ValueError with upstream's text if the expression fails, and OverBudget if it may cost too much.
        """
        assert program.expression is not None
        assert program.tree is not None
        self._budget.spend(RULE_COST + estimate_cost(program.tree, self._sizes, self._budget.left))
        try:
            result = program.expression.eval(activation=self._activation)
            value = result.plain_value()
        except (*_FAILURES, SystemError) as error:
            raise ValueError(str(error)) from error
        if result.type().name() == "ERROR":
            text = str(value)
            missing = re.search(r'Key not found in map : "(.*)"', text, re.DOTALL)
            raise ValueError(f"no such key: {missing[1]}" if missing else text)
        return value


_PROGRAMS: Final[LRU[tuple[str, tuple[str, ...]], RuleProgram]] = LRU("CEL rules", MAX_PROGRAMS)


@cached(16)
def _environment(variables: tuple[str, ...]) -> "cel.Env | None":
    try:
        from cel_expr_python import cel

        from moorage.kube.cel.functions import environment
    except ImportError:
        return None
    return environment(dict.fromkeys(variables, cel.Type.DYN), loosely=True)


def compile_rule(text: str, variables: tuple[str, ...] = VARIABLES) -> RuleProgram:
    """Compile an expression, or return the cached program."""
    program = _PROGRAMS.find((text, variables))
    if program is None:
        program = _compile(text, variables)
        _PROGRAMS.put((text, variables), program)
    return program


def _compile(text: str, variables: tuple[str, ...]) -> RuleProgram:
    if len(text) > MAX_EXPRESSION:
        return RuleProgram(None, None, f"the expression is longer than {MAX_EXPRESSION} characters")
    env = _environment(variables)
    if env is None:
        return RuleProgram(None, None, "CEL is not installed: pip install 'moorage[dra]'")
    try:
        expression = env.compile(text, disable_check=False)
        return RuleProgram(expression, read_tree(env.compile(text, disable_check=True).serialize()))
    except _FAILURES as error:
        return RuleProgram(
            None, None, str(error).removesuffix(" [INVALID_ARGUMENT]").removeprefix("INVALID_ARGUMENT: ")
        )


def walk(node: Expression) -> Iterator[Expression]:
    """Yield all nodes of a syntax tree."""
    yield node
    below: tuple[Expression, ...] = ()
    match node:
        case Select():
            below = (node.operand,)
        case Call():
            below = node.arguments
        case ListNode():
            below = node.items
        case MapNode():
            below = tuple(part for entry in node.entries for part in entry)
        case Fold():
            below = (node.source, node.start, node.condition, node.step, node.result)
        case _:
            pass
    for part in below:
        yield from walk(part)
