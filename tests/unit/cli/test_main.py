"""The `moorage` command."""

import re
import subprocess
import sys

import pytest

from moorage.cli.main import run


def test_help_of_the_kubectl_plugin_shows_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"], name="kubectl moorage") == 0
    assert capsys.readouterr().out.strip().startswith("Usage: kubectl moorage explain")


def test_package_runs_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "moorage", "explain", "--help"], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip().startswith("Usage: moorage explain")


@pytest.mark.parametrize("arguments", [(), ("config",), ("shadow",), ("whatif",), ("lab",)], ids=" ".join)
def test_help_has_a_summary_of_every_command(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--help"]) == 0
    usage, _, described = capsys.readouterr().out.partition("Options:\n")
    assert len(usage.splitlines()) > 2, "the group itself is described"
    commands = [line.split(maxsplit=1) for line in described.splitlines() if re.match(r"  [a-z]", line)]
    assert commands
    assert all(len(command) == 2 and command[1].endswith(".") for command in commands), commands


def test_help_names_arguments_and_numbers_by_plain_metavars(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["explain"], ["capacity"], ["lab", "generate"], ["lab", "import"], ["up"]):
        assert run([*arguments, "--help"]) == 0
        output = capsys.readouterr().out
        assert not [sign for sign in ("{", "<str>", "<path>", "<int", "<float>") if sign in output], arguments
