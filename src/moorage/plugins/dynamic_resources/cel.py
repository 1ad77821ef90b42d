"""CEL selectors over devices: cel-cpp parses, checks and evaluates; the Kubernetes dialect is added here.

cel-cpp knows neither quantities nor versions, and its binding cannot pass values of a type of ours at run time. So an
expression is compiled twice: against declarations in which they are types of their own, which finds what upstream's
compiler finds, and for evaluation, where they are tagged maps that compare by value and that the functions of
:mod:`.cel_functions` know how to read.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import msgspec

from moorage.api.devices import Device, DeviceAttribute
from moorage.api.quantity import nano_value
from moorage.errors import MoorageError

if TYPE_CHECKING:
    from cel_expr_python import cel

FIELDS: Final = ("driver", "allowMultipleAllocations", "attributes", "capacity")
MAPS: Final = ("attributes", "capacity")
# What the device lists itself; under the plain names a domain that it does not list is an empty map, as upstream's is.
LISTED: Final = {"attributes": "listedAttributes", "capacity": "listedCapacity"}

_TOKEN: Final = re.compile(
    r"""(?P<comment>//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_MISSING_KEY: Final = re.compile(r'Key not found in map : "(.*)"\Z', re.DOTALL)
_MOST_RETRIES: Final = 16
_ADVICE: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


class CelCompileError(MoorageError):
    """An expression cannot be compiled."""


class CelRuntimeError(MoorageError):
    """An expression failed on a device."""


class Facts:
    """What an expression sees of a device; devices that look the same share it, and with it all answers."""

    __slots__ = ("__weakref__", "answers", "attributes", "capacity", "driver", "multiple", "problem")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver = driver
        self.multiple = bool(device.allow_multiple_allocations)
        self.problem = ""
        self.attributes: dict[str, dict[str, Any]] = {}
        self.capacity: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, bool | CelRuntimeError] = {}
        for name, attribute in device.attributes.items():
            domain, identifier = split_name(name, driver)
            try:
                self.attributes.setdefault(domain, {})[identifier] = _value(attribute)
            except ValueError as error:
                self.problem = f"attribute {name}: {error}"
        for name, capacity in device.capacity.items():
            domain, identifier = split_name(name, driver)
            self.capacity.setdefault(domain, {})[identifier] = {"@quantity": str(nano_value(capacity.value))}

    def as_device(self, domains: frozenset[str], more: set[str]) -> dict[str, Any]:
        """Return the ``device`` variable, with empty maps for the domains an expression names in vain."""
        empty: dict[str, dict[str, Any]] = {domain: {} for domain in (*domains, *more, self.driver)}
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.multiple,
            "attributes": empty | self.attributes,
            "capacity": empty | self.capacity,
            LISTED["attributes"]: self.attributes,
            LISTED["capacity"]: self.capacity,
        }


_KNOWN_FACTS: Final["WeakValueDictionary[bytes, Facts]"] = WeakValueDictionary()
_ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")


def facts_of(driver: str, device: Device) -> Facts:
    """Return the facts of a device, the same object for devices that look the same."""
    key = _ENCODER.encode((driver, device.allow_multiple_allocations, device.attributes, device.capacity))
    facts = _KNOWN_FACTS.get(key)
    if facts is None:
        facts = _KNOWN_FACTS[key] = Facts(driver, device)
    return facts


class Program:
    """A compiled expression. Answers are remembered with the facts, so an equal device is never asked twice."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        tokens = list(_tokens(expression))
        _check_fields(tokens)
        checked = _compile(_checker(), _without_field_tests(tokens), check=True)
        if checked.return_type().name() not in ("BOOL", "DYN"):
            raise CelCompileError(f"must evaluate to bool or the unknown type, not {checked.return_type().name()}")
        self._compiled = _compile(_evaluator(), _with_listed_maps(tokens), check=False)
        self._domains = frozenset(_possible_domains(tokens))

    def matches(self, facts: Facts) -> bool:
        """Tell whether a device is selected, or raise :class:`CelRuntimeError`."""
        answer = facts.answers.get(self.expression)
        if answer is None:
            answer = facts.answers[self.expression] = self._ask(facts)
        if isinstance(answer, CelRuntimeError):
            raise answer
        return answer

    def _ask(self, facts: Facts) -> bool | CelRuntimeError:
        if facts.problem:
            return CelRuntimeError(facts.problem)
        found: set[str] = set()
        for _ in range(_MOST_RETRIES):
            try:
                result = self._compiled.eval(data={"device": facts.as_device(self._domains, found)})
            except RuntimeError as error:
                # The iteration budget takes the place of upstream's cost limit: both end what would run on.
                return CelRuntimeError(f"operation cancelled: actual cost limit exceeded: {error}")
            if result.type().name() != "ERROR":
                break
            missing = _MISSING_KEY.search(str(result.value()))
            if missing is None or missing[1] in found or missing[1] in self._domains:
                return CelRuntimeError(_upstream_words(str(result.value())))
            # A domain computed at run time: give it an empty map and ask again; a missing identifier stays missing.
            found.add(missing[1])
        value = result.value()
        if isinstance(value, bool):
            return value
        kind = result.type().name().lower()
        return CelRuntimeError(f"CEL result of type {kind} could not be converted to bool")


@lru_cache(maxsize=256)
def compiled(expression: str) -> Program:
    """Compile an expression, or return what was compiled before; raise :class:`CelCompileError`."""
    return Program(expression)


def split_name(name: str, driver: str) -> tuple[str, str]:
    """Split a qualified name into domain and identifier; a bare one belongs to the driver's domain."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _value(attribute: DeviceAttribute) -> Any:
    if attribute.version_value is not None:
        from moorage.plugins.dynamic_resources.cel_functions import parse_version

        return parse_version(attribute.version_value).tagged
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    raise ValueError("unsupported attribute value")


def _upstream_words(problem: str) -> str:
    missing = _MISSING_KEY.search(problem)
    return f"no such key: {missing[1]}{_ADVICE}" if missing else problem


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(expression):
        if match.lastgroup == "comment":
            continue
        yield match.lastgroup or "", match[0]


def _neighbours(tokens: list[tuple[str, str]], index: int, step: int) -> Iterator[str]:
    """Go through the texts beside a token, leaving out white space."""
    index += step
    while 0 <= index < len(tokens):
        if tokens[index][0] != "space":
            yield tokens[index][1]
        index += step
    yield from ("",) * 5


def _field_uses(tokens: list[tuple[str, str]]) -> Iterator[tuple[int, str, list[str], list[str]]]:
    """Find where a field of ``device`` is named: its token, its name, and what stands before and after the whole."""
    for index, (kind, text) in enumerate(tokens):
        if kind != "name" or text != "device":
            continue
        before = _neighbours(tokens, index, -1)
        two_before = [next(before), next(before)]
        after = list(_take(_neighbours(tokens, index, 1), 6))
        if two_before[0] == "." or after[0] != ".":
            continue
        optional = after[1] == "?"
        name = after[2] if optional else after[1]
        place = next(i for i in range(index + 1, len(tokens)) if tokens[i][1] == name)
        yield place, name, two_before, after[3 if optional else 2 :]


def _take(items: Iterator[str], count: int) -> Iterator[str]:
    for _ in range(count):
        yield next(items)


def _check_fields(tokens: list[tuple[str, str]]) -> None:
    for _, name, _, _ in _field_uses(tokens):
        if name not in FIELDS:
            raise CelCompileError(f"compilation failed: ERROR: undefined field '{name}'")


def _without_field_tests(tokens: list[tuple[str, str]]) -> str:
    """Write ``true`` for ``has(device.driver)``: cel-cpp takes the field for a variable and would not test it."""
    texts = [text for _, text in tokens]
    for place, _, before, after in _field_uses(tokens):
        if before == ["(", "has"] and after[0] == ")":
            start = max(i for i in range(place) if texts[i] == "has")
            end = next(i for i in range(place, len(texts)) if texts[i] == ")")
            texts[start : end + 1] = ["true", *("" for _ in range(end - start))]
    return "".join(texts)


def _with_listed_maps(tokens: list[tuple[str, str]]) -> str:
    """Let ``in``, ``size`` and macros see the domains that are there; looking one up sees an empty map otherwise."""
    texts = [text for _, text in tokens]
    for place, name, before, after in _field_uses(tokens):
        calls_method = after[0] == "." and after[2:3] == ["("]
        is_whole = calls_method or (after[0] not in ("[", ".") and (before[0] == "in" or before == ["(", "size"]))
        if name in MAPS and is_whole:
            texts[place] = LISTED[name]
    return "".join(texts)


def _possible_domains(tokens: list[tuple[str, str]]) -> Iterator[str]:
    for kind, text in tokens:
        if kind == "name":
            yield text
        elif kind == "string":
            yield text.strip("rR").strip(text[-1])


def _compile(env: "cel.Env", text: str, *, check: bool) -> "cel.Expression":
    try:
        return env.compile(text, disable_check=not check)
    except RuntimeError as error:
        raise CelCompileError(f"compilation failed: {error}") from error


@cache
def _checker() -> "cel.Env":
    from moorage.plugins.dynamic_resources import cel_functions

    return cel_functions.checking_environment()


@cache
def _evaluator() -> "cel.Env":
    from moorage.plugins.dynamic_resources import cel_functions

    return cel_functions.evaluating_environment()
