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
    "Groups of which the members are pending.": ["of which"],
    "The election ends by itself.": ["by itself"],
    "The pod runs on whatever node is free.": ["whatever"],
    "The change is notified at once.": ["at once"],
    "Send no more requests.": ["no more"],
    "A node is on its way.": ["way"],
    "Omit everything but metadata.": ["nothing but"],
    "The pod is to be evicted.": ["is to be"],
    "A test hands parts other things.": ["thing"],
    "Skip those that are bound.": ["those that"],
    "Show an object that is there when a watch starts.": ["is there"],
    "The plugin wants a directory.": ["wants"],
    "The evicted pods come back.": ["phrasal verb"],
    "The oracle judges each offer.": ["judgment"],
    "The size of the cache and the age of it.": ["of it"],
    "Count volumes that are a claim.": ["that is"],
    "Each node except the one with a taint.": ["the one"],
    "The pod stays in the queue.": ["stay"],
    "A node comes before its pods.": ["come and go"],
    "The server refuses the request.": ["refuse"],
    "Copy the whole table.": ["whole"],
    "List the nodes again.": ["again"],
    "Annotations are left out.": ["left out"],
    "Sort first, so that no pod waits.": ["so that not"],
    "The scheduler knows the node.": ["component as person"],
    "Normalise the scores.": ["British spelling"],
    "The behaviour of a labelled pod.": ["British spelling", "British spelling"],
    "A missing field counts as zero.": ["count as"],
    "Close the former plugins.": ["former"],
    "Cordon the other nodes, too.": ["trailing too"],
    "The status is added to each of them.": ["each of them"],
    "Drawn from the seed.": ["participle as subject"],
    "So do the plugins.": ["inversion"],
    "Skip pods whose node is missing.": ["whose"],
    "Thus the pod is retried.": ["formal adverb"],
    "None of the nodes fits.": ["none of"],
    "The plan need not be applied.": ["need not"],
    "The pod is explained as if it were pending.": ["as if"],
    "Filter a node a second time.": ["until then"],
    "No node is left.": ["is left"],
    "One look-up, however many nodes there are.": ["no matter"],
    "A label is no number.": ["predicate no"],
    "Pods are listed; nodes are filtered; scores are added.": ["two semicolons"],
}
CLEAN = [
    "Return the pending pods in scheduling order.",
    "Invalid configurations are rejected and reported.",
    "Retry the request after a timeout.",
    "What happens if a node fails?",
    "Exercise four of the functions, otherwise raise a precise error.",
]


@pytest.mark.parametrize(("text", "kinds"), FLAGGED.items())
def test_dialect_is_flagged(text: str, kinds: list[str]) -> None:
    assert [match.kind for match in find_markers(text)] == kinds


@pytest.mark.parametrize("text", CLEAN)
def test_plain_english_is_accepted(text: str) -> None:
    assert list(find_markers(text)) == []


def test_vague_names_are_found() -> None:
    functions = "def state_of(): ...\ndef is_in(): ...\n"
    source = f"def run(thing):\n    found = thing.kept\n    nodes = found\n    return nodes\n{functions}"
    assert [(match.line, match.text) for match in sorted(find_vague_names(source))] == [
        (1, "thing"),
        (2, "found"),
        (5, "state_of"),
    ]


PROSE = {
    "Makefile": ("help:  ## Says what to do\n\t@echo told\n", [(1, "speech: say")]),
    "values.yaml": ("# Whoever reads it\nkey: told # asked once\n", [(1, "person pronoun"), (2, "speech: ask")]),
    "main.go": ("// The queue is told.\nvar told = 1 // asked once\n", [(1, "speech: tell"), (2, "speech: ask")]),
    "page.js": ("/* Nobody\n * told it. */\nconst told = 1;\n", [(1, "person pronoun"), (2, "speech: tell")]),
    "test_names.py": ("def test_what_nobody_said():\n    pass\n", [(1, "person pronoun"), (1, "speech: say")]),
    "test_table.py": ('CASES = {"a pod who waits": "told"}\ndef test_it():\n    pass\n', [(1, "thing as person")]),
    "learn.ipynb": (
        '{"cells": [{"cell_type": "markdown", "source": ["Nobody"]}, {"cell_type": "code", "source": ["# told"]}]}',
        [(1, "person pronoun"), (1, "speech: tell")],
    ),
}


@pytest.mark.parametrize("name", PROSE)
def test_comments_and_test_names_are_prose(name: str, tmp_path: Path) -> None:
    source, expected = PROSE[name]
    (tmp_path / name).write_text(source)
    (path,) = list_files([tmp_path])
    assert [(match.line, match.kind) for match in Tally().add(path)] == expected


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
