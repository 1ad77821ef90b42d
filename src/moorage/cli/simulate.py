"""`moorage simulate`: what the scheduler would do with a cluster described in files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moorage.cli.shared import GatesOption, PluginPaths
from moorage.cli.starting import quieten_logs, start_lightly

if TYPE_CHECKING:
    from moorage.simulator.attempts import ShowProgress
    from moorage.simulator.decisions import Decision
    from moorage.simulator.loading import ClusterInput

MAX_DETAILS: Final = 100_000
"""Up to so many pods times nodes the table also says how each node was chosen."""


class DecisionFormat(StrEnum):
    """How decisions are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class NodeSearch(StrEnum):
    """How many nodes are looked at."""

    ALL = "all"
    CONFIG = "config"


Files = Annotated[
    list[str],
    typer.Option("--file", "-f", metavar="FILE", help="Kubernetes objects, YAML or JSON; - is standard input."),
]
OnePassOption = Annotated[bool, typer.Option("--one-pass", help="Try every pending pod once and carry nothing out.")]
SearchOption = Annotated[
    NodeSearch,
    typer.Option("--search", help="With --one-pass: every node, or as percentageOfNodesToScore says."),
]


def simulate(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: Files,
    config: Annotated[Path | None, typer.Option("--config", help="A KubeSchedulerConfiguration.")] = None,
    one_pass: OnePassOption = False,
    search: SearchOption = NodeSearch.ALL,
    output: Annotated[DecisionFormat, typer.Option("--output", "-o", help="How to print it.")] = DecisionFormat.TABLE,
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
) -> None:
    """Place the pending pods of a described cluster and say where each went, or why it did not.

    The scheduler runs in virtual time until nothing more would change: preemption is carried out, pods are bound,
    backoff elapses. A cluster that cannot be used gives exit code 2; pods that fit nowhere do not.
    """
    start_lightly()
    quieten_logs()
    from moorage.app.gates import choose_gates
    from moorage.assembly.policy import collect_plugins, load_policy
    from moorage.simulator.loading import load_cluster
    from moorage.simulator.one_pass import OnePass
    from moorage.simulator.until_quiet import run_until_quiet

    gates = choose_gates(feature_gates or ()).features
    policy = load_policy(collect_plugins(paths=plugin or ()), config, features=gates)
    cluster = load_cluster(file, features=gates)
    if not quiet:
        _note_ignored(cluster)
    in_detail = output is not DecisionFormat.TABLE or len(cluster.nodes) * len(cluster.pending) <= MAX_DETAILS
    with _progress(shown=not quiet and sys.stderr.isatty()) as progress:
        if one_pass:
            decisions = OnePass(cluster, policy, search_all=search is NodeSearch.ALL, with_nodes=in_detail).run(
                progress
            )
        else:
            decisions = run_until_quiet(cluster, policy, with_nodes=in_detail, progress=progress)
    _print(decisions, output)


def _note_ignored(cluster: "ClusterInput") -> None:
    if cluster.ignored:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(cluster.ignored.items()))
        typer.echo(f"note: left out, since they do not bear on scheduling: {counted}", err=True)


@contextmanager
def _progress(*, shown: bool) -> "Iterator[ShowProgress | None]":
    """Show a bar on the terminal while pods are decided on; it leaves no trace."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scheduling", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(decisions: "list[Decision]", output: DecisionFormat) -> None:
    from moorage.simulator.decisions import to_json, to_yaml

    if output is DecisionFormat.JSON:
        typer.echo(to_json(decisions, indent=2))
    elif output is DecisionFormat.YAML:
        typer.echo(to_yaml(decisions), nl=False)
    else:
        from rich.console import Console

        from moorage.simulator.report import print_report

        print_report(decisions, Console())
