"""`moorage config view` and `moorage config check`: what a configuration means, and whether it can be used."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moorage.config import Catalogue, Profile, SchedulerConfiguration

app = typer.Typer(help="Look at scheduler configurations.", no_args_is_help=True, rich_markup_mode=None)


class OutputFormat(StrEnum):
    """How `view` prints."""

    YAML = "yaml"
    JSON = "json"


Gates = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates that differ from their defaults."),
]

PluginPaths = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE:CLASS", help="A third-party plugin; may be given several times."),
]


@app.command()
def view(
    config: Annotated[Path | None, typer.Option("--config", help="The file; without it, the defaults.")] = None,
    feature_gates: Gates = None,
    plugin: PluginPaths = None,
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print it.")] = OutputFormat.YAML,
) -> None:
    """Print the completed configuration, as kube-scheduler's --write-config-to does."""
    from moorage.config import completed_view, to_json, to_yaml

    completed = completed_view(_load(config, feature_gates, _catalogue(plugin)))
    typer.echo(to_json(completed) if output is OutputFormat.JSON else to_yaml(completed), nl=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")],
    feature_gates: Gates = None,
    plugin: PluginPaths = None,
) -> None:
    """Say whether a configuration can be used; if not, list everything that is wrong with it."""
    catalogue = _catalogue(plugin)
    completed = _load(file, feature_gates, catalogue)
    typer.echo(f"{file}: OK")
    for profile in completed.profiles:
        typer.echo(f"  {_summary(profile, catalogue)}")


def _catalogue(paths: list[str] | None) -> "Catalogue":
    from moorage.config import IN_TREE, PluginFacts
    from moorage.framework.registry import Registry, extension_points

    registry = Registry()
    for path in paths or ():
        registry.register_path(path)
    return {**IN_TREE, **{name: PluginFacts(extension_points(kind), kind.Args) for name, kind in registry.items()}}


def _load(path: Path | None, feature_gates: list[str] | None, catalogue: "Catalogue") -> "SchedulerConfiguration":
    from moorage.config import default_config, load_config_file
    from moorage.features import FeatureGates

    gates = FeatureGates.parse(*feature_gates or ())
    if path is None:
        return default_config(gates=gates, catalogue=catalogue)
    return load_config_file(path, gates=gates, catalogue=catalogue)


def _summary(profile: "Profile", catalogue: "Catalogue") -> str:
    from moorage.config import ExtensionPoint, expand_plugins

    enabled = expand_plugins(profile, lambda name: catalogue[name].points)
    filters, scores = len(enabled[ExtensionPoint.FILTER]), len(enabled[ExtensionPoint.SCORE])
    return f"{profile.scheduler_name}: {len(enabled.names)} plugins, {filters} filter, {scores} score"
