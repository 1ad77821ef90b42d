"""The functions Kubernetes adds to CEL: quantities, versions, lists, sets and regular expressions.

A quantity is the map ``{"@quantity": "<billionths>"}`` and a version ``{"@semver": "<canonical text>"}`` while an
expression runs; the checker uses dedicated types.
"""

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import re2
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from moorage.kube.api.quantity import NANO, nano_value
from moorage.scheduler.plugins.dynamic_resources.cel.program import Tagged, normalized, parse_version

ParameterTypes = tuple[cel.Type, ...]

_T = cel.Type
QUANTITY: Final = _T.AbstractType("kubernetes.Quantity")
VERSION: Final = _T.AbstractType("kubernetes.Semver")
MAX_INT64: Final = 2**63 - 1

_REGEX: Final = re2.Options()
_REGEX.log_errors = False
# re2 caches up to 128 compiled patterns.
_REGEX.max_mem = 2 << 20


def _quantity(text: str) -> Tagged:
    return {"@quantity": str(nano_value(text))}


def _version(text: str, lax: bool = False) -> Tagged:
    return parse_version(normalized(text) if lax else text).tagged


def _succeeds(function: Callable[..., Any]) -> Callable[..., bool]:
    def test(*arguments: Any) -> bool:
        try:
            function(*arguments)
        except ValueError:
            return False
        return True

    return test


def _ordered(left: Tagged, right: Tagged) -> tuple[Any, Any]:
    """Make two tagged values comparable; raise ValueError for different kinds."""
    if "@quantity" in left and "@quantity" in right:
        return int(left["@quantity"]), int(right["@quantity"])
    if "@semver" in left and "@semver" in right:
        return parse_version(left["@semver"]), parse_version(right["@semver"])
    raise ValueError("no such overload")


def _compare(left: Tagged, right: Tagged) -> int:
    low, high = _ordered(left, right)
    return int(low > high) - int(low < high)


def _nanos(value: Tagged | int) -> int:
    return value * NANO if isinstance(value, int) else int(value["@quantity"])


def _as_integer(value: Tagged) -> int:
    integer, fraction = divmod(_nanos(value), NANO)
    if fraction or abs(integer) > MAX_INT64:
        raise ValueError("cannot convert value to integer")
    return integer


def _sign(value: Tagged) -> int:
    nanos = _nanos(value)
    return int(nanos > 0) - int(nanos < 0)


def _extreme(pick: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def of(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return pick(items)

    return of


def compile_regex(pattern: str) -> Any:
    """Compile a pattern with RE2, as Go does; matching time is linear in the text."""
    try:
        return re2.compile(pattern, _REGEX)
    except re2.error as error:
        raise ValueError(f"error parsing regexp: {error.args[0].decode()}") from error


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches = compile_regex(pattern).finditer(text)
    return [match[0] for match in (matches if limit < 0 else islice(matches, limit))]


def _find(text: str, pattern: str) -> str:
    match = compile_regex(pattern).search(text)
    return match[0] if match else ""


class _Function:
    """One overload: types for the checker, types for the evaluator, and the implementation."""

    def __init__(
        self, name: str, takes: ParameterTypes, gives: cel.Type, does: Callable[..., Any], *, member: bool = True
    ) -> None:
        self.name, self.takes, self.gives, self.does, self.member = name, takes, gives, does, member

    def overload(self, number: int, *, loosely: bool) -> cel.Overload:
        takes = tuple(_at_run_time(kind) for kind in self.takes) if loosely else self.takes
        gives = _at_run_time(self.gives) if loosely else self.gives
        return cel.Overload(f"{self.name}_{number}", gives, list(takes), is_member=self.member, impl=self.does)


def _at_run_time(kind: cel.Type) -> cel.Type:
    if kind in (QUANTITY, VERSION):
        return _T.MAP
    return _T.LIST if kind.name().startswith("LIST") else kind


def _quantity_functions() -> list[_Function]:
    q = QUANTITY
    return [
        _Function("quantity", (_T.STRING,), q, _quantity, member=False),
        _Function("isQuantity", (_T.STRING,), _T.BOOL, _succeeds(_quantity), member=False),
        _Function("sign", (q,), _T.INT, _sign),
        _Function("isInteger", (q,), _T.BOOL, _succeeds(_as_integer)),
        _Function("asInteger", (q,), _T.INT, _as_integer),
        _Function("asApproximateFloat", (q,), _T.DOUBLE, lambda value: _nanos(value) / NANO),
        *(
            _Function(name, (q, operand), q, _arithmetic(factor))
            for name, factor in (("add", 1), ("sub", -1))
            for operand in (q, _T.INT)
        ),
    ]


def _arithmetic(factor: int) -> Callable[[Tagged, Tagged | int], Tagged]:
    return lambda left, right: {"@quantity": str(_nanos(left) + factor * _nanos(right))}


def _version_functions() -> list[_Function]:
    v = VERSION
    return [
        _Function("semver", (_T.STRING,), v, _version, member=False),
        _Function("semver", (_T.STRING, _T.BOOL), v, _version, member=False),
        _Function("isSemver", (_T.STRING,), _T.BOOL, _succeeds(_version), member=False),
        _Function("isSemver", (_T.STRING, _T.BOOL), _T.BOOL, _succeeds(_version), member=False),
        *(
            _Function(name, (v,), _T.INT, lambda value, index=index: parse_version(value["@semver"]).numbers[index])
            for index, name in enumerate(("major", "minor", "patch"))
        ),
    ]


def _comparisons(kind: cel.Type) -> list[_Function]:
    return [
        _Function("isGreaterThan", (kind, kind), _T.BOOL, lambda left, right: _compare(left, right) > 0),
        _Function("isLessThan", (kind, kind), _T.BOOL, lambda left, right: _compare(left, right) < 0),
        _Function("compareTo", (kind, kind), _T.INT, _compare),
    ]


def _collection_functions() -> list[_Function]:
    items = _T.List(_T.DYN)
    return [
        _Function("isSorted", (items,), _T.BOOL, lambda values: all(a <= b for a, b in pairwise(values))),
        _Function("sum", (items,), _T.DYN, sum),
        _Function("min", (items,), _T.DYN, _extreme(min, "min")),
        _Function("max", (items,), _T.DYN, _extreme(max, "max")),
        _Function("sets.contains", (items, items), _T.BOOL, lambda a, b: all(x in a for x in b), member=False),
        _Function("sets.intersects", (items, items), _T.BOOL, lambda a, b: any(x in a for x in b), member=False),
        _Function(
            "sets.equivalent",
            (items, items),
            _T.BOOL,
            lambda a, b: all(x in a for x in b) and all(x in b for x in a),
            member=False,
        ),
        _Function("find", (_T.STRING, _T.STRING), _T.STRING, _find),
        _Function("findAll", (_T.STRING, _T.STRING), _T.List(_T.STRING), _find_all),
        _Function("findAll", (_T.STRING, _T.STRING, _T.INT), _T.List(_T.STRING), _find_all),
    ]


def _includes(attribute: Any, value: Any) -> bool:
    """Return whether an attribute has a value. A scalar counts as a list of one; numbers never equal booleans."""
    items = attribute if isinstance(attribute, list) else [attribute]
    return any(type(item) is type(value) and item == value for item in items)


def _inclusions(*value_types: cel.Type) -> list[_Function]:
    # The evaluator dispatches on exact types, so there is one overload for each pair.
    kinds = (_T.List(_T.DYN), _T.STRING, _T.INT, _T.BOOL, VERSION)
    return [_Function("includes", (kind, item), _T.BOOL, _includes) for kind in kinds for item in value_types]


def checking_environment() -> cel.Env:
    """Return the environment that upstream's compiler checks against."""
    functions = [
        *_quantity_functions(),
        *_version_functions(),
        *_comparisons(QUANTITY),
        *_comparisons(VERSION),
        *_collection_functions(),
        *_inclusions(_T.DYN),
    ]
    domain_of = _T.Map(_T.STRING, _T.DYN)
    variables = {
        "device": domain_of,
        "device.driver": _T.STRING,
        "device.allowMultipleAllocations": _T.BOOL,
        "device.attributes": _T.Map(_T.STRING, domain_of),
        "device.capacity": _T.Map(_T.STRING, _T.Map(_T.STRING, QUANTITY)),
    }
    return cel.NewEnv(variables=variables, extensions=_extensions(), functions=_declared(functions, loosely=False))


def evaluating_environment() -> cel.Env:
    """Return the evaluation environment: one ``device`` map, and functions for tagged maps."""
    functions = [
        *_quantity_functions(),
        *_version_functions(),
        # One overload for both kinds: at run time both are maps.
        *_comparisons(QUANTITY),
        *_collection_functions(),
        *_inclusions(_T.STRING, _T.INT, _T.BOOL, VERSION),
    ]
    return cel.NewEnv(
        variables={"device": _T.DYN}, extensions=_extensions(), functions=_declared(functions, loosely=True)
    )


def _extensions() -> list[cel.CelExtensionBase]:
    return [
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_strings.ExtStrings(),
        ext_math.ExtMath(),
        ext_encoders.ExtEncoders(),
    ]


def _declared(functions: Sequence[_Function], *, loosely: bool) -> list[cel.FunctionDecl]:
    by_name: dict[str, list[cel.Overload]] = {}
    for function in functions:
        overloads = by_name.setdefault(function.name, [])
        overloads.append(function.overload(len(overloads), loosely=loosely))
    return [cel.FunctionDecl(name, overloads) for name, overloads in by_name.items()]
