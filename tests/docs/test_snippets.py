"""Run the commands and code blocks of README, docs and examples, and compare the results."""

import json
import tomllib
from pathlib import Path

import pytest

from moorage.scheduler.framework.plugin import Plugin
from tests.docs.documents import check_yaml
from tests.docs.python_blocks import PythonBlocks, list_plugin_classes, plugins_beside
from tests.docs.snippets import (
    PLAIN,
    ROOT,
    RUNNABLE,
    Command,
    Snippet,
    how_much_is_run,
    is_shown,
    pages,
    parse_commands,
    read_snippets,
)
from tests.docs.terminal import Terminal

PAGES = [
    page for page in pages() if any(each.language in RUNNABLE and not each.why_not for each in read_snippets(page))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = [each for each in read_snippets(page) if not each.why_not]
    with Terminal(tmp_path) as terminal:
        monkeypatch.chdir(terminal.root)
        monkeypatch.syspath_prepend(terminal.root)
        blocks = PythonBlocks(str(page.relative_to(ROOT)), snippets)
        for snippet in snippets:
            if snippet.file_name:
                terminal.write(snippet.file_name, snippet.text)
            try:
                run(snippet, terminal, blocks, [*list_plugin_classes(blocks.defined), *plugins_beside(page)])
            except Exception as error:
                error.add_note(f"in {page.relative_to(ROOT)}, line {snippet.line}")
                raise


def run(snippet: Snippet, terminal: Terminal, blocks: PythonBlocks, plugins: list[type[Plugin]]) -> None:
    match snippet.language:
        case "python":
            blocks.run(snippet)
        case "console":
            for command in parse_commands(snippet.text):
                terminal.type(command)
        case "bash" | "before":
            terminal.type(Command(snippet.text))
        case "yaml":
            check_yaml(snippet.text, plugins)
        case "json":
            json.loads(snippet.text)
        case "toml":
            tomllib.loads(snippet.text)


def test_all_blocks_have_a_language() -> None:
    existing = {*RUNNABLE, *PLAIN}
    unknown = [
        f"{page}:{each.line}: {each.language}"
        for page in pages()
        for each in read_snippets(page)
        if each.language not in existing
    ]
    assert unknown == []


def test_blocks_without_a_language_have_no_commands() -> None:
    tools = ("$ ", "moorage ", "kubectl ", "docker ", "helm ", "make ")
    selected = [
        f"{page.relative_to(ROOT)}:{each.line}"
        for page in pages()
        for each in read_snippets(page)
        if each.language in PLAIN
        and each.language != "before"
        and not each.why_not
        and any(line.startswith(tools) for line in each.text.splitlines())
    ]
    assert selected == [], "write ```console and $ to run them, or a reason to skip them"


def test_most_blocks_are_executed() -> None:
    every, left_out = how_much_is_run()
    assert left_out.total() < every / 2


SHOWN = {
    "the same line": ("pod/a created", "pod/a created", True),
    "with other spaces": ("a   b", "a b", True),
    "a part of the line": ("Scheduled … to node-…", "Normal Scheduled 3s moorage assigned a to node-17", True),
    "another line": ("pod/a created", "pod/b created", False),
    "a line that is wrapped in the output": ("one two three", "one two\nthree", True),
    "an ellipsis across lines": ("one … three", "one\ntwo\nthree", False),
    "an ellipsis and the end of another line": ("b  node-…  0", "a node-1 0\nb node-1 1\nc node-2 0", False),
    "an ellipsis and the end of its own word": ("b  node-…  1", "b node-1 0", False),
    "an ellipsis for nothing": ("a … b …", "a b", True),
    "an ellipsis alone": ("…", "one\ntwo", True),
}


@pytest.mark.parametrize(("expected", "output", "want"), SHOWN.values(), ids=SHOWN)
def test_expected_line_is_found(expected: str, output: str, want: bool) -> None:
    assert is_shown(expected, output) == want


def test_commands_are_read_from_transcripts() -> None:
    text = "$ cd a\n$ moorage up \\\n  --nodes 3\n  # no command\nseen\n$ true   # why\n"
    assert parse_commands(text) == [
        Command("cd a"),
        Command("moorage up \\\n  --nodes 3", ("  # no command", "seen")),
        Command("true"),
    ]
