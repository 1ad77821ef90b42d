import ast
import re
from pathlib import Path

import pytest

from moorage.scheduler import plugins
from moorage.scheduler.config import KNOWN_PLUGINS as FACTS
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.plugins.catalogue import IN_TREE
from moorage.testing.rig import Rig

# Points of pod groups, which are behind gates that are off; there are no base classes for them.


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
