"""The part of Go's text/template that the templates of scheduler_perf use: if, range, variables and pipelines."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

ACTION: Final = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|:=|[()|]|[^\s()|]+')

Node: TypeAlias = "str | Expression | Block"
Scope: TypeAlias = dict[str, Any]
"""The variables, and ``.``: the current value."""


class Expression:
    """A pipeline, assigned to ``variable`` if it has one.

    >>> Expression("AddInt .Index 2 | JSON").of({".": {"Index": 1}})
    '3'
    """

    def __init__(self, text: str) -> None:
        tokens = TOKEN.findall(text)
        self.variable = tokens[0] if ":=" in tokens[1:2] else ""
        self._tokens = tokens[2:] if self.variable else tokens

    def of(self, scope: Scope) -> Any:
        """Evaluate the pipeline."""
        return _pipeline(iter([*self._tokens, ")"]), scope)


class Block:
    """An ``if`` or ``range`` with its branches."""

    def __init__(self, keyword: str, condition: Expression, body: Sequence[Node], otherwise: Sequence[Node]) -> None:
        self.keyword, self.condition, self.body, self.otherwise = keyword, condition, body, otherwise

    def rendered(self, scope: Scope) -> Iterator[str]:
        """Render the branches that apply."""
        value = self.condition.of(scope)
        if self.keyword == "if":
            yield from _rendered(self.body if value else self.otherwise, scope)
            return
        for item in range(value) if isinstance(value, int) else value or ():
            inner = scope if self.condition.variable else {**scope, ".": item}
            yield from _rendered(self.body, {**inner, self.condition.variable or ".": item})


class GoTemplate:
    """A parsed template."""

    def __init__(self, text: str) -> None:
        pieces: list[str | tuple[str]] = []
        end, trims = 0, False
        for match in ACTION.finditer(text):
            before = text[end : match.start()]
            before = before.lstrip() if trims else before
            pieces += [before.rstrip() if match[1] else before, (match[2],)]
            end, trims = match.end(), bool(match[3])
        pieces.append(text[end:].lstrip() if trims else text[end:])
        self._nodes, _ = _parsed(iter(pieces))

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text with these values.

        >>> GoTemplate("a{{range $i := 2}}-{{$i}}{{end}}").render({})
        'a-0-1'
        """
        return "".join(_rendered(self._nodes, {".": values}))


def _parsed(pieces: Iterator[str | tuple[str]]) -> tuple[list[Node], str]:
    """Parse up to an ``else`` or ``end``; return the nodes and this keyword."""
    nodes: list[Node] = []
    for piece in pieces:
        if isinstance(piece, str):
            nodes.append(piece)
            continue
        keyword, _, rest = piece[0].partition(" ")
        if keyword in ("end", "else"):
            return nodes, keyword
        if keyword in ("if", "range"):
            body, ended_by = _parsed(pieces)
            otherwise = _parsed(pieces)[0] if ended_by == "else" else []
            nodes.append(Block(keyword, Expression(rest), body, otherwise))
        elif not piece[0].startswith("/*"):
            nodes.append(Expression(piece[0]))
    return nodes, ""


def _rendered(nodes: Sequence[Node], scope: Scope) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, Block):
            yield from node.rendered(scope)
        elif node.variable:
            scope[node.variable] = node.of(scope)
        else:
            yield str(node.of(scope))


def _pipeline(tokens: Iterator[str], scope: Scope) -> Any:
    """Evaluate commands up to a closing parenthesis. Each receives the result of the previous one as last argument."""
    result: list[Any] = []
    command: list[Any] = []
    for token in tokens:
        if token == "(":
            command.append(_pipeline(tokens, scope))
        elif token in ("|", ")"):
            result = [_called([*command, *result])]
            command = []
            if token == ")":
                break
        else:
            command.append(_operand(token, scope))
    return result[0]


def _called(command: Sequence[Any]) -> Any:
    first, *arguments = command
    return first(*arguments) if callable(first) else first


def _operand(token: str, scope: Scope) -> Any:
    if token == ".":
        return scope["."]
    if token.startswith("."):
        return scope["."].get(token[1:])
    if token.startswith("$"):
        return scope[token]
    if token in FUNCTIONS:
        return FUNCTIONS[token]
    return json.loads({"nil": "null"}.get(token, token))


def _number(value: Any) -> float:
    return float(value)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "Int": lambda value: int(_number(value)),
    "JSON": lambda value: json.dumps(value, separators=(",", ":")),
    "AddInt": lambda *values: int(sum(map(_number, values))),
    "SubtractInt": lambda a, b: int(_number(a) - _number(b)),
    "MultiplyInt": lambda a, b: int(_number(a) * _number(b)),
    "DivideInt": lambda a, b: int(_number(a) / _number(b)),
    "Mod": lambda a, b: int(_number(a)) % int(_number(b)),
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "eq": lambda a, b: a == b,
    "ge": lambda a, b: a >= b,
}
