"""`moorage promote`: activate a shadow configuration, or restore the previous one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly

if TYPE_CHECKING:
    from moorage.insight import LoadConfig

ShadowFile = Annotated[
    Path | None, typer.Argument(metavar="SHADOW", help="File with the configuration to activate.", show_default=False)
]
ConfigPath = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration file of the running scheduler.")
]
ConfigMapOption = Annotated[
    str,
    typer.Option(
        "--config-map", metavar="NAMESPACE/NAME", help="ConfigMap with the configuration of the running scheduler."
    ),
]
KeyOption = Annotated[
    str, typer.Option("--key", metavar="KEY", help="Key of the active configuration in the ConfigMap.")
]
ShadowKey = Annotated[
    str,
    typer.Option(
        "--shadow-key", metavar="KEY", help="Key of the shadow configuration in the ConfigMap, if SHADOW is omitted."
    ),
]
UndoOption = Annotated[bool, typer.Option("--undo", help="Restore the previous configuration.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the differences, but change nothing.")]


def promote(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    shadow: ShadowFile = None,
    config: ConfigPath = None,
    config_map: ConfigMapOption = "",
    key: KeyOption = "config.yaml",
    shadow_key: ShadowKey = "shadow.yaml",
    undo: UndoOption = False,
    dry_run: DryRun = False,
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
) -> None:
    """Activate a shadow configuration, or restore the previous one.

    Replaces the scheduler's configuration, a file or a ConfigMap, by SHADOW. The scheduler reloads it without a
    restart. The differences are printed, and the previous configuration is saved for --undo.

    Both configurations are validated on this machine first: pass the --plugin options of the scheduler. If SHADOW omits
    leaderElection, clientConnection or extenders, the values of the active configuration remain. A different
    leaderElection or clientConnection is an error, because these settings need a restart.
    """
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.insight import ConfigFile, ConfigMapKey, promote_config, undo_promotion
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.scheduler.config.loading import read_config_text

    if (config is None) == (not config_map):
        hint = "add either --config FILE or --config-map NAMESPACE/NAME"
        raise InputError("moorage promote", "specify the configuration to replace", hint=hint)
    store: ConfigFile | ConfigMapKey
    if config is not None:
        store = ConfigFile(config)
    else:
        namespace, _, name = config_map.partition("/")
        if not namespace or not name:
            raise InputError("--config-map", f"{config_map!r} is not a ConfigMap name", hint="write NAMESPACE/NAME")
        store = ConfigMapKey(load_connection(kubeconfig, context=context), namespace, name, key)
    active, load = store.read(), _make_loader(plugin, options.GateFlags(feature_gates, emulated_version))
    if undo:
        if shadow is not None:
            hint = "--undo restores the previous configuration; omit SHADOW"
            raise InputError("--undo", f"cannot be combined with {shadow}", hint=hint)
        source, change = f"{active.name}.previous", undo_promotion(active, load)
    else:
        if shadow is not None:
            source, text = str(shadow), read_config_text(shadow)
        elif isinstance(store, ConfigMapKey):
            source, text = shadow_key, store.value(shadow_key)
        else:
            hint = "write moorage promote SHADOW --config FILE"
            raise InputError("moorage promote", "the configuration to activate is missing", hint=hint)
        change = promote_config(active, text, source, load)
    for note in change.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(change.difference or f"{source} is equivalent to {active.name}")
    if dry_run:
        return
    store.write(change.current, change.previous)
    is_active = f"{source} is now active in {active.name}; undo it with --undo"
    typer.echo(f"{active.name} has been restored" if undo else is_active)


def _make_loader(plugins: list[str] | None, gates: options.GateFlags) -> "LoadConfig":
    """Return a function that parses a configuration and checks that all its plugins exist."""
    from moorage.scheduler.config import SchedulerConfiguration, load_config
    from moorage.scheduler.wiring.policy import build_catalogue, collect_plugins, require_plugins

    registry, features = collect_plugins(paths=plugins or ()), gates.choose(to_schedule=False)

    def load(text: str, source: str) -> SchedulerConfiguration:
        config = load_config(text, source=source, gates=features, catalogue=build_catalogue(registry))
        require_plugins(config, registry)
        return config

    return load
