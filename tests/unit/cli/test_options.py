"""Options that several commands share."""

import io
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.cli.main import run
from moorage.cli.options import print_chunks, print_json

OUTPUT_FILES: dict[tuple[str, ...], str] = {
    ("lab", "generate", "--out", "x.txt"): ".jsonl, .csv or .parquet",
    ("lab", "generate", "--out", "x.csv", "--cluster-out", "nodes.json"): ".csv",
    ("lab", "import", "openb", "--pods", "pods.csv", "--out", "x"): ".jsonl, .csv or .parquet",
    ("lab", "import", "openb", "--pods", "p.csv", "--out", "x.csv", "--cluster-out", "nodes.yaml"): ".csv",
    ("record", "x.json"): ".jsonl, .csv or .parquet",
    ("record", "x.jsonl", "--cluster-out", "nodes.csv"): ".json",
    ("snapshot", "x.yaml"): ".json or .gz",
}


@pytest.mark.parametrize(("command", "extensions"), OUTPUT_FILES.items(), ids=map(" ".join, OUTPUT_FILES))
def test_unknown_extension_of_an_output_file_is_rejected(
    command: tuple[str, ...], extensions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 2
    assert f"unknown file extension; use {extensions}" in capsys.readouterr().err


def test_help_uses_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["simulate", "--help"]) == 0
    assert 90 < max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.parametrize("duration", ["0s", "-5m"])
def test_duration_must_be_positive(duration: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--nodes", "0", "--for", duration]) == 2
    assert "--for" in capsys.readouterr().err


def test_large_text_is_written_completely_if_each_call_writes_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file without a buffer does: the system writes at most 2 GiB per call."""

    class PartWriter(io.RawIOBase):
        written = b""

        def write(self, data: Any) -> int:
            part = bytes(data[:3])
            self.written += part
            return len(part)

    output = PartWriter()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=output))
    print_chunks([b"0123456789", b"", b"\n"])
    print_json({"a": 1})
    assert output.written == b'0123456789\n{\n  "a": 1\n}\n'


USAGE_ERRORS: dict[str, tuple[str, str, str]] = {
    "unknown option": ("explain web --nod n1", "moorage explain: unknown option: --nod", "did you mean '--node'?"),
    "unknown option of a group": ("lab --sed 1", "moorage lab: unknown option: --sed", "run 'moorage lab --help'"),
    "unknown command": ("explian web", "moorage: unknown command: explian", "did you mean 'explain'?"),
    "unknown subcommand": ("lab imprt", "moorage lab: unknown command: imprt", "did you mean 'import'?"),
    "missing argument": ("explain", "moorage explain: missing argument: POD", "run 'moorage explain --help'"),
    "missing option": ("lab generate", "moorage lab generate: missing option: --out", "--help"),
    "missing value": ("explain web -f", "-f: needs a value", "--help"),
    "value of a switch": ("up --ui=true", "--ui: takes no value", "--help"),
    "unexpected argument": (
        "explain a b",
        "moorage explain: unexpected argument: b",
        "write moorage explain [OPTIONS]",
    ),
    "unknown output format": ("explain web -o jsn", "--output: 'jsn' is not one of 'text', 'json', 'html'", ""),
    "text instead of a number": ("up --nodes many", "--nodes: many is not an integer from 0 to 20000", ""),
    "number out of range": ("up --port 65536", "--port: 65536 is not an integer from 0 to 65535", ""),
    "number below the minimum": ("lab tune x.yaml --workers -1", "--workers: -1 is not an integer of at least 0", ""),
    "rate of zero": ("lab generate --out x.csv --per-hour 0", "--per-hour: 0 is not a rate", ""),
    "invalid log level": ("explain web -v high", "-v: 'high' is not a log level", ""),
}


@pytest.mark.parametrize(("command", "problem", "hint"), USAGE_ERRORS.values(), ids=USAGE_ERRORS)
def test_invalid_usage_is_reported_in_the_form_of_all_errors(
    command: str, problem: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    error, _, advice = capsys.readouterr().err.strip().partition("\n  hint: ")
    assert error.startswith(f"error: {problem}")
    assert "\n" not in error
    assert hint in advice


@pytest.mark.parametrize("group", [(), ("lab",)], ids=["moorage", "lab"])
def test_command_group_without_arguments_prints_its_help(
    group: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(group) == 2
    assert "Commands:" in (captured := capsys.readouterr()).err or "Start here:" in captured.err
