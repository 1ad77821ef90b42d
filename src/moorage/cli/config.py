"""`moorage config view` and `moorage config check`: what a configuration means, and whether it can be used."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.shared import GatesOption, PluginPaths
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.assembly.policy import Policy
    from moorage.config import Catalogue, ProfileConfig

app = typer.Typer(help="Look at scheduler configurations.", no_args_is_help=True, rich_markup_mode=None)


class ViewFormat(StrEnum):
    """How `view` prints."""

    YAML = "yaml"
    JSON = "json"


@app.command()
def view(
    config: Annotated[Path | None, typer.Option("--config", help="The file; without it, the defaults.")] = None,
    feature_gates: GatesOption = None,
    plugin: PluginPaths = None,
    output: Annotated[ViewFormat, typer.Option("--output", "-o", help="How to print it.")] = ViewFormat.YAML,
) -> None:
    """Print the completed configuration, as kube-scheduler's --write-config-to does."""
    from moorage.config import completed_view, to_json, to_yaml

    completed = completed_view(_load(config, feature_gates, plugin, to_schedule=False).config)
    typer.echo(to_json(completed) if output is ViewFormat.JSON else to_yaml(completed), nl=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")],
    feature_gates: GatesOption = None,
    plugin: PluginPaths = None,
) -> None:
    """Say whether a configuration can be used; if not, list everything that is wrong with it."""
    from moorage.assembly.policy import catalogue_of

    policy = _load(file, feature_gates, plugin)
    catalogue = catalogue_of(policy.registry)
    typer.echo(f"{file}: OK")
    for profile in policy.config.profiles:
        typer.echo(f"  {_summary(profile, catalogue)}")


def _load(
    path: Path | None, feature_gates: list[str] | None, plugins: list[str] | None, *, to_schedule: bool = True
) -> "Policy":
    start_lightly()
    from moorage.app.gates import all_gates
    from moorage.assembly.policy import collect_plugins, load_policy

    registry, gates = collect_plugins(paths=plugins or ()), all_gates(feature_gates or ())
    return load_policy(registry, path, features=gates, to_schedule=to_schedule)


def _summary(profile: "ProfileConfig", catalogue: "Catalogue") -> str:
    from moorage.config import ExtensionPoint, expand_plugins

    enabled = expand_plugins(profile, lambda name: catalogue[name].points)
    filters, scores = len(enabled[ExtensionPoint.FILTER]), len(enabled[ExtensionPoint.SCORE])
    return f"{profile.scheduler_name}: {len(enabled.names)} plugins, {filters} filter, {scores} score"
