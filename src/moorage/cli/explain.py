"""`moorage explain`: why a pod is pending or on its node, and which changes would make it fit."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from moorage.insight import LoadedCluster, PodExplanation, Session, WorkloadExplanation
    from moorage.scheduler.wiring.policy import Policy

PodName = Annotated[
    str, typer.Argument(metavar="POD", help="NAME, NAMESPACE/NAME, or a workload: deployment/NAME, job/NAME, ...")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the pod or workload.")]
NodeName = Annotated[
    str,
    typer.Option("--node", metavar="NAME", help="Explain why the pod is not on this node, and suggest changes."),
]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Time limit of the search for changes.")]


Verbosity = Annotated[
    int | None,
    typer.Option(
        *("-v", "--v"),
        parser=options.parse_level,
        metavar="LEVEL",
        help="1 prints all reasons, changes and events; 2 to 10 also set the log verbosity.",
    ),
]


class ExplanationFormat(StrEnum):
    """Output formats of an explanation."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


Output = Annotated[ExplanationFormat, typer.Option("--output", "-o", help="Output format.")]


def explain(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    pod: PodName,
    namespace: Namespace = "",
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    decision_log: options.DecisionLog = None,
    config: options.LiveConfig = None,
    node: NodeName = "",
    output: Output = ExplanationFormat.TEXT,
    timeout: Timeout = "10s",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: Verbosity = None,
    quiet: options.Quiet = False,
) -> None:
    """Explain why a pod is pending, and suggest changes that make it fit.

    For a scheduled pod, the command compares its node with the best alternative. The cluster is the live one that
    kubectl uses, a snapshot, or files. Nothing is written to it. Every suggested change was tried: the plugins of the
    scheduler accept the pod on the changed cluster.

    The text is at most one screen long. -v 1 prints all reasons and changes, and the events that trigger a retry.

    To print the logged attempts of the pod instead, even if the pod was deleted, add --decision-log.

    The exit code is 0 whether or not the pod fits, and 2 for invalid input.
    """
    start_lightly()
    options.configure_trial_logs(verbosity if verbosity != 1 else None)
    if decision_log is not None:
        if file or snapshot or kubeconfig or context or output is ExplanationFormat.HTML:
            hint = "omit -f, --snapshot, --kubeconfig, --context and -o html"
            raise InputError("--decision-log", "cannot be combined with a cluster or with HTML output", hint=hint)
        _print_attempts(decision_log, pod, namespace or "default", as_json=output is ExplanationFormat.JSON)
        return
    cluster = options.load_cluster(file, snapshot, kubeconfig, context, quiet=quiet)
    gates = options.GateFlags(feature_gates, emulated_version)
    policy = load_cluster_policy(cluster, config, plugin, gates, quiet=quiet)
    from moorage.common.durations import parse_duration

    seconds = parse_duration(timeout, where="--timeout")
    with options.prints_to_stderr(), cluster.session(policy) as session:
        explanation = _explain(session, pod, namespace or cluster.namespace, node, seconds)
    _print(explanation, output, node, is_verbose=bool(verbosity))


def _print_attempts(log: Path, name: str, namespace: str, *, as_json: bool) -> None:
    """Print the logged attempts of a pod. Raise InputError if the log has none."""
    from moorage.scheduler.decisions.decision import json_chunks
    from moorage.scheduler.decisions.decision_log import read_log
    from moorage.scheduler.decisions.printing import history_lines

    key = _pod_key(name, namespace)
    lines = list(read_log(log))
    attempts = [line for line in lines if line.pod == key]
    if not attempts:
        hint = did_you_mean(key, {line.pod for line in lines}) or "use NAMESPACE/NAME for a pod of another namespace"
        raise InputError(str(log), f"the log has no attempts of a pod named {key}", hint=hint)
    if as_json:
        options.print_chunks(json_chunks(attempts))
        return
    for line in history_lines(key, attempts):
        typer.echo(line)


def _pod_key(name: str, namespace: str) -> str:
    key = name.removeprefix("pod/")
    return key if "/" in key else f"{namespace}/{key}"


def load_cluster_policy(
    cluster: "LoadedCluster", config: Path | None, plugin: list[str] | None, gates: options.GateFlags, *, quiet: bool
) -> "Policy":
    """Return the policy of the options; enable the feature gates that the objects of the cluster imply."""
    policy = options.load_live_policy(config, cluster, plugin, gates, quiet=quiet)
    requested = gates.gates or []
    implied = find_missing_gates(cluster, policy, requested)
    if not implied:
        return policy
    options.print_note(f"the cluster has pod groups; assuming --feature-gates {','.join(implied)}", quiet=quiet)
    return options.load_live_policy(config, cluster, plugin, gates._replace(gates=[*requested, *implied]), quiet=True)


def find_missing_gates(cluster: "LoadedCluster", policy: "Policy", requested: list[str]) -> list[str]:
    """List the disabled feature gates that the cluster must have enabled, unless the command line sets them."""
    from moorage.insight import find_implied_gates
    from moorage.kube.features import assignments

    already_set = {name for name, _ in assignments(*requested)}
    disabled = [name for name in find_implied_gates(cluster.documents) if not policy.features.enabled(name)]
    prefix = "kube:" if ":" in ",".join(requested) else ""
    return [f"{prefix}{name}=true" for name in disabled if name not in already_set]


def _explain(
    session: "Session", name: str, namespace: str, node: str, seconds: float
) -> "PodExplanation | WorkloadExplanation":
    from moorage.insight import EXPLAINED, explain_pod, explain_workload, find_workload

    workload = find_workload(session, name, namespace, kinds=EXPLAINED)
    if workload is None:
        return explain_pod(session, _pod_key(name, namespace), node=node, seconds=seconds)
    if node:
        raise InputError(f"--node {node}", "only supported for a single pod", hint=f"name a pod instead of {name}")
    return explain_workload(session, workload, seconds=seconds)


def _print(
    explanation: "PodExplanation | WorkloadExplanation", output: ExplanationFormat, node: str, *, is_verbose: bool
) -> None:
    if output is ExplanationFormat.JSON:
        options.print_json(explanation.as_data())
        return
    if output is ExplanationFormat.HTML:
        from moorage.insight import html_page

        sys.stdout.write(html_page(explanation, node=node))
        return
    from rich.console import Console

    from moorage.insight import PodExplanation, print_explanation, print_workload

    console = Console(soft_wrap=not sys.stdout.isatty())
    if isinstance(explanation, PodExplanation):
        print_explanation(explanation, console, node=node, is_verbose=is_verbose)
    else:
        print_workload(explanation, console, is_verbose=is_verbose)
