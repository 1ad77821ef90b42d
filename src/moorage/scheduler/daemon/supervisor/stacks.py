"""Find the plugin of a stack, by the source lines of all plugins."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, CoroutineType, FunctionType
from typing import Any, Final

from msgspec import Struct

from moorage.scheduler.framework.deadlines import find_innermost_call

_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_PACKAGE: Final = str(Path(__file__).parents[3])
_PLUGINS: Final = str(Path(_PACKAGE, "scheduler", "plugins"))


class Frame(Struct, frozen=True):
    """A line of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class Span(Struct, frozen=True, array_like=True):
    """Source lines of a plugin in one file."""

    plugin: str
    file: str
    first: int
    last: int


def read_stack(dump: str) -> list[Frame]:
    """Parse the output of faulthandler, innermost frame first."""
    return [Frame(file, int(line), function) for file, line, function in _FRAME.findall(dump)]


def coroutine_stack(coroutine: Any) -> list[Frame]:
    """Return where a coroutine waits, the innermost frame first."""
    frames: list[Frame] = []
    while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
        frame = coroutine.cr_frame
        frames.insert(0, Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        coroutine = find_innermost_call(coroutine) or coroutine.cr_await
    return frames


def find_blocking_plugin(stack: Sequence[Frame], spans: Iterable[Span]) -> tuple[str, Frame | None]:
    """Return the plugin of a stack and the location in it: the outermost call of its code, or "" without a plugin."""
    all_spans = list(spans)
    for frame in reversed(stack):
        for span in all_spans:
            if span.file == frame.file and span.first <= frame.line <= span.last:
                return span.plugin, frame
    return "", None


def find_spans(name: str, plugin: object) -> list[Span]:
    """Find the lines of a plugin: those of its methods, inherited ones included, and of functions that they wrap."""
    attributes = [attribute for kind in type(plugin).__mro__ for attribute in vars(kind).values()]
    attributes += getattr(plugin, "__dict__", {}).values()
    return list(
        dict.fromkeys(
            span for attribute in attributes for span in _spans(name, getattr(attribute, "__func__", attribute))
        )
    )


def _spans(name: str, function: object) -> Iterator[Span]:
    if not isinstance(function, FunctionType):
        return
    code: CodeType = function.__code__
    file = code.co_filename
    # The code of the framework is called for every plugin.
    if not file.startswith(_PACKAGE) or file.startswith(_PLUGINS):
        lines = [line for _, _, line in code.co_lines() if line is not None]
        yield Span(name, file, code.co_firstlineno, max(lines, default=code.co_firstlineno))
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            if cell.cell_contents is not function:
                yield from _spans(name, cell.cell_contents)
