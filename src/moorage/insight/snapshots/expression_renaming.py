"""Rename the texts and identifiers of CEL expressions over devices."""

import ast
import json
import re
from collections.abc import Callable, Iterable
from typing import Final

from moorage.kube.api.devices import Device
from moorage.kube.cel.tokens import TOKEN
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    FIELDS,
    CelCompileError,
    CelRuntimeError,
    Facts,
    Program,
)

ROOTS: Final = frozenset(("device", "true", "false", "null", "in", "cel", "math", "sets", "optional", "semver"))
FUNCTIONS: Final = frozenset(
    (
        *("has", "size", "all", "exists", "exists_one", "map", "filter", "bind", "int", "uint", "double"),
        *("string", "bool", "bytes", "dyn", "type", "matches", "startsWith", "endsWith", "contains"),
        *("lowerAscii", "upperAscii", "trim", "split", "join", "replace", "substring", "indexOf"),
        *("lastIndexOf", "charAt", "format", "reverse", "quantity", "isQuantity", "asInteger"),
        *("asApproximateFloat", "isInteger", "sign", "add", "sub", "compareTo", "isGreaterThan"),
        *("isLessThan", "semver", "isSemver", "major", "minor", "patch", "includes", "isSorted", "sum"),
        *("min", "max", "greatest", "least", "optional", "of", "none", "hasValue", "value", "orValue"),
        *("optMap", "optFlatMap"),
    )
)
TESTS: Final = frozenset(("startsWith", "endsWith", "contains", "matches"))
PARSERS: Final = frozenset(("quantity", "isQuantity", "semver", "isSemver"))
"""Functions of a number or a version."""
TEXT_FUNCTIONS: Final = TESTS | {
    *("lowerAscii", "upperAscii", "trim", "split", "join", "replace", "substring", "indexOf", "lastIndexOf"),
    *("charAt", "format", "reverse", "size", "string"),
}
NUMBER: Final = re.compile(r"v?\d[\d.]*(?:[munkKMGTPE]i?)?")


def find_words(expression: str) -> set[str]:
    """Return the identifiers and texts of an expression."""
    tokens = TOKEN.finditer(expression)
    return {_text(match[0]) if match.lastgroup == "string" else match[0] for match in tokens}


def rename_expression(expression: str, rename: Callable[[str], str], texts: Iterable[str]) -> tuple[str, bool]:
    """Return a renamed expression, and whether it selects the same devices as before.

    Tests of a text, such as ``device.driver.startsWith("gpu")``, become a list of the renamed texts that pass.
    ``texts`` are all texts that devices have. Other functions of texts depend on letters and cannot be translated.
    """
    matches = [match for match in TOKEN.finditer(expression) if match.lastgroup != "comment"]
    tokens = [(match.lastgroup or "", match[0]) for match in matches if match.lastgroup != "space"]
    parts: list[str] = []
    starts: list[int] = []  # the index in `parts` at which each token starts
    is_same = True
    index = 0
    while index < len(tokens):
        kind, token = tokens[index]
        starts.append(len(parts))
        before = tokens[index - 1][1] if index else ""
        after = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        end = _end_of_test(tokens, index)
        first = _start_of_path(tokens, index) if end else None
        if end and first is not None:
            path = "".join(parts[starts[first] :])
            test = "".join(text for _, text in tokens[index:end])
            passed = json.dumps(sorted(rename(text) for text in texts if _passes(test, text)))
            # startsWith preserves the error for values that are not strings.
            parts[starts[first] :] = [f'({path}.startsWith("") && {path} in {passed})']
            starts += [len(parts)] * (end - index - 1)
            index = end
            continue
        if kind == "string":
            text = _text(token)
            function = tokens[index - 2][1] if index > 1 and before == "(" else ""
            is_number = function in PARSERS and NUMBER.fullmatch(text)
            parts.append(token if is_number else json.dumps(rename(text)))
        elif kind == "name":
            is_same &= not (after == "(" and token in TEXT_FUNCTIONS)
            is_same &= token != "bind" or after != "("
            parts.append(token if _is_public(token, before, after, tokens, index) else rename(token))
            if token == "in" and before != ".":
                parts[-1] = " in "
        else:
            parts.append(token)
        index += 1
    return "".join(parts), is_same


def _is_public(token: str, before: str, after: str, tokens: list[tuple[str, str]], index: int) -> bool:
    if after == "(":
        return token in FUNCTIONS
    if before == ".":
        return token in FIELDS and index > 1 and tokens[index - 2][1] == "device"
    return token in ROOTS


def _end_of_test(tokens: list[tuple[str, str]], index: int) -> int:
    """Return the end of calls such as ``.lowerAscii().contains("a")`` that start here, or 0."""
    while index + 2 < len(tokens) and tokens[index][1] == "." and tokens[index + 2][1] == "(":
        name, index = tokens[index + 1][1], index + 3
        while index < len(tokens) and (tokens[index][0] == "string" or tokens[index][1] == ","):
            index += 1
        if index == len(tokens) or tokens[index][1] != ")" or name not in TEXT_FUNCTIONS:
            return 0
        index += 1
        if name in TESTS:
            return index
    return 0


def _start_of_path(tokens: list[tuple[str, str]], index: int) -> int | None:
    """Return the start of ``device.driver`` or ``device.attributes["domain"].name`` that ends here."""
    first = index - 1
    while first >= 0 and tokens[first][1] != "device":
        if tokens[first][1] == "]" and first > 2 and tokens[first - 1][0] == "string":
            first -= 3
        elif tokens[first][0] == "name" and tokens[first - 1][1] == ".":
            first -= 2
        else:
            return None
    return first if first >= 0 else None


def _passes(test: str, text: str) -> bool:
    try:
        return Program(f"device.driver{test}").matches(Facts(text, Device()))
    except (CelCompileError, CelRuntimeError):
        return False


def _text(token: str) -> str:
    """Return the value of a literal; Python's literals are almost the same."""
    try:
        value = ast.literal_eval(token)
    except (SyntaxError, ValueError):
        return token
    return value if isinstance(value, str) else token
