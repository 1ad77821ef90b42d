"""The tables of the included plugins agree with the configuration and with the files of the plugins."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.scheduler import plugins
from moorage.scheduler.config import KNOWN_PLUGINS as FACTS
from moorage.scheduler.config import default_config
from moorage.scheduler.config.plugin_facts import COMMUNITY_PLUGINS, GPU_PLUGINS, LEARNED_PLUGINS
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.plugins.included_plugins import CONTRIB, IN_TREE
from moorage.scheduler.wiring.policy import collect_plugins
from moorage.testing.rig import Rig

OTHERS = {**COMMUNITY_PLUGINS, **GPU_PLUGINS, **LEARNED_PLUGINS}


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_configuration_lists_the_extension_points_of_a_plugin(plugin: type[Plugin]) -> None:
    assert extension_points(plugin) == FACTS[plugin.name].points


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_configuration_supports_arguments_of_a_plugin(plugin: type[Plugin]) -> None:
    assert plugin.Args is FACTS[plugin.name].args


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_a_plugin_can_be_built_with_default_arguments(plugin: type[Plugin]) -> None:
    configured = {item.name: item.args for item in default_config().profiles[0].plugin_config}
    args = configured.get(plugin.name)
    assert isinstance(Registry(IN_TREE).build(plugin.name, args=args, handle=Rig()), plugin)


def test_plugins_are_in_the_order_of_the_default_profile() -> None:
    order = list(FACTS)
    assert [plugin.name for plugin in IN_TREE] == sorted((plugin.name for plugin in IN_TREE), key=order.index)


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_a_plugin_is_found_by_its_name(plugin: type[Plugin]) -> None:
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", plugin.name).lower()
    assert plugin.__module__ in (f"moorage.scheduler.plugins.{module}", f"moorage.scheduler.plugins.{module}.plugin")


def test_package_init_files_contain_only_a_docstring() -> None:
    for source in Path(plugins.__file__).parent.rglob("__init__.py"):
        statements = ast.parse(source.read_text()).body
        assert [type(statement) for statement in statements] == [ast.Expr], f"{source} holds more than a docstring"


def test_configuration_lists_all_plugins_of_contrib() -> None:
    assert CONTRIB.keys() == OTHERS.keys()


@pytest.mark.parametrize("name", OTHERS)
def test_configuration_lists_the_extension_points_and_arguments_of_a_contrib_plugin(name: str) -> None:
    plugin = collect_plugins()[name]
    assert (plugin.name, extension_points(plugin), plugin.Args) == (name, OTHERS[name].points, OTHERS[name].args)


@pytest.mark.parametrize("name", COMMUNITY_PLUGINS)
def test_a_community_plugin_is_found_by_its_name(name: str) -> None:
    module = f"moorage.contrib.community.{re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()}"
    assert CONTRIB[name] in (f"{module}:{name}", f"{module}.plugin:{name}")


def test_unused_contrib_plugins_are_not_imported() -> None:
    script = (
        "import sys; from moorage.scheduler.wiring.policy import *; load_policy(collect_plugins()); "
        "print([name for name in sys.modules if 'moorage.contrib' in name or name in ('gymnasium', 'optuna', 'ray')])"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"


def test_plugin_of_the_same_name_replaces_the_included_one() -> None:
    class Coscheduling(FilterPlugin):
        """A third-party plugin."""

        def filter(self, cycle: object, pod: object, node: object) -> None:
            return None

    assert collect_plugins([Coscheduling])["Coscheduling"] is Coscheduling
    registry = Registry()
    registry.offer(CONTRIB)
    registry.register(Coscheduling)
    plugin_class: type[Plugin] = registry["Coscheduling"]
    assert plugin_class is Coscheduling
    assert not registry.is_offered("Coscheduling")
