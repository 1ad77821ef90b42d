"""`manual.wording`: its patterns flag dialect and vague names, and accept plain English."""

from pathlib import Path

import pytest
from manual.wording import Tally, find_markers, find_vague_names, list_files

FLAGGED = {
    "Whoever is popped has been admitted.": ["person pronoun"],
    "Pods who wait are listed first.": ["thing as person"],
    "The index is built anew.": ["archaic word"],
    "No pod is evicted in vain.": ["archaic phrase"],
    "The status says why.": ["speech: say"],
    "The server answers with 404.": ["speech: answer"],
    "What cannot be used is skipped.": ["clause as subject"],
    "A list of what is left.": ["clause with what"],
    "The name stands for a group.": ["stand for be"],
    "Each row has a process of its own.": ["own"],
}
CLEAN = [
    "Return the pending pods in scheduling order.",
    "Invalid configurations are rejected and reported.",
    "Retry the request after a timeout.",
    "What happens if a node fails?",
]


@pytest.mark.parametrize(("text", "kinds"), FLAGGED.items())
def test_dialect_is_flagged(text: str, kinds: list[str]) -> None:
    assert [match.kind for match in find_markers(text)] == kinds


@pytest.mark.parametrize("text", CLEAN)
def test_plain_english_is_accepted(text: str) -> None:
    assert list(find_markers(text)) == []


def test_vague_names_are_variables_and_parameters() -> None:
    source = "def run(thing):\n    found = thing.kept\n    nodes = found\n    return nodes\n"
    assert [(match.line, match.text) for match in find_vague_names(source)] == [(1, "thing"), (2, "found")]


def test_code_is_not_prose(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Call `tell()`.\n\n```\nnobody\n```\n\nThe log\nsays why.\n")
    module = tmp_path / "module.py"
    module.write_text('"""Return the log.\n\nNobody reads it.\n"""\nTEXT = "told"  # asked once\n')
    (tmp_path / "page.zh.md").write_text("nobody\n")
    tally = Tally()
    matches = {path.name: tally.add(path) for path in list_files([tmp_path])}
    assert {name: [(match.line, match.kind) for match in items] for name, items in matches.items()} == {
        "module.py": [(3, "person pronoun"), (5, "speech: ask")],
        "page.md": [(8, "speech: say")],
    }
    assert tally.markers.total() == 3
    assert tally.render().startswith("markers: 3 in ")
