"""Upper bounds on the cost of a CEL expression, computed before evaluation.

cel-cpp limits only the iterations of macros: seven nested ``replace`` calls could exhaust the memory. So every value of
an expression gets a bound on its size, starting from the device's attributes, and every call a cost by the sizes of its
arguments. The weights follow upstream. The bound holds for every evaluation path. So it may reject expressions that
upstream, which counts during evaluation, accepts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from moorage.kube.cel.syntax_tree import (
    Call,
    Expression,
    Fold,
    ListNode,
    Literal,
    MapNode,
    Name,
    Select,
)

MAX_COST: Final = 1_000_000
MAX_LENGTH: Final = 1 << 20
"""Maximum bytes of a string, and maximum entries of a list or map, during evaluation."""
PER_BYTE: Final = 0.1
PYTHON_CALL: Final = 10
MAX_RANGE: Final = 1_000
"""The largest list of `lists.range`."""
"""The cost of a Python function: its arguments are converted to Python and back."""
_MAX_WEIGHT: Final = 1 << 40
_MAX_INSTRUCTIONS: Final = 350_000
"""RE2's memory limit, in instructions."""
_INSTRUCTIONS_PER_BYTE: Final = 1700


class OverBudget(Exception):
    """An expression may exceed the cost limit."""


class Size(Struct, frozen=True):
    """A bound on a value: its bytes or entries, and the bounds of its entries. Optionals are treated as their content.

    ``fields`` are the bounds of single entries, if they are known.
    """

    length: int = 1
    key: int = 0
    item: "Size | None" = None
    weight: int = 1
    fields: tuple[tuple[str, "Size"], ...] = ()

    def entry(self, name: str = "") -> "Size":
        """Return the bound on an entry, or on the field with this name. Known fields are complete."""
        if name and self.fields:
            return dict(self.fields).get(name, SCALAR)
        return self.item or SCALAR


def size(length: int, *, key: int = 0, item: Size | None = None) -> Size:
    """Create a bound. Raise :class:`OverBudget` if it exceeds the size limit."""
    if length > MAX_LENGTH:
        raise OverBudget
    weight = 1 + length * (1 + key + item.weight if item is not None else 1)
    return Size(length, key, item, min(weight, _MAX_WEIGHT))


SCALAR: Final = size(1)


def join_sizes(left: Size, right: Size) -> Size:
    """Return a bound on a value that has one of two bounds."""
    if left is right or left == right:
        return left
    have_items = left.item is not None and right.item is not None
    item = join_sizes(left.entry(), right.entry()) if have_items else left.item or right.item
    joined = size(max(left.length, right.length), key=max(left.key, right.key), item=item)
    if not (left.fields or right.fields):
        return joined
    return replace(joined, weight=max(left.weight, right.weight), fields=_either_fields(left, right))


def _either_fields(left: Size, right: Size) -> tuple[tuple[str, Size], ...]:
    """Return the bounds of fields of two values. A value without fields may have any."""
    if not (left.fields and right.fields):
        scalar, compound = (left, right) if left.item is None else (right, left)
        return compound.fields if scalar.item is None else ()
    left_fields, right_fields = dict(left.fields), dict(right.fields)
    return tuple(
        (
            name,
            join_sizes(left_fields[name], right_fields[name])
            if name in left_fields and name in right_fields
            else left_fields.get(name) or right_fields[name],
        )
        for name in left_fields | right_fields
    )


def join_all(sizes: Iterable[Size]) -> Size:
    """Return a bound on a value that has one of several bounds."""
    largest = SCALAR
    for candidate in sizes:
        largest = join_sizes(largest, candidate)
    return largest


def measure_size(value: Any) -> Size:
    """Return the bound of an actual value, rounded up so that similar devices have equal bounds."""
    if isinstance(value, str):
        return size(_round(len(value.encode("utf-8", "replace"))))
    if isinstance(value, Mapping):
        keys = max((_round(len(key.encode("utf-8", "replace"))) for key in value), default=0)
        return size(_round(len(value)), key=keys, item=join_all(measure_size(item) for item in value.values()))
    if isinstance(value, list):
        return size(_round(len(value)), item=join_all(measure_size(item) for item in value))
    return SCALAR


def measure_fields(value: Any) -> Size:
    """Return the bound of a value with a bound for each field of objects. Lengths are not rounded.

    The weight is the sum over all entries: a product of maximums at each level would exceed the size of nested objects
    by orders of magnitude.
    """
    if isinstance(value, Mapping):
        fields = tuple((name, measure_fields(item)) for name, item in value.items())
        lengths = [len(key.encode("utf-8", "replace")) for key in value]
        weight = 1 + sum(lengths) + sum(1 + item.weight for _, item in fields)
        largest = _measure(len(value), max(lengths, default=0), join_all(item for _, item in fields))
        return replace(largest, fields=fields, weight=min(weight, _MAX_WEIGHT))
    if isinstance(value, list):
        items = [measure_fields(item) for item in value]
        weight = 1 + sum(1 + item.weight for item in items)
        return replace(_measure(len(value), item=join_all(items)), weight=min(weight, _MAX_WEIGHT))
    return _measure(len(value.encode("utf-8", "replace"))) if isinstance(value, str) else SCALAR


def _measure(length: int, key: int = 0, item: Size | None = None) -> Size:
    return size(min(length, MAX_LENGTH), key=key, item=item)


def _round(number: int) -> int:
    return 1 << (number - 1).bit_length() if number > 1 else 1


def estimate_cost(tree: Expression, variables: Mapping[str, Size], limit: float = MAX_COST) -> float:
    """Return the maximum cost of evaluating an expression. Raise :class:`OverBudget` above the limit."""
    estimate = _Estimate(limit)
    estimate.visit(tree, variables)
    return estimate.cost


class _Estimate:
    """The cost so far. Costs inside a loop are multiplied by its maximum iterations."""

    def __init__(self, limit: float = MAX_COST) -> None:
        self.cost = 0.0
        self._limit = limit
        self._times = 1

    def visit(self, node: Expression, names: Mapping[str, Size]) -> Size:
        match node:
            case Literal():
                return size(len(node.text))
            case Name():
                return names.get(node.name, SCALAR)
            case Select():
                self._charge(1)
                operand = self.visit(node.operand, names)
                return SCALAR if node.is_test else operand.entry(node.field)
            case ListNode():
                items = [self.visit(item, names) for item in node.items]
                self._charge(1 + len(items))
                return size(len(items), item=join_all(items))
            case MapNode():
                keys = [self.visit(key, names) for key, _ in node.entries]
                items = [self.visit(item, names) for _, item in node.entries]
                self._charge(1 + 2 * len(items))
                return size(len(items), key=join_all(keys).length, item=join_all(items))
            case Fold():
                return self._fold(node, names)
            case Call():
                return self._call(node, names)

    def _charge(self, cost: float) -> None:
        self.cost += cost * self._times
        if self.cost > self._limit:
            raise OverBudget

    def _fold(self, node: Fold, names: Mapping[str, Size]) -> Size:
        """Estimate a macro. Each iteration adds at most one entry. Users cannot write folds themselves."""
        source = self.visit(node.source, names)
        start = self.visit(node.start, names)
        turns = source.length
        # Macros over maps iterate over the keys.
        entry = join_sizes(source.entry(), size(source.key)) if source.key else source.entry()
        # The results of all, exists and exists_one begin with a literal and remain scalars.
        collects = turns > 0 and not isinstance(node.start, Literal)
        accumulated = size(start.length + turns, key=start.key, item=start.item) if collects else start
        inner = {**names, node.variable: entry, node.second: entry, node.result_name: accumulated}
        before, self._times = self._times, self._times * turns
        if turns:
            self._charge(1)
            self.visit(node.condition, inner)
            step = self.visit(node.step, inner)
            accumulated = join_sizes(
                accumulated, size(min(step.length, accumulated.length), key=step.key, item=step.item)
            )
        self._times = before
        return self.visit(node.result, {**names, node.result_name: accumulated})

    def _call(self, node: Call, names: Mapping[str, Size]) -> Size:
        if node.function == "_?_:_" and len(node.arguments) == 3:
            self._charge(1)
            self.visit(node.arguments[0], names)
            before = self.cost
            yes = self.visit(node.arguments[1], names)
            after_yes, self.cost = self.cost, before
            no = self.visit(node.arguments[2], names)
            self.cost = max(self.cost, after_yes)
            return join_sizes(yes, no)
        arguments = [self.visit(argument, names) for argument in node.arguments]
        first = node.arguments[0] if node.arguments else None
        if isinstance(first, Name) and node.function == "_+_" and first.name.startswith("@"):
            # Macros append to their result in place.
            self._charge(1)
            return size(arguments[0].length, item=join_all(a.item for a in arguments if a.item is not None))
        if node.function in ("matches", "find", "findAll") and len(arguments) > 1:
            arguments[1] = _regex_size(node.arguments[1], arguments[1])
        if isinstance(first, Name) and f"{first.name}.{node.function}" in FUNCTIONS:
            # The parser treats the namespace of a function as a method receiver. A variable may have the same name.
            result = self._price(f"{first.name}.{node.function}", arguments[1:])
            return join_sizes(result, self._price(node.function, arguments)) if first.name in names else result
        return self._price(node.function, arguments)

    def _price(self, function: str, arguments: Sequence[Size]) -> Size:
        cost, result = FUNCTIONS.get(function, _unknown)(
            *(*arguments, SCALAR, SCALAR, SCALAR)[: max(3, len(arguments))]
        )
        self._charge(cost)
        return result


Priced = tuple[float, Size]


def _unknown(*arguments: Size) -> Priced:
    """Assume that any other function returns at most a small multiple of its input."""
    total = sum(argument.weight for argument in arguments)
    return PYTHON_CALL + PER_BYTE * total, size(64 + 8 * total, item=join_all(arguments))


def _add(a: Size, b: Size, *_more: Size) -> Priced:
    per_unit = PER_BYTE if a.item is None and b.item is None else 1
    joined = join_sizes(a, b)
    return 1 + per_unit * (a.length + b.length), size(a.length + b.length, key=joined.key, item=joined.item)


def _text(length: int) -> Priced:
    """Return the cost of building a text of this length."""
    return 1 + PER_BYTE * length, size(length)


def _tag(cost: float, length: int) -> Priced:
    """Return the cost of a quantity or a version: a map with one entry of this length."""
    return PYTHON_CALL + cost, size(1, key=16, item=size(length))


def _matching(a: Size, pattern: Size) -> float:
    # cel-cpp compiles the pattern on every call.
    return 20 + pattern.length + PER_BYTE * a.length * 0.25 * pattern.length


def _regex_size(pattern: Expression, bound: Size) -> Size:
    r"""Return the number of instructions of a compiled pattern. The short ``\pL{30}`` has thousands."""
    if not isinstance(pattern, Literal):
        return Size(min(bound.length * _INSTRUCTIONS_PER_BYTE, _MAX_INSTRUCTIONS))
    from moorage.kube.cel.functions import compile_regex

    try:
        return Size(compile_regex(pattern.text.decode()).programsize)
    except ValueError:
        return Size(_MAX_INSTRUCTIONS)


_PRICES: Final[Mapping[str, Callable[..., Priced]]] = {
    "! !_ -_ _-_ _*_ _/_ _%_ _&&_ _||_ @not_strictly_false size int uint double bool timestamp duration type "
    "hasValue startsWith endsWith optional.none": lambda a, b, *_: (1 + PER_BYTE * (a.length + b.length), SCALAR),
    "_==_ _!=_ _<_ _<=_ _>_ _>=_": lambda a, b, *_: (1 + PER_BYTE * min(a.weight, b.weight), SCALAR),
    "_+_": _add,
    "@in _in_ in": lambda a, b, *_: (
        1 + PER_BYTE * b.length * (1 + b.key + min(a.weight, b.entry().weight)),
        SCALAR,
    ),
    "_[_] _[?_] _?._": lambda a, b, *_: (1 + PER_BYTE * b.length, a.entry()),
    "lowerAscii upperAscii trim substring charAt base64.decode": lambda a, *_: (1 + PER_BYTE * a.length, a),
    "contains indexOf lastIndexOf": lambda a, b, *_: (
        1 + PER_BYTE * a.length * b.length
        if a.item is None
        else PYTHON_CALL + a.weight + PER_BYTE * a.length * b.weight,
        SCALAR,
    ),
    # An empty string matches between all bytes, and at both ends.
    "replace": lambda a, _, new, *__: _text(a.length + (a.length + 1) * new.length),
    "split": lambda a, *_: (1 + a.length, size(a.length + 1, item=size(a.length))),
    "join": lambda a, b, *_: _text(a.length * (a.entry().length + b.length)),
    # A number has up to 310 digits and 1,000 decimals. A byte of a list is formatted as up to eight bytes.
    "format": lambda a, b, *_: _text(a.length + b.length * (1400 + 8 * b.entry().weight)),
    "string bytes": lambda a, *_: (1 + PER_BYTE * a.length, size(max(64, a.length))),
    "jsonpatch.escapeKey": lambda a, *_: _text(PYTHON_CALL + 2 * a.length),
    "strings.quote": lambda a, *_: (1 + PER_BYTE * a.length, size(2 + 6 * a.length)),
    "base64.encode": lambda a, *_: (1 + PER_BYTE * a.length, size(4 + 2 * a.length)),
    "matches": lambda a, pattern, *_: (_matching(a, pattern), SCALAR),
    "find": lambda a, pattern, *_: (_matching(a, pattern), size(a.length)),
    # Every match may scan the remaining text.
    "findAll": lambda a, pattern, *_: (
        _matching(a, pattern) + a.length * a.length / 50 * (1 + pattern.length / 50),
        size(a.length + 1, item=size(a.length)),
    ),
    "quantity semver ip cidr url masked": lambda a, *_: _tag(a.weight, 64 + a.weight),
    "getScheme getHost getHostname getPort getEscapedPath": lambda a, *_: _text(PYTHON_CALL + 3 * a.weight),
    "getQuery": lambda a, *_: (
        PYTHON_CALL + a.weight,
        size(a.weight, key=a.weight, item=size(a.weight, item=size(a.weight))),
    ),
    # Patterns of formats are linear. A problem may repeat the text.
    "format.named": lambda a, *_: (PYTHON_CALL + PER_BYTE * a.length, size(1, item=_tag(0, 32)[1])),
    "validate": lambda a, b, *_: (
        PYTHON_CALL + a.weight + 10 * b.length,
        size(1, item=size(4, item=size(600 + 2 * b.length))),
    ),
    "add sub": lambda a, b, *_: _tag(join_sizes(a, b).weight, join_sizes(a, b).entry().length + 16),
    "isQuantity isSemver sign isInteger asInteger asApproximateFloat major minor patch isGreaterThan isLessThan "
    "compareTo isSorted sum includes isIP isCIDR isURL ip.isCanonical family isUnspecified isLoopback isGlobalUnicast "
    "isLinkLocalMulticast isLinkLocalUnicast containsIP containsCIDR isMask prefixLength": lambda a, b, *_: (
        PYTHON_CALL + PER_BYTE * (a.weight + b.weight),
        SCALAR,
    ),
    "slice sort reverse": lambda a, *_: (PYTHON_CALL + a.weight, a),
    "flatten": lambda a, *_: (PYTHON_CALL + a.weight, size(a.weight, item=a.entry())),
    "distinct": lambda a, *_: (PYTHON_CALL + PER_BYTE * a.length * a.weight, a),
    # The largest list, because the argument is unknown.
    "lists.range": lambda *_: (PYTHON_CALL + MAX_RANGE, size(MAX_RANGE, item=SCALAR)),
    "min max": lambda a, *_: (PYTHON_CALL + a.weight, a.entry()),
    "sets.contains sets.intersects sets.equivalent": lambda a, b, *_: (
        PYTHON_CALL
        + (a.weight + b.weight)
        + PER_BYTE * a.length * b.length * (1 + min(a.entry().weight, b.entry().weight)),
        SCALAR,
    ),
    "dyn optional.of optional.ofNonZeroValue value": lambda a, *_: (1, a),
    "orValue or": lambda a, b, *_: (1, join_sizes(a, b)),
}
"""Cost and result of each function by the bounds of its arguments. Missing arguments are scalars."""
FUNCTIONS: Final = {name: price for names, price in _PRICES.items() for name in names.split()}
