"""`moorage explain`: why a pod waits or is where it is, and what would make it fit."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.shared import (
    ConfigOption,
    ContextOption,
    DecisionLogOption,
    GatesOption,
    KubeconfigOption,
    NamespaceOption,
    ObjectFiles,
    PluginPaths,
    SnapshotOption,
    VerbosityOption,
    load_source,
    log_trials_as_asked,
    policy_of,
)
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.insight.explain.explanation import PodExplanation, WorkloadExplanation
    from moorage.insight.whatif.session import Session
    from moorage.insight.whatif.sources import LoadedCluster


class PageFormat(StrEnum):
    """How an explanation is printed."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def explain(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    pod: Annotated[str, typer.Argument(metavar="POD", help="NAME, NAMESPACE/NAME, or deployment/NAME, job/NAME, ...")],
    namespace: NamespaceOption = "",
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    decision_log: DecisionLogOption = None,
    config: ConfigOption = None,
    node: Annotated[str, typer.Option("--node", help="Why not on this node, and what would make it fit there.")] = "",
    output: Annotated[PageFormat, typer.Option("--output", "-o", help="How to print it.")] = PageFormat.TEXT,
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="How long to look for changes.")] = 10.0,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
) -> None:
    """Say why a pod is pending, or why it is where it is, and which smallest changes would make it fit.

    The cluster is the live one that kubectl uses (it is only read), a snapshot, or files. Every change that is named
    was tried: the real plugins agreed to it on the changed cluster. Exit code 0 whether or not the pod fits; 2 for a
    mistake in what was given.

    With --decision-log it tells what was decided on the pod instead, attempt by attempt, also if the pod is gone.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    if decision_log is not None:
        from moorage.cli.logged import explain_logged

        if file or snapshot or kubeconfig or context or output is PageFormat.HTML:
            hint = "leave -f, --snapshot, --kubeconfig and -o html out"
            raise typer.BadParameter(f"with --decision-log there is no cluster to look at: {hint}")
        explain_logged(decision_log, pod, namespace or "default", as_json=output is PageFormat.JSON)
        return
    policy = policy_of(config, plugin, feature_gates)
    cluster = load_source(file, snapshot, kubeconfig, context, quiet=quiet)
    if shown := _gates_shown(cluster, feature_gates or []):
        policy = policy_of(config, plugin, [*(feature_gates or []), *shown])
        if not quiet:
            typer.echo(f"note: there are groups of pods, so they are judged with {','.join(shown)}", err=True)
    with cluster.session(policy) as session:
        explained = _explained(session, pod, namespace or cluster.namespace, node, seconds)
    _print(explained, output, node)


def _gates_shown(cluster: "LoadedCluster", given: list[str]) -> list[str]:
    """Switch on what the cluster must have switched on, unless the command line says something of it."""
    from moorage.insight.whatif.sources import gates_shown
    from moorage.kube.features import assignments

    said = {name for name, _ in assignments(*given)}
    prefix = "kube:" if ":" in ",".join(given) else ""
    return [f"{prefix}{name}=true" for name in gates_shown(cluster.documents) if name not in said]


def _explained(
    session: "Session", wanted: str, namespace: str, node: str, seconds: float
) -> "PodExplanation | WorkloadExplanation":
    from moorage.common.errors import InputError
    from moorage.insight.explain.explain import explain_pod
    from moorage.insight.explain.workloads import explain_workload, workload_named

    workload = workload_named(session, wanted, namespace)
    if workload is not None:
        if node:
            raise InputError(f"--node {node}", "it is about one pod", hint=f"name a pod instead of {wanted}")
        return explain_workload(session, workload, seconds=seconds)
    key = wanted.removeprefix("pod/") if wanted.startswith("pod/") else wanted
    return explain_pod(session, key if "/" in key else f"{namespace}/{key}", node=node, seconds=seconds)


def _print(explained: "PodExplanation | WorkloadExplanation", output: PageFormat, node: str) -> None:
    if output is PageFormat.JSON:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(explained.as_data()), indent=2) + b"\n")
        return
    if output is PageFormat.HTML:
        from moorage.insight.explain.html import html_page

        sys.stdout.write(html_page(explained, node=node))
        return
    from rich.console import Console

    from moorage.insight.explain.explanation import PodExplanation
    from moorage.insight.explain.page import print_explanation, print_workload

    console = Console(soft_wrap=not sys.stdout.isatty())
    if isinstance(explained, PodExplanation):
        print_explanation(explained, console, node=node)
    else:
        print_workload(explained, console)
