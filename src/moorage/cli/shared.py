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


def _level(text: str) -> int:
    """Read a level as kube-scheduler takes it: -v=4 is the same as -v 4."""
    number = text.removeprefix("=")
    if not number.isdecimal():
        raise typer.BadParameter(f"{text!r} is not a level: write a number from 0 to 10, such as -v 4")
    return int(number)


VerbosityOption = Annotated[
    int | None,
    typer.Option("-v", "--v", parser=_level, metavar="LEVEL", help="Log more than warnings, as kube-scheduler -v."),
]


def log_as_asked(level: int | None) -> None:
    """Log as much as a level says, plugins included; without one, only what goes wrong is logged."""
    if level is not None:
        from moorage.app.logs import configure_logs
        from moorage.app.options import LoggingOptions

        configure_logs(LoggingOptions(verbosity=level))


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
