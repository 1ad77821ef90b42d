"""Arguments of the plugins of the community: names and defaults as in scheduler-plugins, and what is refused."""

from typing import Any

import msgspec
import pytest

from moorage.config import KNOWN_PLUGINS, load_config
from moorage.config.catalogue import COMMUNITY_PLUGINS
from moorage.config.community_args import CoschedulingArgs
from moorage.errors import ConfigErrors


def loaded(plugin: str, args: dict[str, Any] | None) -> Any:
    """Load a configuration that enables a plugin with arguments, or without any."""
    points = KNOWN_PLUGINS[plugin].points
    plugins: dict[str, Any] = {"multiPoint": {"enabled": [{"name": plugin}]}}
    if "queueSort" in points:
        plugins["queueSort"] = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}
    profile: dict[str, Any] = {"plugins": plugins}
    if args is not None:
        profile["pluginConfig"] = [{"name": plugin, "args": args}]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = load_config(msgspec.json.encode({**head, "profiles": [profile]}).decode())
    return config.profiles[0].args_of(plugin)


DEFAULTS: dict[str, Any] = {
    "Coscheduling": CoschedulingArgs(60, 0, 10),
}


@pytest.mark.parametrize(("plugin", "args"), DEFAULTS.items(), ids=DEFAULTS)
def test_defaults(plugin: str, args: Any) -> None:
    assert loaded(plugin, None) == args
    assert loaded(plugin, {}) == args
    assert loaded(plugin, {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}) == args


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a negative waiting time": (
        "Coscheduling",
        {"permitWaitingTimeSeconds": -1},
        "permitWaitingTimeSeconds: Invalid value: -1: must not be negative",
    ),
    "a negative backoff": (
        "Coscheduling",
        {"podGroupBackoffSeconds": -1},
        "podGroupBackoffSeconds: Invalid value: -1: must not be negative",
    ),
    "more than all": (
        "Coscheduling",
        {"podGroupRejectPercentage": 101},
        "podGroupRejectPercentage: Invalid value: 101: not in valid range [0, 100]",
    ),
    "an argument that there is not": (
        "Coscheduling",
        {"permitWaitingSeconds": 1},
        "permitWaitingSeconds: unknown field",
    ),
    "arguments of another plugin": (
        "Coscheduling",
        {"kind": "CoschedulerArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"},
        "args for plugin Coscheduling were not of type CoschedulingArgs",
    ),
}


@pytest.mark.parametrize(("plugin", "args", "problem"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(plugin: str, args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        loaded(plugin, args)
    (error,) = refused.value.errors
    assert str(error).startswith("profiles[0].pluginConfig[0]")
    assert problem in str(error)


def test_every_plugin_is_in_the_table_of_defaults() -> None:
    assert DEFAULTS.keys() == {
        name for name, facts in COMMUNITY_PLUGINS.items() if facts.args and not facts.required_args
    }
