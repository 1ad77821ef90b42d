"""`moorage promote`: put the configuration that ran in shadow in charge, or take that back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.shared import ContextOption, GatesOption, KubeconfigOption, PluginPaths
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.insight.shadow.promoting import ConfigMapPlace, FilePlace, LoadConfig

ShadowFile = Annotated[
    Path | None, typer.Argument(metavar="SHADOW", help="The configuration that is to be in charge.", show_default=False)
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The file that the running scheduler was given.")
]
ConfigMapOption = Annotated[
    str, typer.Option("--config-map", metavar="NAMESPACE/NAME", help="The ConfigMap that it is mounted from.")
]
KeyOption = Annotated[str, typer.Option("--key", help="Its key with the configuration in charge.")]
ShadowKey = Annotated[str, typer.Option("--shadow-key", help="Its key with the shadow, unless SHADOW is given.")]
UndoOption = Annotated[bool, typer.Option("--undo", help="Bring the former configuration back.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check, show the difference, and write nothing.")]


def promote(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    shadow: ShadowFile = None,
    config: ConfigFile = None,
    config_map: ConfigMapOption = "",
    key: KeyOption = "config.yaml",
    shadow_key: ShadowKey = "shadow.yaml",
    undo: UndoOption = False,
    dry_run: DryRun = False,
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
) -> None:
    """Put the configuration that ran in shadow in charge: a running scheduler takes it up without a restart.

    It is checked first, and what changes is shown. What only a restart changes (leaderElection, clientConnection) stays
    as it is. The former configuration is kept beside: --undo brings it back.
    """
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.insight.shadow.promoting import FilePlace, promotion, undoing
    from moorage.scheduler.config.loading import read_config_text

    if (config is None) == (not config_map):
        raise InputError("promote", "say where the configuration in charge is", hint="give --config or --config-map")
    place = FilePlace(config) if config is not None else _config_map(config_map, key, kubeconfig, context)
    kept, load = place.read(), _loader(plugin, feature_gates)
    if undo:
        if shadow is not None:
            raise InputError("--undo", f"{shadow} is given, too", hint="leave it out: the former one is kept beside")
        name, change = f"{kept.name}.previous", undoing(kept, load)
    else:
        name, text = (str(shadow), read_config_text(shadow)) if shadow is not None else _kept_shadow(place, shadow_key)
        change = promotion(kept, text, name, load)
    for note in change.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(change.difference or f"{name} means the same as {kept.name}")
    if dry_run:
        return
    place.write(change.current, change.previous)
    typer.echo(f"{kept.name} has been taken back" if undo else f"{kept.name} is what {name} says; --undo takes it back")


def _config_map(config_map: str, key: str, kubeconfig: str, context: str) -> "ConfigMapPlace":
    from moorage.common.errors import InputError
    from moorage.insight.shadow.promoting import ConfigMapPlace
    from moorage.kube.client.kubeconfig import load_connection

    namespace, _, name = config_map.partition("/")
    if not namespace or not name:
        raise InputError("--config-map", f"{config_map!r} is no name", hint="write NAMESPACE/NAME")
    return ConfigMapPlace(load_connection(kubeconfig, context=context), namespace, name, key)


def _kept_shadow(place: "ConfigMapPlace | FilePlace", key: str) -> tuple[str, str]:
    from moorage.common.errors import InputError
    from moorage.insight.shadow.promoting import ConfigMapPlace

    if not isinstance(place, ConfigMapPlace):
        raise InputError("promote", "say which file is to be in charge", hint="moorage promote SHADOW --config FILE")
    return key, place.value(key)


def _loader(plugins: list[str] | None, gates: list[str] | None) -> "LoadConfig":
    """Return what reads a configuration as the scheduler would; it must be one that we can run."""
    from moorage.scheduler.config import SchedulerConfiguration, load_config
    from moorage.scheduler.daemon.gates import all_gates
    from moorage.scheduler.wiring.policy import catalogue_of, collect_plugins, require_plugins

    registry, features = collect_plugins(paths=plugins or ()), all_gates(gates or ())

    def load(text: str, source: str) -> SchedulerConfiguration:
        loaded = load_config(text, source=source, gates=features, catalogue=catalogue_of(registry))
        require_plugins(loaded, registry)
        return loaded

    return load
