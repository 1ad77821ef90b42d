"""The source of a CEL expression, and its adaptation for cel-cpp."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

FIELDS: Final = ("driver", "allowMultipleAllocations", "attributes", "capacity")
MAPS: Final = ("attributes", "capacity")
# Maps of the domains that the device has; in the plain maps a missing domain is an empty map, as upstream.
LISTED: Final = {"attributes": "listedAttributes", "capacity": "listedCapacity"}

_TOKEN: Final = re.compile(
    r"""(?P<comment>//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


class _FieldUse(NamedTuple):
    """A use of a field of ``device``; positions count tokens without white space."""

    start: int
    field_index: int
    name: str


class Source:
    """An expression as tokens."""

    def __init__(self, expression: str) -> None:
        matches = ((match.lastgroup, match[0]) for match in _TOKEN.finditer(expression))
        self._tokens = [(kind, text) for kind, text in matches if kind != "comment"]
        #: The indexes of tokens that are not white space.
        self._solid = [index for index, (kind, _) in enumerate(self._tokens) if kind != "space"]

    def field_names(self) -> list[str]:
        """Return the names of the ``device`` fields in use."""
        return [use.name for use in self._field_uses()]

    def without_field_tests(self) -> str:
        """Replace ``has(device.driver)`` by ``true``: cel-cpp treats the field as a variable and cannot test it."""
        texts = [text for _, text in self._tokens]
        for use in self._field_uses():
            if [self._text(use.start - 2), self._text(use.start - 1), self._text(use.field_index + 1)] == [
                "has",
                "(",
                ")",
            ]:
                first, last = self._solid[use.start - 2], self._solid[use.field_index + 1]
                texts[first : last + 1] = ["true", *("" for _ in range(last - first))]
        return "".join(texts)

    def with_listed_maps(self) -> str:
        """Use the maps of existing domains for ``in``, ``size`` and macros; lookups see empty maps otherwise."""
        texts = [text for _, text in self._tokens]
        for use in self._field_uses():
            after = self._text(use.field_index + 1)
            calls_method = after == "." and self._text(use.field_index + 3) == "("
            is_argument = self._text(use.start - 1) == "in" or (
                self._text(use.start - 1) == "(" and self._text(use.start - 2) == "size"
            )
            if use.name in MAPS and (calls_method or (is_argument and after not in ("[", "."))):
                texts[self._solid[use.field_index]] = LISTED[use.name]
        return "".join(texts)

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
