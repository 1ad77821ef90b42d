"""The tokens of CEL expressions, without a parser."""

import re
from typing import Final

TOKEN: Final = re.compile(
    r"""(?P<comment>//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def has_name(expression: str, name: str) -> bool:
    """Return whether an identifier occurs outside of strings and comments.

    >>> has_name("ip.isMask()", "isMask"), has_name("'isMask'", "isMask")
    (True, False)
    """
    return any(match["name"] == name for match in TOKEN.finditer(expression))


CONSTRUCTED: Final = re.compile(r"(?:Object(?:\s*\.\s*\w+)*|JSONPatch)\s*\{")


def with_plain_maps(expression: str) -> str:
    """Return an expression of a mutation with maps instead of typed objects.

    >>> with_plain_maps("Object{spec: Object.spec{?replicas: a ? b : c}}")
    '{"spec": {?"replicas": a ? b : c}}'
    """
    result: list[str] = []
    # Whether each open bracket belongs to an object, and whether the name of a field follows.
    brackets: list[bool] = []
    is_field = False
    position = 0
    while position < len(expression):
        constructed = CONSTRUCTED.match(expression, position)
        is_start = position == 0 or not re.match(r"[\w.]", expression[position - 1])
        if constructed is not None and is_start:
            result.append("{")
            brackets.append(True)
            is_field, position = True, constructed.end()
            continue
        token = TOKEN.match(expression, position)
        assert token is not None
        text, position = token[0], token.end()
        if token["name"] and is_field:
            result.append(f'"{text}"')
            is_field = False
            continue
        if text in "([{":
            brackets.append(False)
        elif text in ")]}" and brackets:
            brackets.pop()
        if not token["space"] and not token["comment"] and text != "?":
            is_field = text == "," and bool(brackets) and brackets[-1]
        result.append(text)
    return "".join(result)
