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
