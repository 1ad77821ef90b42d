"""`moorage capacity`: how many more copies of a pod fit."""

from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.options import (
    AnswerFormat,
    AnswerOption,
    ConfigOption,
    ContextOption,
    GatesOption,
    KubeconfigOption,
    ObjectFiles,
    PluginPaths,
    QuietOption,
    SnapshotOption,
    VerbosityOption,
    configure_trial_logs,
    load_cluster,
    load_policy,
    print_json,
)
from moorage.cli.startup import start_lightly

if TYPE_CHECKING:
    from moorage.insight import ReplicaCapacity

MAX_LISTED = 20

PodFile = Annotated[
    str,
    typer.Argument(
        metavar="POD_FILE", help="Manifest of a Pod, or of a workload with a pod template.", show_default=False
    ),
]
OldClusterFiles = Annotated[list[str] | None, typer.Option("--cluster", metavar="FILE", hidden=True)]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="Stop counting at this number.")]


def capacity(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    pod_file: PodFile = "",
    file: ObjectFiles = None,
    cluster: OldClusterFiles = None,
    snapshot: SnapshotOption = "",
    config: ConfigOption = None,
    limit: LimitOption = 10_000,
    output: AnswerOption = AnswerFormat.TEXT,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
    quiet: QuietOption = False,
) -> None:
    """Count how many more copies of a pod fit.

    Prints the nodes that the copies would go to, and the reason why the next copy does not fit. The scheduler places
    one copy after the other. No pod is preempted, and nothing is written to the cluster.

    The cluster is read from files (-f), from a snapshot, or from the live cluster that kubectl uses.
    """
    start_lightly()
    configure_trial_logs(verbosity)
    from moorage.insight import count_replicas, template_pod
    from moorage.kube.manifests import read_files

    pod_file, files = _resolve_files(pod_file, file, cluster)
    pod = template_pod(list(read_files([pod_file])))
    policy = load_policy(config, plugin, feature_gates)
    with load_cluster(files, snapshot, kubeconfig, context, quiet=quiet).session(policy) as session:
        result = count_replicas(session, pod, most=limit)
    if output is AnswerFormat.JSON:
        print_json(result)
    else:
        _print(result)


def _resolve_files(pod_file: str, files: list[str] | None, cluster: list[str] | None) -> tuple[str, list[str] | None]:
    """Accept the former spelling, too: ``-f POD_FILE --cluster FILE``."""
    if pod_file:
        return pod_file, [*(files or ()), *(cluster or ())] or None
    if files is None or len(files) != 1:
        raise typer.BadParameter("POD_FILE is missing; for example: moorage capacity pod.yaml -f cluster.yaml")
    typer.echo("note: -f names the cluster in future; write `moorage capacity POD_FILE [-f CLUSTER]`", err=True)
    return files[0], cluster


def _print(result: "ReplicaCapacity") -> None:
    copies = "copy of {} fits" if result.fits == 1 else "copies of {} fit"
    typer.echo(f"{result.fits} more {copies.format(result.pod)}")
    ranked = sorted(result.nodes.items(), key=lambda item: -item[1])
    for node, count in ranked[:MAX_LISTED]:
        typer.echo(f"  {count:>6}  {node}")
    if len(ranked) > MAX_LISTED:
        typer.echo(f"  and {len(ranked) - MAX_LISTED} more nodes")
    typer.echo(f"The next copy does not fit: {result.message}" if result.message else "Stopped at --limit.")
