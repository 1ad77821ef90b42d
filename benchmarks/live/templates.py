"""Templates of objects with ``${...}`` expressions of the object's number and the sizes."""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any, Final

from moorage.common.errors import InputError

PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
KNOWN: Final = ("i", "nodes", "pods")
_ALLOWED: Final = (
    ast.Expression,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Call,
)
_FUNCTIONS: Final[Mapping[str, Callable[..., int]]] = {"min": min, "max": max}


class Expression:
    """An integer expression of ``i``, ``nodes`` and ``pods``.

    >>> Expression("i // min(500, nodes)", "here").of(i=1200, nodes=5000)
    2
    """

    def __init__(self, text: str, where: str) -> None:
        self._code = _compiled(text, where)

    def of(self, **names: int) -> int:
        """Work it out."""
        return int(eval(self._code, {"__builtins__": {}}, {**_FUNCTIONS, **names}))


class Template:
    """An object with placeholders, stored as pieces of JSON, so that rendering is a join of strings."""

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        parts = PLACEHOLDER.split(json.dumps(content, separators=(",", ":")))
        self._texts = parts[::2]
        self._sums = [Expression(part, where) for part in parts[1::2]]

    def made(self, **names: int) -> bytes:
        """Return the object with this number as JSON."""
        filled = (f"{text}{value.of(**names)}" for text, value in zip(self._texts, self._sums, strict=False))
        return ("".join(filled) + self._texts[-1]).encode()

    def all(self, count: int, **names: int) -> Iterator[bytes]:
        """Return ``count`` objects, numbered from 0."""
        return (self.made(i=number, **names) for number in range(count))


def merged(base: Any, over: Any) -> Any:
    """Merge nested mappings; other values are replaced."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}


def _compiled(text: str, where: str) -> CodeType:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise InputError(where, f"{text!r} is not an expression", hint="write an expression such as i % 10") from error
    for part in ast.walk(tree):
        named_badly = isinstance(part, ast.Name) and part.id not in (*KNOWN, *_FUNCTIONS)
        if named_badly or not isinstance(part, _ALLOWED):
            allowed_terms = f"{', '.join(KNOWN)}, whole numbers, + - * // %, min and max"
            raise InputError(where, f"{text!r} cannot be evaluated", hint=f"use only {allowed_terms}")
    return compile(tree, where, "eval")
