"""Random CEL expressions over devices, with a high evaluation cost."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

PATTERNS: Final = (
    "(a+)+$",
    "(a|a)*b",
    "a*?b|a",
    "((a{0,9}){0,9}b)+",
    "(x+x+)+y",
    r"\\pL{30}",
    "(x{0,30}){0,30}",
    "(?:a?){50}a{50}",
    "(",
    "[",
    "a{1001}",
    "(?=a)",
    r"\\1",
    "^[a-z]+$",
    "",
)
TEXTS: Final = (
    '"a"',
    '""',
    f'"{"a" * 32}"',
    f'"{"ab" * 200}"',
    '"é,x"',
    '"10Gi"',
    '"1.2.3-a.1"',
    "device.driver",
)
PIECES: Final = ("", "device.", ".?", "device.?", "[", '"', "\x00", "\\", "@result", "__result__", "é", "//")
NUMBERS: Final = ("0", "1", "-1", "3", "9223372036854775807", "1.5", "1e300", "18446744073709551615u")


class Expressions:
    """Expressions of a given type and nesting depth."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._names = 0

    def boolean(self, depth: int) -> str:
        """Make a selector."""
        if depth <= 0:
            return self._pick(("true", "device.allowMultipleAllocations", 'device.driver == "gpu.example"'))
        return self._one_of(
            lambda: f"{self.text(depth - 1)} == {self.text(depth - 1)}",
            lambda: f"{self.items(depth - 1)}.size() > {self.number()}",
            lambda: f"{self.text(depth - 1)}.matches({self.pattern(depth - 1)})",
            lambda: f"{self.items(depth - 1)}.all({self._new_name()}, {self.boolean(depth - 1)})",
            lambda: f"({self.boolean(depth - 1)} {self._pick(('&&', '||', '==', '!='))} {self.boolean(depth - 1)})",
            lambda: f"({self.boolean(depth - 1)} ? {self.boolean(depth - 1)} : {self.boolean(depth - 1)})",
            lambda: f"sets.contains({self.items(depth - 1)}, {self.items(depth - 1)})",
            lambda: f"{self.text(depth - 1)} in {self.items(depth - 1)}",
            lambda: f"quantity({self.text(depth - 1)}).isGreaterThan(quantity({self.text(depth - 1)}))",
            lambda: f"isSemver({self.text(depth - 1)}) || isQuantity({self.text(depth - 1)})",
            lambda: f"[{self.number()}, {self.number()}].{self._pick(('sum', 'min', 'max'))}() > {self.number()}",
            lambda: f"has(device.attributes[{self.text(depth - 1)}].x)",
        )

    def text(self, depth: int) -> str:
        """Make a string expression."""
        if depth <= 0:
            return self._pick(
                (
                    '"a"',
                    '""',
                    '"' + "a" * 32 + '"',
                    '"é,x"',
                    '"10Gi"',
                    '"1.2.3-a.1"',
                    "device.driver",
                    f'"{"ab" * 200}"',
                )
            )
        inner = self.text(depth - 1)
        return self._one_of(
            lambda: f"{inner}.replace({self.text(0)}, {self.text(depth - 1)})",
            lambda: f"({inner} + {self.text(depth - 1)})",
            lambda: f"{self.items(depth - 1)}.join({self.text(depth - 1)})",
            lambda: f"{inner}.{self._pick(('lowerAscii', 'upperAscii', 'trim', 'reverse'))}()",
            lambda: f'"%s %s %.3f".format([{inner}, {self.items(depth - 1)}, 1.5])',
            lambda: f"{inner}.find({self.pattern(depth - 1)})",
            lambda: f"base64.encode(bytes({inner}))",
            lambda: f"strings.quote({inner})",
            lambda: self._bound(inner, depth),
            lambda: f"string({self.items(depth - 1)}.size())",
            lambda: f"device.attributes[device.driver].?model.orValue({inner})",
        )

    def items(self, depth: int) -> str:
        """Make an expression for a list of strings."""
        if depth <= 0:
            return self._pick(("[]", '["a"]', '["a", "bb", "ccc"]', "[" + ", ".join(['"aaaa"'] * 30) + "]"))
        inner = self.items(depth - 1)
        return self._one_of(
            lambda: f"({inner} + {self.items(depth - 1)})",
            lambda: self._mapped(inner, depth),
            lambda: f"{inner}.filter({self._new_name()}, {self.boolean(depth - 1)})",
            lambda: f"{self.text(depth - 1)}.split({self.text(0)})",
            lambda: f"{self.text(depth - 1)}.findAll({self.pattern(depth - 1)})",
            lambda: f"[{self.text(depth - 1)}, {self.text(depth - 1)}]",
            lambda: f"device.attributes[device.driver].map({self._new_name()}, {self.text(depth - 1)})",
        )

    def pattern(self, depth: int) -> str:
        """Make a regular expression, mostly as a constant."""
        if depth > 0 and self._chance.random() < 0.2:
            return self.text(depth)
        return f'"{self._pick(PATTERNS)}"'

    def number(self) -> str:
        """Make a number."""
        return self._pick(NUMBERS)

    def garbled(self, expression: str) -> str:
        """Damage an expression: cut it, or repeat, drop or insert a piece."""
        location, end = sorted(self._chance.randrange(len(expression) + 1) for _ in range(2))
        piece = self._pick(
            ("", "device.", ".?", "device.?", "[", '"', "\x00", "\\", "@result", "__result__", "é", "//")
        )
        return expression[:location] + piece + expression[self._pick((location, end, end)) :]

    def _mapped(self, inner: str, depth: int) -> str:
        name = self._new_name()
        return f"{inner}.map({name}, {self._pick((name, f'{name} + {name}', self.text(depth - 1)))})"

    def _bound(self, inner: str, depth: int) -> str:
        name = self._new_name()
        return f"cel.bind({name}, {inner}, {self._pick(('', self.text(depth - 1) + ' + '))}{' + '.join([name] * 4)})"

    def _new_name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _pick(self, items: Sequence[T]) -> T:
        return self._chance.choice(items)

    def _one_of(self, *makers: Callable[[], str]) -> str:
        return self._chance.choice(makers)()
