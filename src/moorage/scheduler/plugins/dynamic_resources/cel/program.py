"""CEL selectors over devices: cel-cpp parses, checks and evaluates. The Kubernetes dialect is added here.

cel-cpp supports neither quantities nor versions, and its binding cannot pass custom types at run time. So an expression
is compiled twice. The first compilation uses dedicated types and finds the errors that upstream's compiler finds. The
second is for evaluation: quantities and versions are tagged maps, which compare by value. See :mod:`.cel_functions`.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from moorage.common.caches import LRU
from moorage.common.errors import MoorageError
from moorage.kube.api.devices import Device, DeviceAttribute
from moorage.kube.api.quantity import nano_value
from moorage.kube.cel.cost import (
    MAX_COST,
    OverBudget,
    Size,
    estimate_cost,
    measure_size,
    size,
)
from moorage.kube.cel.syntax_tree import read_tree
from moorage.kube.cel.tokens import TOKEN, has_name
from moorage.kube.cel.versions import parse_version

if TYPE_CHECKING:
    from cel_expr_python import cel

FIELDS: Final = ("driver", "allowMultipleAllocations", "attributes", "capacity")
MAPS: Final = ("attributes", "capacity")
# Maps of the domains that the device has. In the plain maps a missing domain is an empty map, as upstream.
LISTED: Final = {"attributes": "listedAttributes", "capacity": "listedCapacity"}


class _FieldUse(NamedTuple):
    """A use of a field of ``device``. Positions count tokens without white space."""

    start: int
    field_index: int
    name: str


class Source:
    """An expression as tokens."""

    def __init__(self, expression: str) -> None:
        matches = ((match.lastgroup, match[0]) for match in TOKEN.finditer(expression))
        self._tokens = [(kind, text) for kind, text in matches if kind != "comment"]
        #: The indexes of tokens that are not white space.
        self._solid = [index for index, (kind, _) in enumerate(self._tokens) if kind != "space"]

    def field_names(self) -> list[str]:
        """Return the names of the ``device`` fields in use."""
        return [use.name for use in self._field_uses()]

    def for_checking(self) -> str:
        """Replace ``has(device.driver)`` by ``true``: cel-cpp treats the field as a variable and cannot test it."""
        texts = self._with_optionals()
        for use in self._field_uses():
            if [self._text(use.start - 2), self._text(use.start - 1), self._text(use.field_index + 1)] == [
                "has",
                "(",
                ")",
            ]:
                first, last = self._solid[use.start - 2], self._solid[use.field_index + 1]
                texts[first : last + 1] = ["true", *("" for _ in range(last - first))]
        return "".join(texts)

    def for_evaluation(self) -> str:
        """Use the maps of existing domains for ``in``, ``size`` and macros. Lookups see empty maps otherwise."""
        texts = self._with_optionals()
        for use in self._field_uses():
            after = self._text(use.field_index + 1)
            calls_method = after == "." and self._text(use.field_index + 3) == "("
            is_argument = self._text(use.start - 1) == "in" or (
                self._text(use.start - 1) == "(" and self._text(use.start - 2) == "size"
            )
            if use.name in MAPS and (calls_method or (is_argument and after not in ("[", "."))):
                texts[self._solid[use.field_index]] = LISTED[use.name]
        return "".join(texts)

    def _with_optionals(self) -> list[str]:
        """Return the texts of the tokens, with the index ``[?0]`` after calls of ``validate`` and ``format.named``.

        These functions return lists of at most one element, which the index turns into optionals.
        """
        texts = [text for _, text in self._tokens]
        for start in range(len(self._solid)):
            call_text = self._text(start - 1) + self._text(start) + self._text(start + 1)
            if call_text == ".validate(" or (call_text == ".named(" and self._text(start - 2) == "format"):
                depth = 0
                for end in range(start + 1, len(self._solid)):
                    depth += {"(": 1, ")": -1}.get(self._text(end), 0)
                    if not depth:
                        texts[self._solid[end]] += "[?0]"
                        break
        return texts

    def possible_domains(self) -> Iterator[str]:
        """Yield all possible domain names: identifiers and strings."""
        for kind, text in self._tokens:
            if kind == "name":
                yield text
            elif kind == "string":
                yield text.strip("rR").strip(text[-1])

    def _field_uses(self) -> Iterator[_FieldUse]:
        for start, index in enumerate(self._solid):
            if self._tokens[index] != ("name", "device") or self._text(start + 1) != ".":
                continue
            is_field_itself = self._text(start - 1) == "." or (
                self._text(start - 1) == "?" and self._text(start - 2) == "."
            )
            if not is_field_itself:
                name_at = start + 3 if self._text(start + 2) == "?" else start + 2
                yield _FieldUse(start, name_at, self._text(name_at))

    def _text(self, number: int) -> str:
        """Return the text of a token that is not white space; an empty string out of range."""
        return self._tokens[self._solid[number]][1] if 0 <= number < len(self._solid) else ""


_MISSING_KEY: Final = re.compile(r'Key not found in map : "(.*)"\Z', re.DOTALL)
_MAX_ATTEMPTS: Final = 16
MAX_EXPRESSION: Final = 10 * 1024
"""Maximum bytes of an expression. The API server rejects longer ones."""
_MAX_DOMAIN: Final = 253
_MAX_PROGRAMS: Final = 256
_MAX_RESULTS: Final = 64
_TOO_EXPENSIVE: Final = "operation cancelled: actual cost limit exceeded"
# Exceptions of cel-cpp's binding: its own errors, and data that it cannot convert.
_FAILURES: Final = (RuntimeError, ValueError, TypeError, OverflowError)
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


class CelCompileError(MoorageError):
    """An expression cannot be compiled."""


class CelRuntimeError(MoorageError):
    """An expression failed on a device."""


Result = bool | int | str | dict[str, str] | list[Any] | CelRuntimeError
"""The result of an expression: whether it selects a device, an attribute value, or an error."""


class Facts:
    """The view of a device that expressions have. Equal devices share it together with all cached results."""

    __slots__ = ("__weakref__", "attributes", "capacity", "driver", "multiple", "problem", "results", "size")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.multiple = bool(device.allow_multiple_allocations)
        self.problem = ""
        self.attributes: dict[str, dict[str, Any]] = {}
        self.capacity: dict[str, dict[str, Any]] = {}
        self.results: LRU[str, Result] = LRU("CEL results", _MAX_RESULTS)
        for name, attribute in device.attributes.items():
            domain, identifier = split_name(name, driver)
            try:
                self.attributes.setdefault(domain, {})[identifier] = _value(attribute)
            except ValueError as error:
                self.problem = f"attribute {name}: {error}"
        # The qualified form of a name wins. 1.37 leaves it to the order of a Go map.
        for name, capacity in sorted(device.capacity.items(), key=lambda item: "/" in item[0]):
            domain, identifier = split_name(name, driver)
            self.capacity.setdefault(domain, {})[identifier] = {"@quantity": str(nano_value(capacity.value))}
        self.size = measure_size(self.as_device(frozenset(), set()))

    def as_device(self, domains: frozenset[str], more: set[str]) -> dict[str, Any]:
        """Return the ``device`` variable, with empty maps for domains that the device does not have."""
        empty: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, *more, self.driver)}
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.multiple,
            "attributes": empty | self.attributes,
            "capacity": empty | self.capacity,
            LISTED["attributes"]: self.attributes,
            LISTED["capacity"]: self.capacity,
        }


_FACTS: Final["WeakValueDictionary[bytes, Facts]"] = WeakValueDictionary()
_ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")


def device_facts(driver: str, device: Device) -> Facts:
    """Return the facts of a device. Equal devices share one object."""
    key = _ENCODER.encode((driver, device.allow_multiple_allocations, device.attributes, device.capacity))
    facts = _FACTS.get(key)
    if facts is None:
        facts = _FACTS[key] = Facts(driver, device)
    return facts


class Program:
    """A compiled expression. Results are cached in the facts, so equal devices are evaluated once."""

    evaluations: ClassVar[int] = 0
    """Number of evaluations of all expressions; callers with a time budget check whether it changed."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        if len(expression.encode("utf-8", "replace")) > MAX_EXPRESSION:
            raise CelCompileError(f"compilation failed: ERROR: longer than {MAX_EXPRESSION} bytes")
        source = Source(expression)
        for name in source.field_names():
            if name not in FIELDS:
                raise CelCompileError(f"compilation failed: ERROR: undefined field '{name}'")
        self.has_mask = has_name(expression, "isMask")
        checker, evaluator = _environments()
        checked = _compile(checker, source.for_checking(), check=True)
        self._check_type(checked.return_type().name())
        self._compiled = _compile(evaluator, source.for_evaluation(), check=False)
        self._domains = frozenset(source.possible_domains())
        self._tree = read_tree(self._compiled.serialize())
        self._attempts: LRU[Size, int] = LRU("CEL attempts", 64, self._count_attempts)

    def _check_type(self, type_name: str) -> None:
        if type_name not in ("BOOL", "DYN"):
            raise CelCompileError(f"must evaluate to bool or the unknown type, not {type_name}")

    def matches(self, facts: Facts) -> bool:
        """Return whether a device is selected, or raise :class:`CelRuntimeError`."""
        result = self._cached_result(facts, self.expression)
        assert isinstance(result, bool)
        return result

    def _cached_result(self, facts: Facts, key: str) -> Result:
        result = facts.results.find(key)
        if result is None:
            result = self._evaluate(facts)
            facts.results.put(key, result)
        if isinstance(result, CelRuntimeError):
            raise result
        return result

    def _count_attempts(self, device: Size) -> int:
        """Return the number of evaluations that the budget allows."""
        try:
            # Domains with empty maps are added to those of the device.
            maps, added = device.entry(), len(self._domains) + _MAX_ATTEMPTS
            longest = max(_MAX_DOMAIN, maps.key, *(len(domain.encode("utf-8", "replace")) for domain in self._domains))
            maps = size(maps.length + added, key=longest, item=maps.item)
            cost = estimate_cost(self._tree, {"device": size(device.length, key=device.key, item=maps)})
        except OverBudget:
            return 0
        return min(_MAX_ATTEMPTS, int(MAX_COST / max(cost, 1)))

    def _evaluate(self, facts: Facts) -> Result:
        if facts.problem:
            return CelRuntimeError(facts.problem)
        Program.evaluations += 1
        result: cel.Value | None = None
        missing_domains: set[str] = set()
        for _ in range(self._attempts.lookup(facts.size)):
            try:
                result = self._compiled.eval(data={"device": facts.as_device(self._domains, missing_domains)})
            except _FAILURES as error:
                # cel-cpp's limit of iterations is also treated as a cost limit.
                return CelRuntimeError(f"{_TOO_EXPENSIVE}: {error}")
            try:
                value = result.plain_value()
            except (TypeError, SystemError):
                # An optional has no counterpart in Python.
                return self._read(None, "optional_type")
            if result.type().name() != "ERROR":
                break
            missing_key = _MISSING_KEY.search(str(value))
            if (
                missing_key is None
                or missing_key[1] in missing_domains | self._domains
                or len(missing_key[1]) > _MAX_DOMAIN
            ):
                return CelRuntimeError(self._upstream_message(str(value)))
            # A domain computed at run time: add an empty map and re-evaluate. Missing identifiers remain missing.
            missing_domains.add(missing_key[1])
        if result is None:
            return CelRuntimeError(_TOO_EXPENSIVE)
        return self._read(value, result.type().name().lower())

    def _upstream_message(self, problem: str) -> str:
        return _upstream_text(problem) + (_ADVICE if _MISSING_KEY.search(problem) else "")

    def _read(self, value: Any, kind: str) -> Result:
        if isinstance(value, bool):
            return value
        return CelRuntimeError(f"CEL result of type {kind} could not be converted to bool")


class DerivedValue(Program):
    """A compiled expression for a derived attribute of a device."""

    def value(self, facts: Facts) -> Result:
        """Return the derived attribute. Raise :class:`CelRuntimeError` if evaluation fails."""
        return self._cached_result(facts, f"={self.expression}")

    def _check_type(self, type_name: str) -> None:
        if type_name not in _DERIVED and not type_name.startswith("LIST"):
            kind = _TYPE_WORDS.get(type_name, type_name if "." in type_name else type_name.lower())
            raise CelCompileError(
                "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, "
                f"not {kind}"
            )

    def _upstream_message(self, problem: str) -> str:
        return _upstream_text(problem)

    def _read(self, value: Any, kind: str) -> Result:
        items = value if isinstance(value, list) else [value]
        for item in items:
            if not isinstance(item, bool | int | str) and not (isinstance(item, dict) and "@semver" in item):
                word = {"double": "float64"}.get(kind, kind) if item is value else type(item).__name__
                return CelRuntimeError(f"unsupported CEL return type: {word}")
        if len({type(item) for item in items}) > 1:
            return CelRuntimeError("unsupported CEL return type: a list of different types")
        result: Result = value
        return result


_DERIVED: Final = frozenset(("BOOL", "INT", "STRING", "DYN", "kubernetes.Semver"))
_TYPE_WORDS: Final = {"NULL": "null_type"}
_PROGRAMS: Final[LRU[tuple[type[Program], str], Program | CelCompileError]] = LRU("CEL programs", _MAX_PROGRAMS)
P = TypeVar("P", bound=Program)


def compile_selector(expression: str, *, masks: bool = False) -> Program:
    """Compile a selector, or return the cached program. Raise :class:`CelCompileError`.

    ``masks`` allows the method ``isMask``, which 1.38 adds.
    """
    return _compiled(Program, expression, masks)


def compile_attribute(expression: str, *, masks: bool = False) -> DerivedValue:
    """Compile a derived attribute, or return the cached program. Raise :class:`CelCompileError`."""
    return _compiled(DerivedValue, expression, masks)


def _compiled(kind: type[P], expression: str, masks: bool) -> P:
    program = _PROGRAMS.find((kind, expression))
    if program is None:
        try:
            program = kind(expression)
        except CelCompileError as error:
            program = error
        if len(expression) <= MAX_EXPRESSION:
            _PROGRAMS.put((kind, expression), program)
    if isinstance(program, CelCompileError):
        raise program
    assert isinstance(program, kind)
    if program.has_mask and not masks:
        raise CelCompileError("compilation failed: ERROR: undeclared reference to 'isMask' (in container '')")
    return program


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Split a qualified name into domain and identifier. The default is the driver's domain."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _value(attribute: DeviceAttribute) -> Any:
    if attribute.version_value is not None:
        return parse_version(attribute.version_value).tagged
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_values is not None:
        return [parse_version(text).tagged for text in attribute.version_values]
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return list(values)
    raise ValueError("unsupported attribute value")


def _upstream_text(problem: str) -> str:
    missing_key = _MISSING_KEY.search(problem)
    return f"no such key: {missing_key[1]}" if missing_key else problem


def _compile(env: "cel.Env", text: str, *, check: bool) -> "cel.Expression":
    try:
        return env.compile(text, disable_check=not check)
    except _FAILURES as error:
        raise CelCompileError(f"compilation failed: {error}") from error


@cache
def _environments() -> "tuple[cel.Env, cel.Env]":
    """Return the environments that check and evaluate an expression."""
    try:
        from moorage.scheduler.plugins.dynamic_resources.cel import cel_functions
    except ImportError as error:
        # cel-cpp is a third of an installation, and most clusters have no devices: it is an extra.
        raise CelCompileError(f"CEL is not installed ({error}): pip install 'moorage[dra]'") from error
    return cel_functions.checking_environment(), cel_functions.evaluating_environment()
