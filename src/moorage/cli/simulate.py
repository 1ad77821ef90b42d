"""`moorage simulate`: simulate scheduling on a cluster described in files or in a snapshot."""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from moorage.cli.options import (
    ConfigOption,
    DecisionLogOption,
    GatesOption,
    ObjectFiles,
    PluginPaths,
    QuietOption,
    SnapshotOption,
    VerbosityOption,
    configure_log_level,
    load_cluster,
    load_policy,
    print_json,
    simulation_progress,
)
from moorage.cli.startup import start_lightly
from moorage.common.durations import parse_duration

if TYPE_CHECKING:
    from moorage.cluster import ClusterInput, Run
    from moorage.kube.manifests import Document
    from moorage.scheduler.decisions.attempts import ShowProgress
    from moorage.scheduler.decisions.decision import Decision
    from moorage.scheduler.decisions.group_decisions import GroupDecision
    from moorage.scheduler.wiring.policy import Policy

MAX_DETAILS: Final = 100_000
"""Up to this product of pods and nodes, the table includes how each node was chosen."""


class DecisionFormat(StrEnum):
    """Output formats of decisions."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class NodeSearch(StrEnum):
    """The number of nodes that an attempt examines."""

    ALL = "all"
    CONFIG = "config"


SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KIND/NAME:FIELD=VALUE",
        help="Set a field first, such as deployment/web:spec.replicas=5; may be repeated.",
    ),
]
RemoveNodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove-node",
        metavar="NODE",
        help="Remove nodes first, by name, pattern or label=value; their pods become pending.",
    ),
]
AddNodesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes", metavar="COUNTxSHAPE", help="Add nodes first, such as 3xnode-1 or 3xcpu=8,memory=32Gi."
    ),
]
CompareOption = Annotated[
    Path | None,
    typer.Option("--compare", metavar="FILE", help="Also simulate this configuration, and print the differences."),
]
OnePassOption = Annotated[
    bool,
    typer.Option("--one-pass", help="Try every pending pod once, without preemption and without the passage of time."),
]
SearchOption = Annotated[
    NodeSearch,
    typer.Option(
        "--search", help="With --one-pass: examine all nodes, or only the configured percentageOfNodesToScore."
    ),
]
ForOption = Annotated[
    str,
    typer.Option("--for", metavar="DURATION", help="Virtual time limit, such as 90s or 1h (default: 24h)."),
]
RunForOption = Annotated[
    str,
    typer.Option(
        "--run-for",
        metavar="DURATION",
        help="Run time of pods that are not restarted and have no annotation moorage.io/run-for "
        "(default: 5s for pods of Jobs, unlimited for others).",
    ),
]
NoExtendersOption = Annotated[bool, typer.Option("--no-extenders", help="Ignore the extenders of the configuration.")]
GroupOption = Annotated[
    str, typer.Option("--group-by", metavar="LABEL", help="Group utilization by this label of the nodes.")
]
TimelineOption = Annotated[
    bool, typer.Option("--timeline", help="Print the complete timeline, including pods that did not wait.")
]


def simulate(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    decision_log: DecisionLogOption = None,
    config: ConfigOption = None,
    compare: CompareOption = None,
    set_: SetOption = None,
    remove_node: RemoveNodeOption = None,
    add_nodes: AddNodesOption = None,
    one_pass: OnePassOption = False,
    search: SearchOption = NodeSearch.ALL,
    for_: ForOption = "",
    run_for: RunForOption = "",
    no_extenders: NoExtendersOption = False,
    group_by: GroupOption = "",
    timeline: TimelineOption = False,
    output: Annotated[DecisionFormat, typer.Option("--output", "-o", help="Output format.")] = DecisionFormat.TABLE,
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    quiet: QuietOption = False,
    verbosity: VerbosityOption = None,
) -> None:
    """Simulate scheduling on a cluster described in files.

    The simulation includes the pods of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs. The
    scheduler and the controllers run in virtual time until nothing changes, for at most a day. Pods are
    bound, start, run and end; preemption and backoff are simulated.

    What-if questions: --snapshot loads a saved live cluster, and -f adds objects to it. --set, --remove-node and
    --add-nodes change the cluster first. --compare simulates two configurations.

    With --decision-log, the command prints the decisions of a real scheduler in the same format instead.

    The exit code is 2 for invalid input, and 0 otherwise, even if pods are unschedulable.
    """
    start_lightly()
    configure_log_level(verbosity)
    if decision_log is not None:
        if file or snapshot or compare or one_pass or set_ or remove_node or add_nodes:
            raise typer.BadParameter("--decision-log cannot be combined with a cluster or with what-if options")
        _show(_read_log(decision_log), output, whole_timeline=timeline)
        return
    policy = load_policy(config, plugin, feature_gates)
    if no_extenders:
        policy = _without_extenders(policy, quiet=quiet)
    if one_pass and (for_ or run_for):
        raise typer.BadParameter("--for and --run-for cannot be combined with --one-pass")
    request = _Request(
        one_pass, search, output, _parse_seconds(for_, "--for"), _parse_seconds(run_for, "--run-for"), group_by
    )
    documents = _read_documents(file or [], snapshot, (set_ or (), remove_node or (), add_nodes or ()), quiet=quiet)
    compared_policy = None if compare is None else load_policy(compare, plugin, feature_gates)
    _simulate(request, documents, policy, compared_policy, quiet=quiet, whole_timeline=timeline)


def _simulate(
    request: "_Request",
    documents: "list[Document]",
    policy: "Policy",
    compared_policy: "Policy | None",
    *,
    quiet: bool,
    whole_timeline: bool,
) -> None:
    """Simulate one policy and show the result, or two policies and show the differences."""
    cluster = _build_cluster(documents, policy, one_pass=request.one_pass, quiet=quiet)
    with simulation_progress(shown=not quiet and sys.stderr.isatty()) as progress:
        result = request.run(cluster, policy, progress)
        if compared_policy is not None:
            compared = request.run(cluster, compared_policy, progress)
            _print_differences(result.decisions, compared.decisions, request.output)
            return
    if not quiet:
        _note_custom(cluster)
        _note_refusals(result.refusals)
    _show(result, request.output, whole_timeline=whole_timeline)


def _read_log(path: Path) -> "_Result":
    from moorage.cluster import LoggedRun
    from moorage.scheduler.decisions.decision_log import read_log

    run = LoggedRun(read_log(path)).run()
    return _Result(run.decisions, run, {}, run.more())


def _show(result: "_Result", output: DecisionFormat, *, whole_timeline: bool) -> None:
    if output is DecisionFormat.TABLE:
        _print_tables(result.decisions, result.run, whole_timeline=whole_timeline)
    else:
        _print(result.decisions, result.more, output)


def _note_refusals(refusals: "Mapping[str, str]") -> None:
    for controller, problem in refusals.items():
        typer.echo(f"note: {controller}: rejected by the API server: {problem}", err=True)


class _Request(NamedTuple):
    """How to simulate a cluster."""

    one_pass: bool
    search: NodeSearch
    output: DecisionFormat
    until: float | None
    run_for: float | None
    group_by: str

    def run(self, cluster: "ClusterInput", policy: "Policy", progress: "ShowProgress | None") -> "_Result":
        """Simulate a policy."""
        if self.one_pass:
            decisions, groups = _one_pass(cluster, policy, self.search, self.output, progress)
            return _Result(decisions, None, cluster.refusals, {"groups": groups} if groups else {})
        run = _run(cluster, policy, self.output, (self.until, self.run_for), self.group_by, progress)
        return _Result(run.decisions, run, run.refusals, run.more())


class _Result(NamedTuple):
    """Result of a simulation: the run, if time passed; rejected requests of controllers; further keys of the output."""

    decisions: "list[Decision]"
    run: "Run | None"
    refusals: "Mapping[str, str]"
    more: "Mapping[str, Any]"


def _build_cluster(documents: "list[Document]", policy: "Policy", *, one_pass: bool, quiet: bool) -> "ClusterInput":
    from moorage.cluster import add_workload_pods, cluster_of

    cluster = cluster_of(documents, features=policy.features)
    if not quiet:
        _note_ignored(cluster)
    return add_workload_pods(cluster, policy.features) if one_pass else cluster


def _read_documents(
    files: "list[str]", snapshot: str, changes: "tuple[Sequence[str], Sequence[str], Sequence[str]]", *, quiet: bool
) -> "list[Document]":
    """Read a snapshot, files, or both; then apply the changes."""
    from moorage.insight import apply_changes
    from moorage.kube.manifests import read_files

    if not files and not snapshot:
        raise typer.BadParameter("no cluster given; add -f FILE or --snapshot FILE")
    documents = [] if not snapshot else load_cluster(None, snapshot, "", "", quiet=quiet).documents
    documents += read_files(files)
    settings, removed, added = changes
    return apply_changes(documents, settings=settings, removed=removed, added=added)


def _print_differences(before: "list[Decision]", after: "list[Decision]", output: DecisionFormat) -> None:
    from moorage.insight import compare_decisions

    changed_pods = compare_decisions(before, after)
    if output is not DecisionFormat.TABLE:
        print_json({"differences": changed_pods})
        return
    if changed_pods:
        pod_width = max(len(item.pod) for item in changed_pods)
        before_width = max(len(item.before) for item in changed_pods)
        for item in changed_pods:
            typer.echo(f"{item.pod:<{pod_width}}  {item.before:<{before_width}}  →  {item.after}")
    typer.echo(f"{len(changed_pods)} of {len(before)} pods differ")


def _without_extenders(policy: "Policy", *, quiet: bool) -> "Policy":
    extenders = policy.config.extenders
    if not extenders:
        return policy
    from msgspec.structs import replace

    if not quiet:
        typer.echo(f"note: ignoring {len(extenders)} extenders of the configuration", err=True)
    return replace(policy, config=replace(policy.config, extenders=()))


def _parse_seconds(text: str, where: str) -> float | None:
    if not text:
        return None
    seconds = parse_duration(text, where=where)
    if seconds <= 0:
        from moorage.common.errors import InputError

        raise InputError(where, f"{text!r} is not a positive duration", hint="use a duration such as 90s, 10m or 1h30m")
    return seconds


def _one_pass(
    cluster: "ClusterInput",
    policy: "Policy",
    search: NodeSearch,
    output: DecisionFormat,
    progress: "ShowProgress | None",
) -> "tuple[list[Decision], list[GroupDecision]]":
    from moorage.cluster import DryRun

    in_detail = _is_in_detail(cluster, output)
    one_pass = DryRun(cluster, policy, search_all=search is NodeSearch.ALL, with_nodes=in_detail)
    return one_pass.run(progress), one_pass.groups


def _run(
    cluster: "ClusterInput",
    policy: "Policy",
    output: DecisionFormat,
    times: tuple[float | None, float | None],
    group_by: str,
    progress: "ShowProgress | None",
) -> "Run":
    from moorage.cluster import Pace, simulate

    until, run_for = times
    return simulate(
        cluster,
        policy,
        with_nodes=_is_in_detail(cluster, output),
        pace=None if run_for is None else Pace(run=run_for, run_job=run_for),
        until=until,
        group_by=group_by,
        progress=progress,
    )


def _is_in_detail(cluster: "ClusterInput", output: DecisionFormat) -> bool:
    return output is not DecisionFormat.TABLE or len(cluster.nodes) * cluster.expected_pods <= MAX_DETAILS


def _note_ignored(cluster: "ClusterInput") -> None:
    if cluster.ignored:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(cluster.ignored.items()))
        typer.echo(f"note: ignored objects that do not affect scheduling: {counts}", err=True)
    for title, problem in cluster.selecting.items():
        typer.echo(f"note: {title} creates no pods; the API server would reject it: {problem}", err=True)


def _note_custom(cluster: "ClusterInput") -> None:
    """Print notes on custom resources; the plugins have registered their kinds only after the run."""
    from moorage.cluster import notes_on

    for note in notes_on(cluster.custom, cluster.definitions):
        typer.echo(f"note: {note}", err=True)


def _print(decisions: "list[Decision]", more: "Mapping[str, Any]", output: DecisionFormat) -> None:
    from moorage.scheduler.decisions.decision import to_json, to_yaml

    if output is DecisionFormat.JSON:
        typer.echo(to_json(decisions, indent=2, more=more))
    else:
        typer.echo(to_yaml(decisions, more=more), nl=False)


def _print_tables(decisions: "list[Decision]", run: "Run | None", *, whole_timeline: bool) -> None:
    from rich.console import Console

    from moorage.cluster import print_run
    from moorage.scheduler.decisions.printing import print_decisions, summary

    console = Console()
    print_decisions(decisions, console)
    if run is not None:
        print_run(run, console, whole_timeline=whole_timeline)
    console.print(summary(decisions), highlight=False)
