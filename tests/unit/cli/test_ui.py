"""`moorage ui`: invalid input is one error message, before the server starts."""

import json
from pathlib import Path

import pytest

from moorage.cli.main import run


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["ui", "--port", "0", *arguments])
    return code, capsys.readouterr().err


def test_invalid_snapshot_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, content in (("text", b"hello"), ("empty", b""), ("list", b"[]"), ("binary", bytes(range(256)))):
        file = tmp_path / name
        file.write_bytes(content)
        code, text = said(capsys, "--snapshot", str(file))
        assert (code, text.startswith("error: "), "Traceback" in text) == (2, True, False), text


def test_missing_file_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "-f", "/nowhere/cluster.yaml")
    assert code == 2
    assert "/nowhere/cluster.yaml" in text


def test_public_address_without_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": []}))
    code, text = said(capsys, "-f", str(file), "--address", "0.0.0.0")
    assert code == 2
    assert "--token-file" in text


def test_invalid_configuration_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, config = tmp_path / "cluster.json", tmp_path / "config.yaml"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": []}))
    config.write_text("kind: Nothing")
    code, _ = said(capsys, "-f", str(file), "--compare", str(config))
    assert code == 2
