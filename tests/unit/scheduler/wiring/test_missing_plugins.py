"""A plugin that the configuration knows and the program lacks is refused wherever something is to be scheduled."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.options import load_options

from moorage.cli.main import run
from moorage.common.errors import ConfigErrors
from moorage.scheduler.plugins.catalogue import IN_TREE
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import Cluster

LACKED = "ImageLocality"
PROBLEM = f"profiles[0].plugins: {LACKED} is enabled, and is a plugin of kube-scheduler that Moorage does not have"
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WITHOUT = f"profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: {LACKED}}}]}}}}}}]"


@pytest.fixture(autouse=True)
def _lack_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    remaining = tuple(plugin for plugin in IN_TREE if plugin.name != LACKED)
    monkeypatch.setattr("moorage.scheduler.wiring.policy.IN_TREE", remaining)


COMMANDS = {
    "simulate": ["simulate", "-f", "{cluster}"],
    "simulate --one-pass": ["simulate", "-f", "{cluster}", "--one-pass"],
    "up": ["up", "--for", "1s", "--nodes", "1"],
    "config check": ["config", "check", "{config}"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(HEAD)
    cluster.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n")

    assert run([part.format(config=config, cluster=cluster) for part in command]) == 2
    printed = capsys.readouterr()
    assert PROBLEM in printed.err
    assert printed.out == ""


BUILDERS: dict[str, Callable[[], object]] = {
    "the scheduler": lambda: load_options([]),
    "testing.Cluster": lambda: Cluster(nodes=1),
    "a policy": lambda: load_policy(collect_plugins()),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_builders(build: Callable[[], object]) -> None:
    with pytest.raises(ConfigErrors, match=f"{LACKED} is enabled"):
        build()


def test_disabled_plugins_are_not_required() -> None:
    load_policy(collect_plugins(), HEAD + WITHOUT)


def test_a_configuration_with_missing_plugins_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "view", "-o", "json"]) == 0
    assert LACKED in json.dumps(json.loads(capsys.readouterr().out))
