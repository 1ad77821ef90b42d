"""Code in pages: the blocks to run, and the reasons of skipped ones.

``<!-- not run: why -->`` on the line before a block skips that block, ``<!-- not run on this page: why -->`` all
blocks of a page. ``<!-- before: command -->`` prepares an object of the reader, such as a file.
There are no other exceptions.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

ROOT: Final = Path(__file__).parents[2]
RUNNABLE: Final = ("console", "bash", "python", "yaml", "json", "toml")
PLAIN: Final = ("text", "", "before")
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```\s*?$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
_WHOLE_PAGE = re.compile(r"<!-- not run on this page: (.+?) -->")
_BEFORE = re.compile(r"<!-- before: (.+?) -->", re.DOTALL)
_FILE_NAME = re.compile(r"(?:#|//) ([\w./-]+\.(?:py|ya?ml|json|toml))\n")


class Snippet(Struct, frozen=True):
    """A block of code; ``why_not`` is the reason to skip it."""

    language: str
    text: str
    line: int
    why_not: str = ""

    @property
    def file_name(self) -> str:
        """The file name in the first line, or an empty string."""
        match = _FILE_NAME.match(self.text)
        return match.group(1) if match else ""


def pages() -> list[Path]:
    """List all pages for users; test_translations.py checks that translations have the same blocks."""
    items = [*ROOT.glob("README.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    return sorted(page for page in items if not page.name.endswith(".zh.md"))


def read_snippets(page: Path) -> Iterator[Snippet]:
    """Yield the blocks of a page."""
    text = page.read_text()
    complete = _WHOLE_PAGE.search(text)
    for match in sorted((*_FENCE.finditer(text), *_BEFORE.finditer(text)), key=lambda pod: pod.start()):
        line = text.count("\n", 0, match.start()) + 1
        if match.re is _BEFORE:
            yield Snippet("before", match.group(1), line)
            continue
        indent, language, code = match.groups()
        marked = _NOT_RUN.search(text, 0, match.start())
        why_not = complete.group(1) if complete else marked.group(1) if marked else ""
        yield Snippet(language, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE), line, why_not)


def how_much_is_run() -> tuple[int, Counter[str]]:
    """Return the number of blocks, and the number of skipped ones by reason."""
    every = [each for page in pages() for each in read_snippets(page) if each.language in RUNNABLE]
    # A block that another test runs names the file of the test.
    return len(every), Counter(each.why_not for each in every if each.why_not and not each.why_not.startswith("tests/"))


class Command(Struct, frozen=True):
    """A typed line and its expected output."""

    text: str
    expected: tuple[str, ...] = ()

    @property
    def may_take_a_while(self) -> bool:
        """Whether the output is reached later, so that the command is repeated."""
        return bool(re.search(r"\bkubectl .*\b(get|describe)\b|\bcurl\b", self.text))


def parse_commands(text: str) -> list[Command]:
    """Read a transcript of a terminal: commands follow ``$``, their output is below."""
    results: list[Command] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            typed = line[2:]
            while typed.endswith("\\"):
                typed = f"{typed}\n{next(lines)}"
            results.append(Command(re.sub(r"\s+# .*", "", typed) if "\n" not in typed else typed))
        elif results and line.strip():
            results[-1] = Command(results[-1].text, (*results[-1].expected, line))
    return results


def is_shown(expected: str, output: str) -> bool:
    """Return whether a line is in the output; spaces may differ, and ``…`` matches any text in one line.

    A line without ``…`` may be wrapped in the output. ``…`` must not join lines: it would match the end of another one.
    """
    pattern = re.sub(r"(?:\\ |\s)+", r"\\s+", re.escape(expected.strip()))
    # Spaces around ``…`` are required, so that `node-…  1` does not match `node-1  0`; between them may be nothing.
    pattern = re.sub(r"^…(\\s\+)?|(\\s\+)?…$", ".*", pattern.replace(r"\s+…\s+", r"\s+(?:.*\s+)?"))
    texts = output.splitlines() if "…" in expected else (*output.splitlines(), output)
    return any(re.search(pattern.replace("…", ".*"), re.sub(r"\s+", " ", text)) for text in texts)
