"""`make wording`: count words that do not belong in plain technical English, and vague variable names.

    python -m manual.wording [--list] PATH...

Prose is the docstrings, comments, test names and keys of test tables in Python files, the comments of shell, Go,
JavaScript, YAML, TOML, Dockerfile and Makefile sources, and the text of Markdown files and notebooks without code. The
result is the number of markers per 10,000 words of prose and of vague names per 1,000 lines of Python. ``--list``
prints each match with its file and line. The counts are a hint where to edit, not a limit: some matches are correct
English.
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

_MARKERS: Final = {
    "person pronoun": r"\b(?:whoever|whomever|whom|nobody|somebody|anybody|everybody|whosoever)\b",
    "thing as person": r"\b(?:pods?|nodes?|requests?|plugins?|callers?|those|them|ones?|others|clients?|gangs?|groups?)"
    r",? who\b|\bwho (?:waits?|asks?|has|is|are|was|holds?|knows?|comes?|reads?|wants?|needs?|may)\b",
    "archaic word": r"\b(?:anew|afresh|beside|likewise|meanwhile|lest|thereby|therein|hereby|whence|thence|ere|aught"
    r"|naught|twain|betimes|forthwith|hitherto|henceforth|thereof|albeit|amid|amidst|unto|whilst)\b",
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
    "own": r"\bof (?:its|their|our|his|her|your|one's) own\b",
    "of which": r"\b(?:of|by) (?:which|whom)\b",
    "by itself": r"\b(?:by|of|for) (?:itself|themselves)\b",
    "whatever": r"\b(?:whatever|whichever|wherever)\b",
    "at once": r"\bat once\b",
    "in its place": r"\bin (?:its|their) (?:place|stead)\b",
    "at all": r"\bat all\b(?! times)",
    "no more": r"\bno more\b(?! than)",
    "way": r"\bon (?:its|their|the) way\b|\balong the way\b|\bin the way\b(?! of)|\beither way\b",
    "nothing but": r"\b(?:nothing|all|anything|everything) but\b",
    "is to be": r"\b(?:is|are|was|were) to be [a-z]+(?:ed|n)\b",
    "thing": r"\bthings?\b",
    "those that": r"\bthose (?:that|which|who)\b",
    "is there": r"\b(?:is|are|was|were) (?:not )?there(?: already| yet)?[.,;:)]|\bthat (?:is|are|was|were) there\b"
    r"|\b(?:is|are) here[.,;:)]",
    "wants": r"\b(?:pods?|plugins?|nodes?|it|they|that|which|scheduler|server|test|client) wants?\b",
    "phrasal verb": r"\b(?:(?:put|set) aside|written down|put down|put together|lets? go|(?:gives?|given) (?:back|away"
    r"|out)|(?:hands?|handed) (?:back|out)|turn(?:s|ed)? down|(?:goes?|went|gone) (?:away|through)|(?:comes?|came) back"
    r"|(?:comes?|came) and (?:goes?|went)|ma[dk]es?[ -]up)\b",
    "of it": r"(?<!\bone )(?<!\beach )(?<!\ball )(?<!\bsome )(?<!\bmany )(?<!\bboth )(?<!\bpart )\bof (?:it|them)\b",
    "that is": r"\bthat (?:is|are) (?:no|an?|the|all|so|left|free|full|new|old)\b",
    "the one": r"\bthe ones?\b(?![- ](?:node|pod)\b)",
    "stay": r"\b(?:stays?|stayed|staying)\b",
    "come and go": r"\b(?:comes?|came|coming|goes|went|gone)\b(?! (?:back|and|on|away|through|from)\b)",
    "refuse": r"\brefus(?:es?|ed|ing|als?)\b",
    "whole": r"\bwhole\b(?! (?:numbers?|seconds?|units?|GPUs?|devices?)\b)",
    "again": r"\bagain\b",
    "left out": r"\b(?:left|leaves?|leaving) (?:out|alone|behind|over|off)\b",
    "so that not": r"\bso that (?:no|none|nothing|neither)\b|\bso that [^.;:]{1,40} (?:not|never|cannot)\b",
    "component as person": r"\b(?:schedulers?|servers?|plugins?|pods?|nodes?|queues?|caches?|clients?|controllers?"
    r"|kubelets?|it|they|that|which) (?:knows?|knew|thinks?|sees?|saw|remembers?|forgets?|learns?|understands?"
    r"|notices?|minds?|likes?|promises?|owes?|deserves?)\b",
    "British spelling": r"\b(?:un)?(?:colour|behaviour|neighbour|favour|honour|labour)\w*|\b(?:centres?|metres?"
    r"|(?:un)?labell(?:ed|ing)|modell(?:ed|ing)|signall(?:ed|ing)|levell(?:ed|ing)|catalogues?|grey"
    r"|fulfil|licence|judgements?|artefacts?|programmes?|towards|afterwards|amongst|learnt|analys(?:e[ds]?|ing)"
    r"|(?:normal|serial|recogn|optim|organ|real|initial|minim|maxim|summar|prior|random|util|general|special|standard"
    r"|synchron|anonym|visual|custom|central|categor|character|author|final|local|penal|emphas|stabil|material"
    r"|parallel|parametr|quant|token|vector|virtual|memo|harmon)is(?:e[ds]?|ing|ations?|ers?))\b",
    "count as": r"\bcounts? as\b",
    "former": r"\b(?:an?|the|its|their|of) (?:former|latter)\b(?! (?:and|or)\b)",
    "trailing too": r", too[.;:]",
    "each of them": r"\b(?:each|every one) of (?:them|these|those)\b",
    "whose": r"\bwhose\b",
    "formal adverb": r"\b(?:thus|hence|wherein|upon|whereby|whereupon|thereafter|moreover|furthermore"
    r"|nonetheless|heretofore|notwithstanding|inasmuch)\b",
    "none of": r"\b(?:none|neither) of\b",
    "need not": r"\bneeds? not\b",
    "may well": r"\b(?:may|might|can|could) well\b",
    "as if": r"\bas (?:if|though)\b",
    "until then": r"\b(?:until|since|by) then\b|\bfor good\b|\ba second time\b",
    "is left": r"(?<!\bwhat )\b(?:is|are|was|were) left\b(?! (?:out|alone|behind|over|off)\b)",
    "does so": r"\b(?:do|does|did|doing) so\b|\bis so\b",
    "no matter": r"\bno matter\b|\bhowever (?:many|much|long|large|small|often)\b",
    "two semicolons": r"[^.;|\n]+;[^.;|\n]+;(?![^\n]*\|)",
    "predicate no": r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|such\b|other\b)[a-z]+\b",
    "judgment": r"\b(?:judg(?:es?|ed|ing)|believes?|believed|hopes?|hoped|fears?|feared)\b",
}
_SENTENCE: Final = {
    "clause as subject": r"(?:What|Whatever|Who|Whose|Which of|How many|Where it|That which) "
    r"(?!(?:is|are|does|do|if|happens)\b[^.]*\?)",
    "participle as subject": r"(?:Given|Found|Asked|Told|Wanted|Known|Left|Kept|Taken|Made|Seen|Said|Refused|Drawn) "
    r"(?:is|are|was|were|by|from|to|out|over|up|at)\b",
    "inversion": r"(?:Only|Not|So|Never|Nor|Then|Thus) (?:is|are|was|were|does|do|did|has|have|can|may|must|will)\b",
}
MARKERS: Final = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _MARKERS.items()} | {
    kind: re.compile(rf"(?:^|[.;:!?] |\(){pattern}") for kind, pattern in _SENTENCE.items()
}
_VAGUE_NAMES: Final = """
found known given wanted said told made seen held kept taken asked shown written needed named chosen left place places
thing things others other those these them rest whole what who whom it one ones ours theirs mine both none some any all
same such that this gone meant done begun ended used put got brought bought thought let lost lent tried tied born
refused allowed answered spoken heard called looked listed judged
where why here each every another everything nothing anything something former latter
"""
VAGUE_NAMES: Final = frozenset(_VAGUE_NAMES.split())
_PREPOSITION: Final = re.compile(
    r"(?!_*(?:is|are|has|uses|add|move|wait|go)_).*[a-z]_(?:of|for|with|by|in|on|at|from|to|after|before"
    r"|without|within|under|over|about|into|as)"
)
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_NOT_PROSE: Final = re.compile(r"`[^`\n]*`|<!--.*?-->|\[[^\]]*\]\([^)]*\)|https?://\S+", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_SKIPPED: Final = frozenset({".git", ".venv", ".venvs", ".site", "node_modules", "records"})
_HASH_COMMENT: Final = re.compile(r"^\s*#(?!!)\s*(.*)|\s##?\s+(.*)")
_SLASH_COMMENT: Final = re.compile(r"^\s*(?://|/?\*)\s?(.*)|\s//\s+(.*)")
_SCRIPTS: Final = frozenset({"Makefile", "Dockerfile", "control-plane"})
Reader = Callable[[str], Iterator[tuple[int, str]]]
_TEST_NAME: Final = re.compile(r"test_[a-z0-9_]+")


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
        source = path.read_text(encoding="utf-8")
        is_python = path.suffix == ".py"
        markers: list[Match] = []
        for line, text in find_reader(path)(source):
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
    """Yield pronouns and participles that are names of variables and parameters, and functions like `state_for`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _PREPOSITION.fullmatch(node.name):
            yield Match(node.lineno, "name", node.name)
            continue
        else:
            continue
        if name.strip("_") in VAGUE_NAMES and name != "__all__":
            yield Match(node.lineno, "name", name)


def read_python_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, comments, test names and the keys of test tables, with their line numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _TEST_NAME.fullmatch(node.name):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ")
        elif isinstance(node, ast.Dict) and "\ndef test_" in source:
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and " " in key.value:
                    yield key.lineno, key.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def read_markdown_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fenced code with their numbers."""
    text = _FENCED.sub(lambda match: re.sub(r"[^\n]", "", match.group()), source)
    yield from enumerate(text.splitlines(), 1)


def read_notebook_prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield the Markdown cells and the comments of code cells; line numbers are those of the cell."""
    for cell in json.loads(source)["cells"]:
        text = "".join(cell["source"])
        yield from read_markdown_prose(text) if cell["cell_type"] == "markdown" else read_comments(_HASH_COMMENT, text)


def read_comments(comment: re.Pattern[str], source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a source with their line numbers."""
    for number, line in enumerate(source.splitlines(), 1):
        if match := comment.search(line):
            yield number, match[1] or match[2] or ""


_READERS: Final[dict[str, Reader]] = {
    ".py": read_python_prose,
    ".md": read_markdown_prose,
    ".ipynb": read_notebook_prose,
    **dict.fromkeys((".go", ".js", ".css"), partial(read_comments, _SLASH_COMMENT)),
    **dict.fromkeys((".yaml", ".yml", ".toml", ".sh"), partial(read_comments, _HASH_COMMENT)),
}


def find_reader(path: Path) -> Reader:
    """Return the function that reads the prose of a file; files without an extension are shell or Makefile sources."""
    return _READERS.get(path.suffix) or partial(read_comments, _HASH_COMMENT)


def list_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files with prose, except Chinese pages, dated records and the samples of the test."""
    for path in paths:
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if (
                not file.is_file()
                or file.name.endswith((".zh.md", "test_wording.py"))
                or not _SKIPPED.isdisjoint(file.parts)
            ):
                continue
            if file.suffix in _READERS or file.name in _SCRIPTS or file.parent.name == ".ci":
                yield file


def main() -> None:
    """Print the counts, and each match if requested."""
    parser = argparse.ArgumentParser(prog="python -m manual.wording", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="file or directory")
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
