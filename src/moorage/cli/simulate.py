"""`moorage simulate`: simulate scheduling on a cluster described in files or in a snapshot."""

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError

if TYPE_CHECKING:
    from moorage.cluster import ClusterInput, Run
    from moorage.kube.manifests import Document
    from moorage.scheduler.decisions.decision import Decision
    from moorage.scheduler.wiring.policy import Policy

MAX_DETAILS: Final = 100_000
"""Up to this product of pods and nodes, the table includes how each node was chosen."""


class DecisionFormat(StrEnum):
    """Output formats of decisions."""

    TEXT = "text"
    TABLE = "table"  # alias
    JSON = "json"
    YAML = "yaml"


class NodeSearch(StrEnum):
    """The number of nodes that an attempt examines."""

    ALL = "all"
    CONFIG = "config"


Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KIND/NAME:FIELD=VALUE",
        help="Before the simulation, set a field, such as deployment/web:spec.replicas=5; may be repeated.",
    ),
]
RemovedNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--remove-node",
        metavar="NODE",
        help="Before the simulation, remove nodes by name, pattern or label=value; their pods become pending.",
    ),
]
AddedNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes",
        metavar="COUNTxSHAPE",
        help="Before the simulation, add nodes, such as 3xnode-1 or 3xcpu=8,memory=32Gi.",
    ),
]
Compare = Annotated[
    Path | None,
    typer.Option("--compare", metavar="FILE", help="Also simulate this configuration, and print the differences."),
]
OnePass = Annotated[
    bool,
    typer.Option("--one-pass", help="Try every pending pod once; no preemption, and no time passes."),
]
Search = Annotated[
    NodeSearch | None,
    typer.Option(
        "--search",
        help="With --one-pass: examine all nodes, or only the configured percentageOfNodesToScore (default: all).",
    ),
]
PodRunTime = Annotated[
    str,
    typer.Option(
        "--run-for",
        metavar="DURATION",
        help="Run time of pods with restartPolicy Never or OnFailure that have no moorage.io/run-for annotation "
        "(default: 5s for pods of Jobs, unlimited for others).",
    ),
]
NoExtenders = Annotated[bool, typer.Option("--no-extenders", help="Ignore the extenders of the configuration.")]
GroupBy = Annotated[str, typer.Option("--group-by", metavar="LABEL", help="Group utilization by this node label.")]
Timeline = Annotated[
    bool, typer.Option("--timeline", help="Print the complete timeline, including pods that did not wait.")
]
Output = Annotated[
    DecisionFormat,
    typer.Option(
        "--output",
        "-o",
        callback=lambda chosen: DecisionFormat.TEXT if chosen == "table" else chosen,
        help="Output format; table is the same as text.",
    ),
]


def simulate(  # noqa: PLR0913, PLR0915, PLR0917 - the parameters of a command are its options, each handled here
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    decision_log: options.DecisionLog = None,
    config: options.Config = None,
    compare: Compare = None,
    set_: Settings = None,
    remove_node: RemovedNodes = None,
    add_nodes: AddedNodes = None,
    one_pass: OnePass = False,
    search: Search = None,
    for_: options.SimulateFor = "",
    run_for: PodRunTime = "",
    no_extenders: NoExtenders = False,
    group_by: GroupBy = "",
    timeline: Timeline = False,
    output: Output = DecisionFormat.TEXT,
    plugin: options.Plugins = None,
    plugin_timeout: options.PluginTimeout = "",
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    quiet: options.Quiet = False,
    verbosity: options.Verbosity = None,
) -> None:
    """Simulate scheduling on a cluster described in files.

    The simulation includes the pods of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs. The
    scheduler and the controllers run in virtual time until nothing changes, or until the limit of --for. Pods are
    bound, start, run and end. Preemption and backoff are simulated.

    What-if questions: --snapshot loads a saved live cluster, and -f adds objects to it. --set, --remove-node and
    --add-nodes change the cluster first. --compare simulates two configurations.

    With --decision-log FILE, nothing is simulated: the logged decisions are printed in the same format.

    The exit code is 2 for invalid input, 1 if an attempt ended in an error, for example because a plugin raised an
    exception, and 0 otherwise, even if pods are unschedulable.
    """
    start_lightly()
    options.configure_log_level(verbosity)
    from moorage.cluster import DryRun, Pace, add_workload_pods, cluster_from_documents, format_seconds
    from moorage.cluster import simulate as run_simulation
    from moorage.insight import apply_changes

    if decision_log is not None:
        if file or snapshot or compare or one_pass or set_ or remove_node or add_nodes:
            hint = "omit -f, --snapshot, --compare, --one-pass, --set, --remove-node and --add-nodes"
            raise InputError("--decision-log", "cannot be combined with a cluster or with what-if options", hint=hint)
        _print_log(decision_log, output, whole_timeline=timeline)
        return
    load = partial(
        options.load_policy,
        plugins=plugin,
        gates=options.GateFlags(feature_gates, emulated_version),
        plugin_timeout=plugin_timeout,
    )
    policy = load(config)
    if no_extenders and policy.config.extenders:
        policy = _without_extenders(policy, quiet=quiet)
    if one_pass and (for_ or run_for):
        raise InputError("--one-pass", "cannot be combined with --for or --run-for", hint="no time passes in one pass")
    if search is not None and not one_pass:
        raise InputError("--search", "needs --one-pass")
    until, run_seconds = options.parse_seconds(for_, "--for"), options.parse_seconds(run_for, "--run-for")
    documents = _read_documents(file, snapshot, quiet=quiet)
    documents = apply_changes(documents, settings=set_ or (), removed=remove_node or (), added=add_nodes or ())
    compared_policy = None if compare is None else load(compare)
    cluster = cluster_from_documents(documents, features=policy.features)
    _print_ignored(cluster, quiet=quiet)
    _print_foreign(cluster, policy, quiet=quiet)
    if one_pass:
        cluster = add_workload_pods(cluster, policy.features)
    with_nodes = output is not DecisionFormat.TEXT or len(cluster.nodes) * cluster.expected_pods <= MAX_DETAILS
    run: Run | None = None
    results: list[list[Decision]] = []
    faults: list[str] = []
    more: Mapping[str, Any] = {}
    with options.simulation_progress(quiet=quiet) as progress, options.prints_to_stderr():
        for simulated in (policy,) if compared_policy is None else (policy, compared_policy):
            if one_pass:
                dry_run = DryRun(cluster, simulated, search_all=search is not NodeSearch.CONFIG, with_nodes=with_nodes)
                results.append(dry_run.run(progress))
                faults += dry_run.faults
                more = {"groups": dry_run.groups} if dry_run.groups else {}
                continue
            run = run_simulation(
                cluster,
                simulated,
                with_nodes=with_nodes,
                pace=None if run_seconds is None else Pace(run=run_seconds, run_job=run_seconds),
                until=until,
                group_by=group_by,
                progress=progress,
            )
            results.append(run.decisions)
            faults += run.faults
            more = run.more()
    if compared_policy is not None:
        _print_differences(results[0], results[1], output)
    else:
        _print_notes(cluster, cluster.refusals if run is None else run.refusals, quiet=quiet)
        if run is not None and not run.is_quiet and until is None:
            note = f"stopped after {format_seconds(run.seconds)} of virtual time; controllers were still writing"
            options.print_note(f"{note}; --for sets the limit", quiet=quiet)
        _print(results[0], run, more, output, whole_timeline=timeline)
    _exit_on_errors(results, faults)


def _exit_on_errors(results: "list[list[Decision]]", faults: list[str]) -> None:
    """Print the faults of plugins that no decision shows. Exit with 1 after these and after failed attempts."""
    messages = {decision.message for decisions in results for decision in decisions if decision.result == "error"}
    for fault in dict.fromkeys(faults):
        if not any(fault in message for message in messages):
            typer.echo(f"error: {fault}", err=True)
    if messages or faults:
        raise typer.Exit(1)


def _print_log(path: Path, output: DecisionFormat, *, whole_timeline: bool) -> None:
    from moorage.cluster import LoggedRun
    from moorage.scheduler.decisions.decision_log import read_log

    run = LoggedRun(read_log(path)).run()
    _print(run.decisions, run, run.more(), output, whole_timeline=whole_timeline)


def _read_documents(files: list[str] | None, snapshot: str, *, quiet: bool) -> "list[Document]":
    """Read a snapshot, files, or both."""
    from moorage.kube.manifests import describe_unknown_fields, read_files

    if not files and not snapshot:
        raise InputError("moorage simulate", "no cluster specified", hint="add -f FILE or --snapshot FILE")
    documents = [] if not snapshot else options.load_cluster(None, snapshot, "", "", quiet=quiet).documents
    objects = list(read_files(files or ()))
    if note := describe_unknown_fields(objects):
        options.print_note(note, quiet=quiet)
    return [*documents, *objects]


def _without_extenders(policy: "Policy", *, quiet: bool) -> "Policy":
    from msgspec.structs import replace

    options.print_note(f"ignoring {len(policy.config.extenders)} extenders of the configuration", quiet=quiet)
    return replace(policy, config=replace(policy.config, extenders=()))


def _print_ignored(cluster: "ClusterInput", *, quiet: bool) -> None:
    if cluster.ignored:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(cluster.ignored.items()))
        options.print_note(f"ignored objects that do not affect scheduling: {counts}", quiet=quiet)
    for title, problem in cluster.selecting.items():
        options.print_note(f"{title} creates no pods; the API server would reject it: {problem}", quiet=quiet)


def _print_foreign(cluster: "ClusterInput", policy: "Policy", *, quiet: bool) -> None:
    """Print the pending pods that no profile schedules."""
    names = {profile.scheduler_name for profile in policy.config.profiles}
    for pod in cluster.pending:
        if pod.scheduler_name not in names:
            note = f"{pod.key}: another scheduler is responsible (schedulerName {pod.scheduler_name})"
            options.print_note(note, quiet=quiet)


def _print_notes(cluster: "ClusterInput", refusals: Mapping[str, str], *, quiet: bool) -> None:
    """Print notes on custom resources (plugins register their kinds before the run) and on rejected requests."""
    from moorage.cluster import list_notes

    for note in list_notes(cluster.custom, cluster.definitions):
        options.print_note(note, quiet=quiet)
    for controller, problem in refusals.items():
        options.print_note(f"{controller}: rejected by the API server: {problem}", quiet=quiet)


def _print_differences(before: "list[Decision]", after: "list[Decision]", output: DecisionFormat) -> None:
    from moorage.insight import compare_decisions

    changed_pods = compare_decisions(before, after)
    if output is not DecisionFormat.TEXT:
        options.print_json({"differences": changed_pods})
        return
    pod_width = max((len(item.pod) for item in changed_pods), default=0)
    before_width = max((len(item.before) for item in changed_pods), default=0)
    for item in changed_pods:
        typer.echo(f"{item.pod:<{pod_width}}  {item.before:<{before_width}}  →  {item.after}")
    typer.echo(f"{len(changed_pods)} of {len(before)} pods differ")


def _print(
    decisions: "list[Decision]",
    run: "Run | None",
    more: Mapping[str, Any],
    output: DecisionFormat,
    *,
    whole_timeline: bool,
) -> None:
    """Print decisions. ``more`` has further keys of the JSON and YAML output."""
    from moorage.scheduler.decisions.decision import json_chunks, yaml_chunks

    if output is not DecisionFormat.TEXT:
        write = json_chunks if output is DecisionFormat.JSON else yaml_chunks
        options.print_chunks(write(decisions, more))
        return
    from rich.console import Console

    from moorage.cluster import print_run
    from moorage.scheduler.decisions.printing import print_decisions, summary

    console = Console()
    print_decisions(decisions, console)
    if run is not None:
        print_run(run, console, whole_timeline=whole_timeline)
    console.print(summary(decisions), highlight=False)
