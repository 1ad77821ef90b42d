"""Options that several commands share, and how commands turn them into policies, clusters and progress bars."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from moorage.insight import LoadedCluster, ShowReading
    from moorage.scheduler.decisions.attempts import ShowProgress
    from moorage.scheduler.wiring.policy import Policy


class AnswerFormat(StrEnum):
    """Output formats of short results."""

    TEXT = "text"
    JSON = "json"


AnswerOption = Annotated[AnswerFormat, typer.Option("--output", "-o", help="Output format.")]
GatesOption = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates to set; may be repeated."),
]
PluginPaths = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE:CLASS", help="Third-party plugin to load; may be repeated."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="KubeSchedulerConfiguration (default: upstream's defaults, with every --plugin enabled).",
    ),
]
ObjectFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="Cluster as Kubernetes objects, YAML or JSON; - reads standard input."
    ),
]
SnapshotOption = Annotated[str, typer.Option("--snapshot", metavar="FILE", help="Cluster saved by `moorage snapshot`.")]
DecisionLogOption = Annotated[
    Path | None,
    typer.Option("--decision-log", metavar="FILE", help="Decision log written by `moorage scheduler --decision-log`."),
]
KubeconfigOption = Annotated[
    str, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the live cluster (default: same as kubectl).")
]
ContextOption = Annotated[str, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig to use.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the progress bar or notes.")]
AddressOption = Annotated[str, typer.Option("--address", metavar="IP", help="Address to listen on.")]
PortOption = Annotated[
    int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="Accept only clients with one of these bearer tokens (one per line)."
    ),
]


def _parse_level(text: str) -> int:
    """Parse a log level as kube-scheduler does: -v=4 equals -v 4."""
    number = text.removeprefix("=")
    if not number.isdecimal():
        raise typer.BadParameter(f"{text!r} is not a log level; use a number from 0 to 10, such as -v 4")
    return int(number)


VerbosityOption = Annotated[
    int | None,
    typer.Option("-v", "--v", parser=_parse_level, metavar="LEVEL", help="Log level, as in kube-scheduler's -v."),
]


def configure_log_level(level: int | None) -> None:
    """Log at a verbosity, plugins included; without one, only warnings and errors are logged."""
    if level is not None:
        from moorage.scheduler.daemon.logs import configure_logs
        from moorage.scheduler.daemon.options import LoggingOptions

        configure_logs(LoggingOptions(verbosity=level))


def configure_trial_logs(level: int | None) -> None:
    """Log at a verbosity; without one, log nothing: failures of a trial are part of its result."""
    if level is not None:
        configure_log_level(level)
        return
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def load_policy(config: Path | None, plugins: list[str] | None, gates: list[str] | None) -> "Policy":
    """Return the scheduling policy of the options; without a configuration, every --plugin is enabled."""
    from moorage.scheduler.daemon.feature_gates.gates import choose_gates
    from moorage.scheduler.framework.registry import Registry
    from moorage.scheduler.wiring import policy

    requested = Registry()
    for path in plugins or ():
        requested.register_path(path)
    features = choose_gates(gates or ()).features
    registry = policy.collect_plugins(requested.values())
    return policy.load_policy(registry, config, features=features, enabled=requested.values())


def load_cluster(
    files: list[str] | None, snapshot: str, kubeconfig: str, context: str, *, quiet: bool = False
) -> "LoadedCluster":
    """Read the cluster that the options name, and print notes about it to stderr."""
    from moorage import insight

    source = insight.ClusterSource(files or (), snapshot, kubeconfig, context)
    with reading_progress(shown=not quiet and sys.stderr.isatty()) as progress:
        cluster = insight.load_cluster(source, progress=progress)
    if cluster.note and not quiet:
        typer.echo(f"note: {cluster.note}", err=True)
    return cluster


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


@contextmanager
def reading_progress(*, shown: bool) -> "Iterator[ShowReading]":
    """Show a transient progress bar for each kind that is read."""
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
    """Show a transient progress bar with the number of decided pods and the virtual time."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    from moorage.cluster import format_seconds

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scheduling", total=None)

        def show(done: int, total: int, seconds: float) -> None:
            bar.update(task, completed=done, total=total, description=f"scheduling, after {format_seconds(seconds)}")

        yield show
