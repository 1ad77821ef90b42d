"""`moorage config`: what a configuration means, whether it can be used, and how an old one is written today."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moorage.cli.shared import GatesOption, PluginPaths
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.scheduler.config import Catalogue, ProfileConfig
    from moorage.scheduler.wiring.policy import Policy

MAX_NOTE: Final = 1000

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
    from moorage.scheduler.config import completed_view, to_json, to_yaml

    completed = completed_view(_load(config, feature_gates, plugin, to_schedule=False).config)
    typer.echo(to_json(completed) if output is ViewFormat.JSON else to_yaml(completed), nl=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")],
    feature_gates: GatesOption = None,
    plugin: PluginPaths = None,
) -> None:
    """Say whether a configuration can be used; if not, list everything that is wrong with it."""
    from moorage.scheduler.wiring.policy import catalogue_of

    policy = _load(file, feature_gates, plugin)
    catalogue = catalogue_of(policy.registry)
    typer.echo(f"{file}: OK")
    for profile in policy.config.profiles:
        typer.echo(f"  {_summary(profile, catalogue)}")


@app.command()
def convert(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The old file: a configuration, a Policy, or a ConfigMap.")
    ] = None,
    algorithm_provider: Annotated[
        str | None, typer.Option("--algorithm-provider", help="What that flag of kube-scheduler said; no FILE then.")
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="Write what can be kept even if something is lost.")] = False,
) -> None:
    """Write a configuration of any older version, a Policy, or a ConfigMap with one of them, as v1.

    What moved, was renamed or is lost is listed on stderr. If something is lost, nothing is written and the exit code
    is 2, unless --lossy is given.
    """
    start_lightly()
    from moorage.common.errors import ConfigError
    from moorage.common.text import shortened
    from moorage.scheduler.config import to_yaml
    from moorage.scheduler.config.conversion import convert_provider, convert_text
    from moorage.scheduler.config.loading import read_config_text

    if (file is None) == (algorithm_provider is None):
        raise ConfigError("config convert", "give either a FILE or --algorithm-provider")
    if file is not None:
        found = convert_text(read_config_text(file), str(file))
    else:
        found = [convert_provider(algorithm_provider or "")]
    for each in found:
        for note in each.notes:
            typer.echo(shortened(f"{each.where}: {note}", MAX_NOTE), err=True)
    if not lossy and not all(each.notes.are_faithful for each in found):
        raise ConfigError(
            str(file or "--algorithm-provider"),
            "not all of it can be said in v1",
            hint="what is lost is listed above; --lossy writes the rest",
        )
    typer.echo("---\n".join(to_yaml(each.data) for each in found), nl=False)


def _load(
    path: Path | None, feature_gates: list[str] | None, plugins: list[str] | None, *, to_schedule: bool = True
) -> "Policy":
    start_lightly()
    from moorage.scheduler.daemon.gates import all_gates
    from moorage.scheduler.wiring.policy import collect_plugins, load_policy

    registry, gates = collect_plugins(paths=plugins or ()), all_gates(feature_gates or ())
    return load_policy(registry, path, features=gates, to_schedule=to_schedule)


def _summary(profile: "ProfileConfig", catalogue: "Catalogue") -> str:
    from moorage.scheduler.config import ExtensionPoint, expand_plugins

    enabled = expand_plugins(profile, lambda name: catalogue[name].points)
    filters, scores = len(enabled[ExtensionPoint.FILTER]), len(enabled[ExtensionPoint.SCORE])
    return f"{profile.scheduler_name}: {len(enabled.names)} plugins, {filters} filter, {scores} score"
