"""`moorage config`: view, check and convert scheduler configurations."""

from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly

if TYPE_CHECKING:
    from moorage.scheduler.config import SchedulerConfiguration
    from moorage.scheduler.wiring.policy import Policy

MAX_NOTE: Final = 1000

app = options.make_group("View, check and convert scheduler configurations.")


class ViewFormat(StrEnum):
    """Output formats of `view`."""

    YAML = "yaml"
    JSON = "json"


@app.command(cls=options.Command)
def view(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Configuration file (default: kube-scheduler's defaults)."),
    ] = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    plugin: options.Plugins = None,
    output: Annotated[ViewFormat, typer.Option("--output", "-o", help="Output format.")] = ViewFormat.YAML,
) -> None:
    """Print a configuration with all defaults.

    The output equals that of kube-scheduler's --write-config-to.
    """
    start_lightly()
    from moorage.scheduler.config import completed_view, to_json, to_yaml

    completed = completed_view(
        _load(config, options.GateFlags(feature_gates, emulated_version), plugin, to_schedule=False).config
    )
    typer.echo(to_json(completed) if output is ViewFormat.JSON else to_yaml(completed), nl=False)


@app.command(cls=options.Command)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Configuration file.")],
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    plugin: options.Plugins = None,
) -> None:
    """Validate a configuration and list all its errors.

    The exit code is 0 for a valid configuration, and 2 otherwise.
    """
    start_lightly()
    from moorage.scheduler.config import KNOWN_PLUGINS, ExtensionPoint, expand_plugins
    from moorage.scheduler.wiring.policy import build_catalogue

    policy = _load(file, options.GateFlags(feature_gates, emulated_version), plugin)
    catalogue = build_catalogue(policy.registry)
    profiles = {
        profile.scheduler_name: expand_plugins(profile, lambda name: catalogue[name].points)
        for profile in policy.config.profiles
    }
    if any(name not in KNOWN_PLUGINS for enabled in profiles.values() for name in enabled.names):
        import asyncio

        asyncio.run(_construct_plugins(policy))
    typer.echo(f"{file}: OK")
    for note in _find_unknown_disabled(policy.config, catalogue):
        options.print_note(note, quiet=False)
    for name, enabled in profiles.items():
        filters, scores = len(enabled[ExtensionPoint.FILTER]), len(enabled[ExtensionPoint.SCORE])
        counts = f"{len(enabled.names)} plugins, of which {filters} filter and {scores} score"
        typer.echo(f"  {name}: {counts}")


def _find_unknown_disabled(config: "SchedulerConfiguration", names: Collection[str]) -> Iterator[str]:
    """Describe the unknown plugins under ``disabled``. As in kube-scheduler they are valid, and have no effect."""
    from moorage.common.errors import did_you_mean
    from moorage.scheduler.config import ExtensionPoint
    from moorage.scheduler.config.types import ALL_PLUGINS

    for index, profile in enumerate(config.profiles):
        sets = {"multiPoint": profile.plugins.multi_point}
        sets |= {str(point): profile.plugins.at(point) for point in ExtensionPoint}
        for point, plugins in sets.items():
            for position, plugin in enumerate(plugins.disabled):
                if plugin.name != ALL_PLUGINS and plugin.name not in names:
                    hint = did_you_mean(plugin.name, names)
                    location = f"profiles[{index}].plugins.{point}.disabled[{position}]"
                    yield f"{location}: no plugin is named {plugin.name!r}{f' ({hint})' if hint else ''}"


async def _construct_plugins(policy: "Policy") -> None:
    """Construct all plugins without a cluster. Raise PluginError if a constructor or its events fail."""
    from msgspec.structs import replace

    from moorage.cluster import DiscardingApi, OfflineScheduler
    from moorage.common.clock import SystemClock

    config = replace(policy.config, extenders=())  # their certificates may exist only where the scheduler runs
    OfflineScheduler(replace(policy, config=config), DiscardingApi(), SystemClock())


@app.command(cls=options.Command)
def convert(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Old configuration, Policy, or ConfigMap that contains one.")
    ] = None,
    algorithm_provider: Annotated[
        str | None,
        typer.Option("--algorithm-provider", metavar="NAME", help="Convert an algorithm provider instead of a FILE."),
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="Write the result even if settings are lost.")] = False,
) -> None:
    """Convert an old configuration to v1.

    FILE is a configuration of any older version, a Policy, or a ConfigMap that contains one of them. Moved, renamed
    and lost settings are listed on standard error. If settings are lost, the command writes nothing and exits with
    code 2; --lossy writes the remaining settings.
    """
    start_lightly()
    from moorage.common.errors import ConfigError
    from moorage.common.text import shortened
    from moorage.scheduler.config import to_yaml
    from moorage.scheduler.config.conversion import convert_provider, convert_text
    from moorage.scheduler.config.loading import read_config_text

    if (file is None) == (algorithm_provider is None):
        raise ConfigError("moorage config convert", "specify either FILE or --algorithm-provider")
    if file is not None:
        conversions = convert_text(read_config_text(file), str(file))
    else:
        conversions = [convert_provider(algorithm_provider or "")]
    for conversion in conversions:
        for note in conversion.notes:
            typer.echo(shortened(f"{conversion.where}: {note}", MAX_NOTE), err=True)
    if not lossy and not all(conversion.notes.are_faithful for conversion in conversions):
        raise ConfigError(
            str(file or "--algorithm-provider"),
            "some settings cannot be expressed in v1",
            hint="the lost settings are listed above; --lossy converts the remaining ones",
        )
    typer.echo("---\n".join(to_yaml(conversion.data) for conversion in conversions), nl=False)


def _load(
    path: Path | None, gates: options.GateFlags, plugins: list[str] | None, *, to_schedule: bool = True
) -> "Policy":
    from moorage.scheduler.wiring.policy import collect_plugins, load_policy

    registry = collect_plugins(paths=plugins or ())
    return load_policy(registry, path, features=gates.choose(to_schedule=False), to_schedule=to_schedule)
