"""`moorage capacity`: how many more copies of a pod fit."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.shared import (
    ConfigOption,
    ContextOption,
    GatesOption,
    KubeconfigOption,
    PluginPaths,
    SnapshotOption,
    VerbosityOption,
    load_source,
    log_trials_as_asked,
    policy_of,
)
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.insight.whatif.questions import ReplicaCapacity

MAX_LISTED = 20


class AnswerFormat(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


PodFile = Annotated[
    str, typer.Option("--file", "-f", metavar="FILE", help="The pod: a Pod, or a workload whose pods are meant.")
]
ClusterFiles = Annotated[
    list[str] | None, typer.Option("--cluster", metavar="FILE", help="A cluster in files, instead of the live one.")
]
MostOption = Annotated[int, typer.Option("--most", min=1, max=1_000_000, help="Count no further than this.")]


def capacity(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: PodFile,
    cluster: ClusterFiles = None,
    snapshot: SnapshotOption = "",
    config: ConfigOption = None,
    most: MostOption = 10_000,
    output: Annotated[AnswerFormat, typer.Option("--output", "-o", help="How to print it.")] = AnswerFormat.TEXT,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
) -> None:
    """Say how many more copies of a pod fit into a cluster, on which nodes, and what stops the next one.

    Copies are placed by the scheduler itself, one after the other; nobody is preempted, and nothing is written.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    from moorage.insight.whatif import questions
    from moorage.kube.manifests import read_files

    pod = questions.template_pod(list(read_files([file])))
    policy = policy_of(config, plugin, feature_gates)
    with load_source(cluster, snapshot, kubeconfig, context, quiet=quiet).session(policy) as session:
        found = questions.capacity(session, pod, most=most)
    if output is AnswerFormat.JSON:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    else:
        _print(found)


def _print(found: "ReplicaCapacity") -> None:
    typer.echo(f"{found.fits} more of {found.pod} fit")
    ranked = sorted(found.nodes.items(), key=lambda item: -item[1])
    for node, count in ranked[:MAX_LISTED]:
        typer.echo(f"  {count:>6}  {node}")
    if len(ranked) > MAX_LISTED:
        typer.echo(f"  and {len(ranked) - MAX_LISTED} more nodes")
    typer.echo(f"The next one: {found.message}" if found.message else "The next one was not tried: --most was reached.")
