"""What several commands have in common: how configuration, plugins and feature gates are given."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moorage.assembly.policy import Policy

GatesOption = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates that differ from their defaults."),
]

PluginPaths = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE:CLASS", help="A third-party plugin; may be given several times."),
]

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A KubeSchedulerConfiguration; without one, every --plugin is enabled."),
]


def policy_of(config: Path | None, plugins: list[str] | None, gates: list[str] | None) -> "Policy":
    """Return how to schedule, as the options say; without a configuration the plugins that are named are enabled."""
    from moorage.app.gates import choose_gates
    from moorage.assembly.policy import collect_plugins, load_policy
    from moorage.framework.registry import Registry

    named = Registry()
    for path in plugins or ():
        named.register_path(path)
    features = choose_gates(gates or ()).features
    return load_policy(collect_plugins(named.values()), config, features=features, enabled=named.values())
