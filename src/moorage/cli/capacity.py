"""`moorage capacity`: how many more copies of a pod fit."""

from typing import Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly

MAX_LISTED = 20

PodFile = Annotated[
    str, typer.Argument(metavar="POD_FILE", help="Manifest of a Pod, or of a workload with a pod template.")
]
Limit = Annotated[
    int,
    typer.Option(
        "--limit", metavar="NUMBER", parser=options.number(1, 1_000_000), help="Stop counting at this number."
    ),
]


def capacity(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    pod_file: PodFile,
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    config: options.LiveConfig = None,
    limit: Limit = 10_000,
    output: options.Answer = options.AnswerFormat.TEXT,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: options.Verbosity = None,
    quiet: options.Quiet = False,
) -> None:
    """Count how many more copies of a pod fit.

    Prints the nodes of the copies, and the reason why the next copy does not fit. The scheduler places
    one copy after the other. No pod is preempted, and nothing is written to the cluster.

    The cluster is read from files (-f), from a snapshot, or from the live cluster that kubectl uses.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.insight import count_replicas, template_pods
    from moorage.kube.manifests import read_files

    pod, *ignored_pods = template_pods(read_files([pod_file]), source=pod_file)
    if ignored_pods:
        options.print_note(
            f"{pod_file} has {len(ignored_pods) + 1} pods; {pod['metadata'].get('name', 'the first one')} is used",
            quiet=quiet,
        )
    cluster = options.load_cluster(file, snapshot, kubeconfig, context, quiet=quiet)
    policy = options.load_live_policy(
        config, cluster, plugin, options.GateFlags(feature_gates, emulated_version), quiet=quiet
    )
    with options.prints_to_stderr(), cluster.session(policy) as session:
        result = count_replicas(session, pod, most=limit)
    if output is options.AnswerFormat.JSON:
        options.print_json(result)
        return
    copies = "copy of {} fits" if result.fits == 1 else "copies of {} fit"
    typer.echo(f"{result.fits} more {copies.format(result.pod)}")
    ranked = sorted(result.nodes.items(), key=lambda item: -item[1])
    for node, count in ranked[:MAX_LISTED]:
        typer.echo(f"  {count:>6}  {node}")
    if len(ranked) > MAX_LISTED:
        typer.echo(f"  and {len(ranked) - MAX_LISTED} more nodes")
    typer.echo(f"The next copy does not fit: {result.message}" if result.message else "Stopped at --limit.")
