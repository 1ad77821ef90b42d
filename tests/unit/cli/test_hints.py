"""Hints of errors: they name options that the command has, and files and commands that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.unit.cli.test_explain import written
from tests.unit.insight.explain.clusters import node, pod

from moorage.cli.commands import make_app
from moorage.cli.main import run
from moorage.scheduler.daemon.flags.table import FLAGS

WITHOUT_A_CLUSTER = {
    "explain": ["explain", "web"],
    "when": ["when", "web"],
    "plan drain": ["plan", "drain", "n1"],
    "plan fit": ["plan", "fit"],
    "whatif fewest-nodes": ["whatif", "fewest-nodes"],
    "snapshot": ["snapshot", "cluster.json"],
    "record": ["record", "trace.jsonl"],
    "scheduler": ["scheduler", "--secure-port=0", "--leader-elect=false"],
}


def list_options(command: str) -> set[str]:
    if command == "scheduler":
        return {f"--{name}" for name in FLAGS}
    current: Any = typer.main.get_command(make_app())
    for name in command.split():
        current = current.commands[name]
    return {name for param in current.params for name in param.opts}


@pytest.mark.parametrize(("command", "arguments"), WITHOUT_A_CLUSTER.items(), ids=WITHOUT_A_CLUSTER)
def test_hint_for_a_missing_kubeconfig_names_options_of_the_command(
    command: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run(arguments) != 0
    printed = capfd.readouterr().err
    hint = printed.partition("hint: ")[2]
    assert "--kubeconfig" in hint, printed
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", hint)) <= list_options(command)


def test_subcommand_without_its_group_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in {"import": "lab import", "drain": "plan drain", "convert": "config convert"}.items():
        assert run([name, "x"]) == 2
        assert f"hint: did you mean '{command}'?" in capsys.readouterr().err


MISTAKES = {
    "a duration without a unit": (
        ["when", "--horizon", "10", "-f", "cluster.json"],
        "error: --horizon: 10 has no unit\n  hint: write 10s, 10m or 10h\n",
    ),
    "a history that is a manifest": (
        ["when", "web", "-f", "cluster.json", "--history", "other.yaml"],
        "error: other.yaml: not a trace or decision log\n  hint: pass a trace (.csv, .jsonl, .parquet), or a log",
    ),
    "a node that does not exist": (
        ["plan", "drain", "nope", "-f", "cluster.json"],
        "error: node nope: not found\n  hint: the nodes are n1, n2\n",
    ),
    "a plan that is a manifest": (["plan", "apply", "other.yaml"], "error: other.yaml: not a plan in JSON\n  hint: "),
    "a log that is a manifest": (
        ["shadow", "report", "other.yaml"],
        "error: other.yaml: not a log of the scheduler\n  hint: pass a file that the scheduler wrote with --shadow-log",
    ),
    "a kubeconfig that does not exist": (
        ["explain", "web", "--kubeconfig", "nope"],
        "error: --kubeconfig nope: the file does not exist\n  hint: ",
    ),
    "a snapshot of the MCP server that does not exist": (
        ["mcp", "--snapshot", "nope"],
        "error: --snapshot nope: the file does not exist\n  hint: ",
    ),
    "an invalid configuration that is v1 already": (
        ["config", "convert", "invalid.yaml"],
        "error: invalid.yaml: the file is already kubescheduler.config.k8s.io/v1, and is invalid\n"
        "  hint: list all problems with: moorage config check invalid.yaml\n",
    ),
    "a plugin with a syntax error": (
        ["simulate", "-f", "cluster.json", "--plugin", "wrong_syntax:x"],
        "error: --plugin wrong_syntax:x: the module wrong_syntax cannot be imported: "
        "SyntaxError: invalid syntax (wrong_syntax.py:2)\n",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_reported_with_a_correction(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path / "cluster.json", [node("n1"), node("n2"), pod("web")])
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Pod\n")
    (tmp_path / "wrong_syntax.py").write_text("\nx = = 1\n")
    (tmp_path / "invalid.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: -1\n"
    )
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(message)
