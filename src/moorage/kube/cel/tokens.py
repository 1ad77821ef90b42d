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
