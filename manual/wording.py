"""`make wording`: count words that do not belong in plain technical English, and vague variable names.

    python -m manual.wording [--list] PATH...

Prose is the docstrings and comments of Python files and the text of Markdown files without code. The result is the
number of markers per 10,000 words of prose and of vague names per 1,000 lines of Python. ``--list`` prints each of
them with its file and line. The counts are a hint where to edit, not a limit: some matches are correct English.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

_MARKERS: Final = {
    "person pronoun": r"\b(?:whoever|whomever|whom|nobody|somebody|anybody|everybody|whosoever)\b",
    "thing as person": r"\b(?:pods?|nodes?|requests?|plugins?|callers?|those|them|ones?|others|clients?|gangs?|groups?)"
    r",? who\b|\bwho (?:waits?|asks?|has|is|are|was|holds?|knows?|comes?|reads?|wants?|needs?|may)\b",
    "archaic word": r"\b(?:anew|afresh|beside|likewise|meanwhile|lest|thereby|therein|hereby|whence|thence|ere|aught"
    r"|naught|twain|betimes|forthwith|hitherto|henceforth)\b",
    "archaic phrase": r"\b(?:for want of|in vain|the like|so many|(?:is|are|was|were) none|will do(?=[.,;:)]| for\b)"
    r"|of old|by and by|at all events|now and then|as it were|but for that|none the less|of its own accord|so much the"
    r"|all the same|to and fro|once more|over again|no more than that)\b",
    "speech: tell": r"\b(?:tells?|told|telling)\b",
    "speech: say": r"\b(?:says?|said|saying)\b",
    "speech: ask": r"\b(?:asks?|asked|asking)\b",
    "speech: answer": r"\banswer(?:s|ed|ing)?\b",
    "speech: hear": r"\b(?:hears?|heard|speaks?|spoke|spoken)\b",
    "clause with what": r"\b(?:of|for|by|from|with|than|at|on|and|or|but|not|that|only|as|to|in|is|into|all) what "
    r"(?:is|was|are|were|has|had|it|they|an?|the|its|their|comes?|can|may|must|will|would|only|nothing|no|each|every"
    r"|other|[a-z]+s)\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "stand for be": r"\b(?:stands?|stood|standing)\b",
    "take notice": r"\b(?:takes? notice|lets? in|turned away|takes? part|takes? up|taken up|goes on|go on|gone on)\b",
    "dialect noun": r"\b(?:keeper|onlookers?|parked|rooms?|house|household|strangers?|books|ledger)\b",
    "none as subject": r"\b(?:if|where|when|that|which|and|or) (?:there (?:is|are) none|none (?:is|are|was|were))\b",
    "dummy it": r"\bas (?:it|they) (?:is|are|stands?|comes?|came|was|were)\b",
    "own": r"\bof (?:its|their|our|his|her) own\b",
}
_CLAUSE: Final = (
    r"(?:^|[.;:!?] |\()(?:What|Whatever|Who|Whose|Which of|How many|Where it|That which) "
    r"(?!(?:is|are|does|do|if|happens)\b[^.]*\?)"
)
MARKERS: Final = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _MARKERS.items()} | {
    "clause as subject": re.compile(_CLAUSE)
}
_VAGUE_NAMES: Final = """
found known given wanted said told made seen held kept taken asked shown written needed named chosen left place places
thing things others other those these them rest whole what who whom it one ones ours theirs mine both none some any all
same such that this gone meant done begun ended used put got brought bought thought let lost lent tried tied born
refused allowed answered spoken heard called looked listed judged
"""
VAGUE_NAMES: Final = frozenset(_VAGUE_NAMES.split())
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_NOT_PROSE: Final = re.compile(r"`[^`\n]*`|<!--.*?-->|\[[^\]]*\]\([^)]*\)|https?://\S+", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_SKIPPED: Final = frozenset({".venv", "node_modules"})


class Match(NamedTuple):
    """A marker or a vague name, with its line."""

    line: int
    kind: str
    text: str


@dataclass(slots=True)
class Tally:
    """The counts of all files."""

    words: int = 0
    lines: int = 0
    markers: Counter[str] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path) -> list[Match]:
        """Count a file; return its matches."""
        source = path.read_text()
        is_python = path.suffix == ".py"
        markers: list[Match] = []
        for line, text in read_python_prose(source) if is_python else read_markdown_prose(source):
            plain = _NOT_PROSE.sub("X", text)
            self.words += len(_WORD.findall(plain))
            markers += (match._replace(line=line + match.line) for match in find_markers(plain))
        names = list(find_vague_names(source)) if is_python else []
        self.lines += source.count("\n") if is_python else 0
        self.markers.update(match.kind for match in markers)
        self.names.update(match.text for match in names)
        return sorted([*markers, *names])

    def render(self) -> str:
        """Return the totals, and the counts of each kind and name."""
        rows = [
            ("markers", self.markers, self.words, "words", 10_000),
            ("names", self.names, self.lines, "lines", 1000),
        ]
        parts = []
        for title, counts, size, unit, scale in rows:
            if size:
                rate = counts.total() / size * scale
                parts.append(f"{title}: {counts.total()} in {size:,} {unit}: {rate:.1f} per {scale:,}\n")
                parts += [f"{count:6}  {kind}\n" for kind, count in counts.most_common(25)]
        return "".join(parts)


def find_markers(text: str) -> Iterator[Match]:
    """Yield the markers of a text without code; lines count from 0."""
    for kind, pattern in MARKERS.items():
        for match in pattern.finditer(text):
            context = text[max(0, match.start() - 40) : match.end() + 40]
            yield Match(text.count("\n", 0, match.start()), kind, f"…{' '.join(context.split())}…")


def find_vague_names(source: str) -> Iterator[Match]:
    """Yield pronouns and participles that Python code uses as names of variables and parameters."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name.strip("_") in VAGUE_NAMES:
            yield Match(node.lineno, "name", name)


def read_python_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings and comments with their line numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def read_markdown_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fenced code with their numbers."""
    text = _FENCED.sub(lambda match: re.sub(r"[^\n]", "", match.group()), source)
    yield from enumerate(text.splitlines(), 1)


def list_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield Python and English Markdown files, also those in folders."""
    for path in paths:
        for file in [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.md")]):
            if not file.name.endswith(".zh.md") and _SKIPPED.isdisjoint(file.parts):
                yield file


def main() -> None:
    """Print the counts, and each match if requested."""
    parser = argparse.ArgumentParser(prog="python -m manual.wording", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="Python or Markdown file, or a folder")
    parser.add_argument("--list", action="store_true", help="print each match with its file and line")
    options = parser.parse_args()
    tally = Tally()
    for path in list_files(options.paths):
        for match in tally.add(path):
            if options.list:
                sys.stdout.write(f"{path}:{match.line}: {match.kind}: {match.text}\n")
    sys.stdout.write(tally.render())


if __name__ == "__main__":
    main()
