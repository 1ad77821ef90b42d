"""Merging of a profile's plugins with the default plugins."""

from collections.abc import Iterator

import msgspec

from moorage.scheduler.config.types import ALL_PLUGINS, PluginEntry, Plugins, PluginSet


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Merge every plugin set on its own."""
    names = [field.name for field in msgspec.structs.fields(Plugins)]
    return Plugins(**{name: merge_set(getattr(defaults, name), getattr(custom, name)) for name in names})


def merge_set(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Keep the enabled defaults in their order, then append the user's plugins.

    A default that the user also lists keeps its position and gets the user's weight, even if that is missing. A plugin
    that is both disabled and enabled is appended. Duplicates remain: building the profile rejects them.
    """
    disabled = tuple(PluginEntry(plugin.name) for plugin in (*custom.disabled, *defaults.disabled))
    disabled_names = {plugin.name for plugin in disabled}
    remaining = (
        ()
        if ALL_PLUGINS in disabled_names
        else tuple(plugin for plugin in defaults.enabled if plugin.name not in disabled_names)
    )

    # Of a repeated entry the last one takes the default's place, as upstream's map of them does.
    last_of = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    replacing = {last_of[plugin.name] for plugin in remaining if plugin.name in last_of}
    return PluginSet(
        enabled=(
            *(custom.enabled[last_of[plugin.name]] if plugin.name in last_of else plugin for plugin in remaining),
            *(plugin for index, plugin in enumerate(custom.enabled) if index not in replacing),
        ),
        disabled=disabled,
    )


def enabled_names(plugins: Plugins) -> Iterator[str]:
    """Yield the name of every plugin that some set enables, sets in the order of the struct, repetitions included."""
    for field in msgspec.structs.fields(Plugins):
        plugin_set: PluginSet = getattr(plugins, field.name)
        yield from (plugin.name for plugin in plugin_set.enabled)
