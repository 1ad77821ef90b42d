"""Plugins of the community: where they are, that the configuration knows them, and that they cost nothing unused."""

import re
import subprocess
import sys

import pytest

from moorage.scheduler.config.catalogue import COMMUNITY_PLUGINS
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin
from moorage.scheduler.framework.registry import Registry, extension_points
from moorage.scheduler.plugins.catalogue import COMMUNITY
from moorage.scheduler.wiring.policy import collect_plugins


@pytest.mark.parametrize("name", COMMUNITY_PLUGINS)
def test_the_configuration_knows_where_a_plugin_is_called(name: str) -> None:
    plugin = collect_plugins()[name]
    assert plugin.name == name
    assert extension_points(plugin) == COMMUNITY_PLUGINS[name].points
    assert plugin.Args is COMMUNITY_PLUGINS[name].args


@pytest.mark.parametrize("name", COMMUNITY_PLUGINS)
def test_a_plugin_is_found_by_its_name(name: str) -> None:
    file = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    module = f"moorage.contrib.community.{file}"
    assert COMMUNITY[name] in (f"{module}:{name}", f"{module}.plugin:{name}")


def test_both_tables_have_the_same_plugins() -> None:
    assert COMMUNITY.keys() == COMMUNITY_PLUGINS.keys()


def test_unused_plugins_are_not_imported() -> None:
    script = (
        "import sys; from moorage.scheduler.wiring.policy import *; load_policy(collect_plugins()); "
        "print([name for name in sys.modules if name.startswith('moorage.contrib.community')])"
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
    registry.offer(COMMUNITY)
    registry.register(Coscheduling)
    plugin_class: type[Plugin] = registry["Coscheduling"]
    assert plugin_class is Coscheduling
    assert not registry.is_offered("Coscheduling")
