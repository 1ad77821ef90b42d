"""`moorage config view` and `moorage config check`: what a configuration means, and whether it can be used."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moorage.config import Profile, SchedulerConfiguration

app = typer.Typer(help="Look at scheduler configurations.", no_args_is_help=True, rich_markup_mode=None)


class OutputFormat(StrEnum):
    """How `view` prints."""

    YAML = "yaml"
    JSON = "json"


Gates = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates that differ from their defaults."),
]


@app.command()
def view(
    config: Annotated[Path | None, typer.Option("--config", help="The file; without it, the defaults.")] = None,
    feature_gates: Gates = None,
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print it.")] = OutputFormat.YAML,
) -> None:
    """Print the completed configuration, as kube-scheduler's --write-config-to does."""
    from moorage.config import completed_view, to_json, to_yaml

    completed = completed_view(_load(config, feature_gates))
    typer.echo(to_json(completed) if output is OutputFormat.JSON else to_yaml(completed), nl=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.")],
    feature_gates: Gates = None,
) -> None:
    """Say whether a configuration can be used; if not, list everything that is wrong with it."""
    completed = _load(file, feature_gates)
    typer.echo(f"{file}: OK")
    for profile in completed.profiles:
        typer.echo(f"  {_summary(profile)}")


def _load(path: Path | None, feature_gates: list[str] | None) -> "SchedulerConfiguration":
    from moorage.config import default_config, load_config_file
    from moorage.features import FeatureGates

    gates = FeatureGates.parse(*feature_gates or ())
    return default_config(gates=gates) if path is None else load_config_file(path, gates=gates)


def _summary(profile: "Profile") -> str:
    from moorage.config import IN_TREE, ExtensionPoint, expand_plugins

    enabled = expand_plugins(profile, lambda name: IN_TREE[name].points)
    filters, scores = len(enabled[ExtensionPoint.FILTER]), len(enabled[ExtensionPoint.SCORE])
    return f"{profile.scheduler_name}: {len(enabled.names)} plugins, {filters} filter, {scores} score"
