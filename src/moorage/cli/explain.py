"""`moorage explain`: why a pod is pending or on its node, and which changes would make it fit."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.options import (
    ConfigOption,
    ContextOption,
    DecisionLogOption,
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
from moorage.common.durations import parse_duration

if TYPE_CHECKING:
    from moorage.insight import LoadedCluster, PodExplanation, Session, WorkloadExplanation

PodArgument = Annotated[
    str, typer.Argument(metavar="POD", help="NAME, NAMESPACE/NAME, or a workload: deployment/NAME, job/NAME, ...")
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the pod or workload.")
]
NodeOption = Annotated[
    str,
    typer.Option("--node", metavar="NAME", help="Explain why the pod is not on this node, and suggest changes."),
]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Time limit for the search for changes.")
]


class ExplanationFormat(StrEnum):
    """Output formats of an explanation."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def explain(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    pod: PodArgument,
    namespace: NamespaceOption = "",
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    decision_log: DecisionLogOption = None,
    config: ConfigOption = None,
    node: NodeOption = "",
    output: Annotated[
        ExplanationFormat, typer.Option("--output", "-o", help="Output format.")
    ] = ExplanationFormat.TEXT,
    timeout: TimeoutOption = "10s",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
    quiet: QuietOption = False,
) -> None:
    """Explain why a pod is pending, and suggest changes that make it fit.

    For a pod on a node, the command explains why the scheduler prefers that node. The cluster is the live one that
    kubectl uses, a snapshot, or files. The command never writes to it. Every suggested change was tried: the plugins
    of the scheduler accept the pod on the changed cluster.

    With --decision-log, the command prints the logged attempts of the pod instead, even if the pod is gone.

    The exit code is 0 whether or not the pod fits, and 2 for invalid input.
    """
    start_lightly()
    configure_trial_logs(verbosity)
    if decision_log is not None:
        if file or snapshot or kubeconfig or context or output is ExplanationFormat.HTML:
            hint = "omit -f, --snapshot, --kubeconfig, --context and -o html"
            raise typer.BadParameter(f"--decision-log does not read a cluster: {hint}")
        _print_attempts(decision_log, pod, namespace or "default", as_json=output is ExplanationFormat.JSON)
        return
    policy = load_policy(config, plugin, feature_gates)
    cluster = load_cluster(file, snapshot, kubeconfig, context, quiet=quiet)
    if implied_gates := _find_implied_gates(cluster, feature_gates or []):
        policy = load_policy(config, plugin, [*(feature_gates or []), *implied_gates])
        if not quiet:
            typer.echo(
                f"note: the cluster has pod groups; assuming --feature-gates {','.join(implied_gates)}", err=True
            )
    seconds = parse_duration(timeout, where="--timeout")
    with cluster.session(policy) as session:
        explanation = _explain(session, pod, namespace or cluster.namespace, node, seconds)
    _print(explanation, output, node)


def _print_attempts(log: Path, name: str, namespace: str, *, as_json: bool) -> None:
    """Print the logged attempts of a pod; raise InputError if the log has none."""
    from moorage.common.errors import InputError, did_you_mean
    from moorage.scheduler.decisions.decision import to_json
    from moorage.scheduler.decisions.decision_log import read_log
    from moorage.scheduler.decisions.printing import history_lines

    key = name.removeprefix("pod/")
    key = key if "/" in key else f"{namespace}/{key}"
    lines = list(read_log(log))
    attempts = [line for line in lines if line.pod == key]
    if not attempts:
        hint = did_you_mean(key, {line.pod for line in lines}) or "use NAMESPACE/NAME for a pod of another namespace"
        raise InputError(str(log), f"the log has no attempts of a pod named {key}", hint=hint)
    if as_json:
        sys.stdout.buffer.write(to_json(attempts, indent=2) + b"\n")
        return
    for line in history_lines(key, attempts):
        typer.echo(line)


def _find_implied_gates(cluster: "LoadedCluster", requested: list[str]) -> list[str]:
    """List the feature gates that the cluster must have enabled, unless the command line sets them."""
    from moorage.insight import find_implied_gates
    from moorage.kube.features import assignments

    already_set = {name for name, _ in assignments(*requested)}
    prefix = "kube:" if ":" in ",".join(requested) else ""
    return [f"{prefix}{name}=true" for name in find_implied_gates(cluster.documents) if name not in already_set]


def _explain(
    session: "Session", name: str, namespace: str, node: str, seconds: float
) -> "PodExplanation | WorkloadExplanation":
    from moorage.common.errors import InputError
    from moorage.insight import explain_pod, explain_workload, find_workload

    workload = find_workload(session, name, namespace)
    if workload is not None:
        if node:
            raise InputError(f"--node {node}", "only supported for a single pod", hint=f"name a pod instead of {name}")
        return explain_workload(session, workload, seconds=seconds)
    key = name.removeprefix("pod/")
    return explain_pod(session, key if "/" in key else f"{namespace}/{key}", node=node, seconds=seconds)


def _print(explanation: "PodExplanation | WorkloadExplanation", output: ExplanationFormat, node: str) -> None:
    if output is ExplanationFormat.JSON:
        print_json(explanation.as_data())
        return
    if output is ExplanationFormat.HTML:
        from moorage.insight import html_page

        sys.stdout.write(html_page(explanation, node=node))
        return
    from rich.console import Console

    from moorage.insight import PodExplanation, print_explanation, print_workload

    console = Console(soft_wrap=not sys.stdout.isatty())
    if isinstance(explanation, PodExplanation):
        print_explanation(explanation, console, node=node)
    else:
        print_workload(explanation, console)
