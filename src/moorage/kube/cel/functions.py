"""The functions Kubernetes adds to CEL: quantities, versions, addresses, lists, sets and regular expressions.

A quantity is the map ``{"@quantity": "<billionths>"}`` and a version ``{"@semver": "<canonical text>"}`` while an
expression runs. The checker uses dedicated types.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, Final

import re2
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional

from moorage.kube.api.quantity import NANO, nano_value
from moorage.kube.cel import addresses
from moorage.kube.cel.cost import MAX_RANGE
from moorage.kube.cel.versions import Tagged, normalized, parse_version

ParameterTypes = tuple[cel.Type, ...]

_T = cel.Type
QUANTITY: Final = _T.AbstractType("kubernetes.Quantity")
VERSION: Final = _T.AbstractType("kubernetes.Semver")
IP: Final = _T.AbstractType("net.IP")
CIDR: Final = _T.AbstractType("net.CIDR")
URL: Final = _T.AbstractType("kubernetes.URL")
FORMAT: Final = _T.AbstractType("kubernetes.NamedFormat")
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


def _order(left: Tagged, right: Tagged) -> tuple[Any, Any]:
    """Make two tagged values comparable. Raise ValueError for different kinds."""
    if "@quantity" in left and "@quantity" in right:
        return int(left["@quantity"]), int(right["@quantity"])
    if "@semver" in left and "@semver" in right:
        return parse_version(left["@semver"]), parse_version(right["@semver"])
    raise ValueError("no such overload")


def _compare(left: Tagged, right: Tagged) -> int:
    low, high = _order(left, right)
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


def _index(items: list[Any], value: Any) -> int:
    return items.index(value) if value in items else -1


def _last_index(items: list[Any], value: Any) -> int:
    return len(items) - 1 - items[::-1].index(value) if value in items else -1


_POSITIONS: Final[Mapping[str, Callable[[list[Any], Any], int]]] = {"indexOf": _index, "lastIndexOf": _last_index}
"""Functions of lists that share their names with functions of strings."""


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise ValueError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise ValueError("level must be non-negative")
    if not depth or not any(isinstance(item, list) for item in items):
        return items
    return _flatten([part for item in items for part in (item if isinstance(item, list) else [item])], depth - 1)


def _distinct(items: list[Any]) -> list[Any]:
    return [item for number, item in enumerate(items) if item not in items[:number]]


def _range(end: int) -> list[int]:
    if end > MAX_RANGE:
        raise ValueError(f"lists.range() size exceeds {MAX_RANGE}")
    return list(range(end))


def compile_regex(pattern: str) -> Any:
    """Compile a pattern with RE2, as Go does. Matching time is linear in the text."""
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


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


class Function:
    """One overload: types for the checker, types for the evaluator, and the implementation."""

    def __init__(
        self, name: str, takes: ParameterTypes, gives: cel.Type, does: Callable[..., Any], *, member: bool = True
    ) -> None:
        self.name, self.takes, self.gives, self.does, self.member = name, takes, gives, does, member

    def overload(self, number: int, *, loosely: bool) -> cel.Overload:
        """Return the overload. ``loosely`` takes and returns tagged maps."""
        takes = tuple(_at_run_time(kind) for kind in self.takes) if loosely else self.takes
        gives = _at_run_time(self.gives) if loosely else self.gives
        return cel.Overload(f"{self.name}_{number}", gives, list(takes), is_member=self.member, impl=self.does)


def _at_run_time(kind: cel.Type) -> cel.Type:
    if kind in (QUANTITY, VERSION, IP, CIDR, URL, FORMAT):
        return _T.MAP
    name = kind.name()
    return _T.LIST if name.startswith("LIST") else _T.MAP if name.startswith("MAP") else kind


def _quantity_functions() -> list[Function]:
    q = QUANTITY
    return [
        Function("quantity", (_T.STRING,), q, _quantity, member=False),
        Function("isQuantity", (_T.STRING,), _T.BOOL, _succeeds(_quantity), member=False),
        Function("sign", (q,), _T.INT, _sign, member=False),
        Function("isInteger", (q,), _T.BOOL, _succeeds(_as_integer)),
        Function("asInteger", (q,), _T.INT, _as_integer),
        Function("asApproximateFloat", (q,), _T.DOUBLE, lambda value: _nanos(value) / NANO),
        *(
            Function(name, (q, operand), q, _arithmetic(factor))
            for name, factor in (("add", 1), ("sub", -1))
            for operand in (q, _T.INT)
        ),
    ]


def _arithmetic(factor: int) -> Callable[[Tagged, Tagged | int], Tagged]:
    return lambda left, right: {"@quantity": str(_nanos(left) + factor * _nanos(right))}


def _version_functions() -> list[Function]:
    v = VERSION
    return [
        Function("semver", (_T.STRING,), v, _version, member=False),
        Function("semver", (_T.STRING, _T.BOOL), v, _version, member=False),
        Function("isSemver", (_T.STRING,), _T.BOOL, _succeeds(_version), member=False),
        Function("isSemver", (_T.STRING, _T.BOOL), _T.BOOL, _succeeds(_version), member=False),
        *(
            Function(name, (v,), _T.INT, lambda value, index=index: parse_version(value["@semver"]).numbers[index])
            for index, name in enumerate(("major", "minor", "patch"))
        ),
    ]


def _comparisons(kind: cel.Type) -> list[Function]:
    return [
        Function("isGreaterThan", (kind, kind), _T.BOOL, lambda left, right: _compare(left, right) > 0),
        Function("isLessThan", (kind, kind), _T.BOOL, lambda left, right: _compare(left, right) < 0),
        Function("compareTo", (kind, kind), _T.INT, _compare),
    ]


def _collection_functions() -> list[Function]:
    items = _T.List(_T.DYN)
    return [
        Function("isSorted", (items,), _T.BOOL, lambda values: all(a <= b for a, b in pairwise(values))),
        Function("sum", (items,), _T.DYN, sum),
        Function("min", (items,), _T.DYN, _extreme(min, "min")),
        Function("max", (items,), _T.DYN, _extreme(max, "max")),
        Function("sets.contains", (items, items), _T.BOOL, lambda a, b: all(x in a for x in b), member=False),
        Function("sets.intersects", (items, items), _T.BOOL, lambda a, b: any(x in a for x in b), member=False),
        Function(
            "sets.equivalent",
            (items, items),
            _T.BOOL,
            lambda a, b: all(x in a for x in b) and all(x in b for x in a),
            member=False,
        ),
        *(
            Function(name, (items, kind), _T.INT, find)
            for name, find in _POSITIONS.items()
            for kind in (_T.STRING, _T.INT, _T.BOOL, _T.DOUBLE)
        ),
        Function("slice", (items, _T.INT, _T.INT), items, _slice),
        Function("flatten", (items,), items, _flatten),
        Function("flatten", (items, _T.INT), items, _flatten),
        Function("sort", (items,), items, sorted),
        Function("distinct", (items,), items, _distinct),
        Function("reverse", (items,), items, lambda values: values[::-1]),
        Function("lists.range", (_T.INT,), _T.List(_T.INT), _range, member=False),
        Function("find", (_T.STRING, _T.STRING), _T.STRING, _find),
        Function("findAll", (_T.STRING, _T.STRING), _T.List(_T.STRING), _find_all),
        Function("findAll", (_T.STRING, _T.STRING, _T.INT), _T.List(_T.STRING), _find_all),
        Function("jsonpatch.escapeKey", (_T.STRING,), _T.STRING, _escape_key, member=False),
    ]


def _address_functions() -> list[Function]:
    def of_ip(test: Callable[[addresses.Address], Any]) -> Callable[[Tagged], Any]:
        return lambda value: test(addresses.read_address(value))

    def of_url(part: Callable[[addresses.Url], Any]) -> Callable[[Tagged], Any]:
        return lambda value: part(addresses.parse_url(value["@url"]))

    def url(text: str) -> Tagged:
        addresses.parse_url(text)
        return {"@url": text}

    return [
        Function("ip", (_T.STRING,), IP, addresses.ip, member=False),
        Function("isIP", (_T.STRING,), _T.BOOL, _succeeds(addresses.parse_address), member=False),
        Function("ip.isCanonical", (_T.STRING,), _T.BOOL, addresses.is_canonical, member=False),
        Function("family", (IP,), _T.INT, of_ip(lambda address: address.version)),
        Function("isUnspecified", (IP,), _T.BOOL, of_ip(lambda address: address.is_unspecified)),
        Function("isLoopback", (IP,), _T.BOOL, of_ip(lambda address: address.is_loopback)),
        Function("isLinkLocalMulticast", (IP,), _T.BOOL, of_ip(addresses.is_link_local_multicast)),
        Function("isLinkLocalUnicast", (IP,), _T.BOOL, of_ip(lambda address: address.is_link_local)),
        Function("isGlobalUnicast", (IP,), _T.BOOL, of_ip(addresses.is_global_unicast)),
        Function("cidr", (_T.STRING,), CIDR, addresses.cidr, member=False),
        Function("isCIDR", (_T.STRING,), _T.BOOL, _succeeds(addresses.parse_prefix), member=False),
        *(Function("containsIP", (CIDR, kind), _T.BOOL, addresses.contains_ip) for kind in (_T.STRING, IP)),
        *(Function("containsCIDR", (CIDR, kind), _T.BOOL, addresses.contains_cidr) for kind in (_T.STRING, CIDR)),
        Function("ip", (CIDR,), IP, lambda value: {"@ip": str(addresses.read_prefix(value)[0])}),
        Function("prefixLength", (CIDR,), _T.INT, lambda value: addresses.read_prefix(value)[1].prefixlen),
        Function("masked", (CIDR,), CIDR, addresses.masked),
        Function("isMask", (CIDR,), _T.BOOL, addresses.is_mask),
        Function("url", (_T.STRING,), URL, url, member=False),
        Function("isURL", (_T.STRING,), _T.BOOL, _succeeds(addresses.parse_url), member=False),
        Function("getScheme", (URL,), _T.STRING, of_url(lambda parts: parts.scheme)),
        Function("getHost", (URL,), _T.STRING, of_url(lambda parts: parts.host)),
        Function("getHostname", (URL,), _T.STRING, of_url(lambda parts: parts.hostname)),
        Function("getPort", (URL,), _T.STRING, of_url(lambda parts: parts.port)),
        Function("getEscapedPath", (URL,), _T.STRING, of_url(lambda parts: parts.escaped_path)),
        Function("getQuery", (URL,), _T.Map(_T.STRING, _T.List(_T.STRING)), of_url(lambda parts: parts.values)),
    ]


def environment(variables: Mapping[str, cel.Type], more: Sequence[Function] = (), *, loosely: bool = False) -> cel.Env:
    """Return an environment with Kubernetes' functions and ``more``. ``loosely`` takes tagged maps at run time."""
    functions = [
        *_quantity_functions(),
        *_version_functions(),
        *_comparisons(QUANTITY),
        # At run time both are maps: one overload is sufficient.
        *(() if loosely else _comparisons(VERSION)),
        *_collection_functions(),
        *_address_functions(),
        *more,
    ]
    by_name: dict[str, list[cel.Overload]] = {}
    for function in functions:
        overloads = by_name.setdefault(function.name, [])
        overloads.append(function.overload(len(overloads), loosely=loosely))
    # Strings of Kubernetes' version, and macros. The latter are available by name only.
    config = cel.NewEnvConfigFromYaml("extensions: [{name: strings, version: 2}, {name: two-var-comprehensions}]")
    extensions: list[cel.CelExtensionBase] = [
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
        ext_encoders.ExtEncoders(),
        # Only an extension may add overloads to functions of another one.
        cel.CelExtension("positions", [cel.FunctionDecl(name, by_name.pop(name)) for name in _POSITIONS]),
    ]
    declarations = [cel.FunctionDecl(name, overloads) for name, overloads in by_name.items()]
    return cel.NewEnv(config=config, variables=dict(variables), extensions=extensions, functions=declarations)
