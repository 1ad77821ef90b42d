"""What several commands have in common: how configuration, plugins, feature gates and clusters are given."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moorage.insight.whatif.reading import ShowReading
    from moorage.insight.whatif.sources import LoadedCluster
    from moorage.scheduler.decisions.attempts import ShowProgress
    from moorage.scheduler.wiring.policy import Policy

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
ObjectFiles = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="FILE", help="Kubernetes objects, YAML or JSON; - is standard input."),
]
SnapshotOption = Annotated[
    str, typer.Option("--snapshot", metavar="FILE", help="A cluster that `moorage snapshot` has saved.")
]
DecisionLogOption = Annotated[
    Path | None,
    typer.Option("--decision-log", metavar="FILE", help="What `moorage scheduler --decision-log FILE` has written."),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace, unless the name says it.")]
KubeconfigOption = Annotated[
    str, typer.Option("--kubeconfig", metavar="FILE", help="How to reach the cluster; without it, as kubectl does.")
]
ContextOption = Annotated[str, typer.Option("--context", help="The context of the kubeconfig to use.")]


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
        from moorage.scheduler.daemon.logs import configure_logs
        from moorage.scheduler.daemon.options import LoggingOptions

        configure_logs(LoggingOptions(verbosity=level))


def log_trials_as_asked(level: int | None) -> None:
    """Log as much as a level says; without one nothing: what goes wrong in a trial is part of the answer."""
    if level is not None:
        log_as_asked(level)
        return
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def policy_of(config: Path | None, plugins: list[str] | None, gates: list[str] | None) -> "Policy":
    """Return how to schedule, as the options say; without a configuration the plugins that are named are enabled."""
    from moorage.scheduler.daemon.gates import choose_gates
    from moorage.scheduler.framework.registry import Registry
    from moorage.scheduler.wiring.policy import collect_plugins, load_policy

    named = Registry()
    for path in plugins or ():
        named.register_path(path)
    features = choose_gates(gates or ()).features
    return load_policy(collect_plugins(named.values()), config, features=features, enabled=named.values())


def load_source(
    files: list[str] | None, snapshot: str, kubeconfig: str, context: str, *, quiet: bool = False
) -> "LoadedCluster":
    """Read the cluster that a command was given, and note on stderr what should be known of it."""
    from moorage.insight.whatif.sources import ClusterSource, load

    source = ClusterSource(files or (), snapshot, kubeconfig, context)
    with reading_progress(shown=not quiet and sys.stderr.isatty()) as progress:
        cluster = load(source, progress=progress)
    if cluster.note and not quiet:
        typer.echo(f"note: {cluster.note}", err=True)
    return cluster


@contextmanager
def reading_progress(*, shown: bool) -> "Iterator[ShowReading]":
    """Show on the terminal which kinds are read, and how far; it leaves no trace."""
    if not shown:
        yield lambda _kind, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(kind: str, done: int, total: int) -> None:
            if kind not in tasks:
                tasks[kind] = bar.add_task(kind, total=total)
            bar.update(tasks[kind], completed=done, total=total)

        yield show


@contextmanager
def simulation_progress(*, shown: bool) -> "Iterator[ShowProgress | None]":
    """Show a bar on the terminal while pods are decided on, and the virtual time; it leaves no trace."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    from moorage.cluster import shown_time

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scheduling", total=None)

        def show(done: int, total: int, seconds: float) -> None:
            bar.update(task, completed=done, total=total, description=f"scheduling, after {shown_time(seconds)}")

        yield show
