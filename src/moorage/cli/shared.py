"""What several commands have in common: how plugins and feature gates are given, and how a configuration is loaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moorage.config import Catalogue, SchedulerConfiguration
    from moorage.features import FeatureGates
    from moorage.framework.registry import Registry

Gates = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates that differ from their defaults."),
]

PluginPaths = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE:CLASS", help="A third-party plugin; may be given several times."),
]


def third_party(paths: list[str] | None) -> "Registry":
    """Take in the plugins that installed packages offer and those that the command line names."""
    from moorage.framework.registry import Registry

    return _with_others(Registry(), paths)


def all_plugins(paths: list[str] | None) -> "Registry":
    """Take in our own plugins, too."""
    from moorage.framework.registry import Registry
    from moorage.plugins.catalogue import IN_TREE

    return _with_others(Registry(IN_TREE), paths)


def _with_others(registry: "Registry", paths: list[str] | None) -> "Registry":
    registry.register_entry_points()
    for path in paths or ():
        registry.register_path(path)
    return registry


def catalogue_with(plugins: "Registry") -> "Catalogue":
    """Tell the configuration of all in-tree plugins, whether or not they run, and of these others."""
    from moorage.config import IN_TREE, PluginFacts
    from moorage.framework.registry import extension_points

    others = {name: kind for name, kind in plugins.items() if name not in IN_TREE}
    return {**IN_TREE, **{name: PluginFacts(extension_points(kind), kind.Args) for name, kind in others.items()}}


def load_configuration(path: Path | None, gates: "FeatureGates", catalogue: "Catalogue") -> "SchedulerConfiguration":
    """Read a configuration file, or take the defaults where there is none."""
    from moorage.config import default_config, load_config_file

    if path is None:
        return default_config(gates=gates, catalogue=catalogue)
    return load_config_file(path, gates=gates, catalogue=catalogue)
