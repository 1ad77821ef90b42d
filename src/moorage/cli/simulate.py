"""`moorage simulate`: what the scheduler would do with a cluster described in files."""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from moorage.cli.shared import (
    ConfigOption,
    DecisionLogOption,
    GatesOption,
    ObjectFiles,
    PluginPaths,
    SnapshotOption,
    VerbosityOption,
    load_source,
    log_as_asked,
    policy_of,
    simulation_progress,
)
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.cluster import ClusterInput, Run
    from moorage.kube.manifests import Document
    from moorage.scheduler.decisions.attempts import ShowProgress
    from moorage.scheduler.decisions.decision import Decision
    from moorage.scheduler.decisions.group_decisions import GroupDecision
    from moorage.scheduler.wiring.policy import Policy

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


SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KIND/NAME:FIELD=VALUE", help="Change a field: deployment/web:spec.replicas=5."),
]
RemoveNodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--remove-node", metavar="NODE", help="Take nodes away, by name, pattern or key=value; their pods wait again."
    ),
]
AddNodesOption = Annotated[
    list[str] | None,
    typer.Option("--add-nodes", metavar="COUNTxSHAPE", help="Add nodes: 3xnode-1 or 3xcpu=8,memory=32Gi."),
]
CompareOption = Annotated[
    Path | None,
    typer.Option("--compare", metavar="CONFIG", help="Run under this configuration as well, and print what differs."),
]
OnePassOption = Annotated[
    bool,
    typer.Option(
        "--one-pass", help="Try every pending pod once, those that workloads begin with included; carry nothing out."
    ),
]
SearchOption = Annotated[
    NodeSearch,
    typer.Option("--search", help="With --one-pass: every node, or as percentageOfNodesToScore says."),
]
UntilOption = Annotated[
    str,
    typer.Option("--until", metavar="DURATION", help="Stop when so much virtual time has passed, such as 90s or 1h."),
]
RunForOption = Annotated[
    str,
    typer.Option(
        "--run-for",
        metavar="DURATION",
        help="How long pods run that are not restarted and have no annotation moorage.io/run-for; "
        "else those of Jobs run 5s, and others for ever.",
    ),
]
NoExtendersOption = Annotated[
    bool, typer.Option("--no-extenders", help="Do without the extenders of the configuration.")
]
GroupOption = Annotated[
    str, typer.Option("--group-by", metavar="LABEL", help="Sum utilisation up by the value of a label of nodes.")
]
TimelineOption = Annotated[
    bool, typer.Option("--timeline", help="Print all of the timeline, pods that did not wait included.")
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
    until: UntilOption = "",
    run_for: RunForOption = "",
    no_extenders: NoExtendersOption = False,
    group_by: GroupOption = "",
    timeline: TimelineOption = False,
    output: Annotated[DecisionFormat, typer.Option("--output", "-o", help="How to print it.")] = DecisionFormat.TABLE,
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
    verbosity: VerbosityOption = None,
) -> None:
    """Place the pods of a described cluster and say where each went, or why it did not.

    Pending pods are placed, and so are those of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs,
    which the embedded cluster's controllers make. The scheduler runs in virtual time until nothing more would change,
    a day at most: preemption is carried out, pods are bound, start, run and end, backoff elapses.

    What if: --snapshot takes a live cluster that was saved, and -f adds to it; --set, --remove-node and --add-nodes
    change it first; --compare runs it under two configurations.

    With --decision-log nothing is simulated: what a scheduler decided is told in the same words.

    A cluster that cannot be used gives exit code 2; pods that fit nowhere do not.
    """
    start_lightly()
    log_as_asked(verbosity)
    if decision_log is not None:
        is_alone = not (file or snapshot or compare or one_pass or set_ or remove_node or add_nodes)
        _show(_logged(decision_log, is_alone=is_alone), output, whole_timeline=timeline)
        return
    policy = _with_extenders(policy_of(config, plugin, feature_gates), wanted=not no_extenders, quiet=quiet)
    if one_pass and (until or run_for):
        raise typer.BadParameter("with --one-pass no time passes: leave --until and --run-for out")
    asked = _Asked(one_pass, search, output, _seconds(until, "--until"), _seconds(run_for, "--run-for"), group_by)
    documents = _documents(file or [], snapshot, (set_ or (), remove_node or (), add_nodes or ()), quiet=quiet)
    other = None if compare is None else policy_of(compare, plugin, feature_gates)
    _simulate(asked, documents, policy, other, quiet=quiet, whole_timeline=timeline)


def _simulate(
    asked: "_Asked",
    documents: "list[Document]",
    policy: "Policy",
    other: "Policy | None",
    *,
    quiet: bool,
    whole_timeline: bool,
) -> None:
    """Simulate under one policy and show what came of it, or under two and show what differs."""
    cluster = _cluster(documents, policy, one_pass=asked.one_pass, quiet=quiet)
    with simulation_progress(shown=not quiet and sys.stderr.isatty()) as progress:
        result = asked.decide(cluster, policy, progress)
        if other is not None:
            _print_differences(result.decisions, asked.decide(cluster, other, progress).decisions, asked.output)
            return
    if not quiet:
        _note_custom(cluster)
        _note_refusals(result.refusals)
    _show(result, asked.output, whole_timeline=whole_timeline)


def _logged(path: Path, *, is_alone: bool) -> "_Result":
    if not is_alone:
        raise typer.BadParameter("with --decision-log nothing is simulated: leave the cluster and what-ifs out")
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
    for what, problem in refusals.items():
        typer.echo(f"note: {what} could not do all: {problem}", err=True)


class _Asked(NamedTuple):
    """How a cluster is to be simulated."""

    one_pass: bool
    search: NodeSearch
    output: DecisionFormat
    until: float | None
    run_for: float | None
    group_by: str

    def decide(self, cluster: "ClusterInput", policy: "Policy", progress: "ShowProgress | None") -> "_Result":
        """Have a policy place the pods."""
        if self.one_pass:
            decisions, groups = _one_pass(cluster, policy, self.search, self.output, progress)
            return _Result(decisions, None, cluster.refusals, {"groups": groups} if groups else {})
        run = _run(cluster, policy, self.output, (self.until, self.run_for), self.group_by, progress)
        return _Result(run.decisions, run, run.refusals, run.more())


class _Result(NamedTuple):
    """What came of it: the run, if time passed; what controllers were refused; and what is printed beside decisions."""

    decisions: "list[Decision]"
    run: "Run | None"
    refusals: "Mapping[str, str]"
    more: "Mapping[str, Any]"


def _cluster(documents: "list[Document]", policy: "Policy", *, one_pass: bool, quiet: bool) -> "ClusterInput":
    from moorage.cluster import cluster_of, with_made_pods

    cluster = cluster_of(documents, features=policy.features)
    if not quiet:
        _note_ignored(cluster)
    return with_made_pods(cluster, policy.features) if one_pass else cluster


def _documents(
    files: "list[str]", snapshot: str, wishes: "tuple[Sequence[str], Sequence[str], Sequence[str]]", *, quiet: bool
) -> "list[Document]":
    """Read the cluster: a snapshot, with files on top of it, or files alone; then change what is to be changed."""
    from moorage.insight.whatif.changes import changed
    from moorage.kube.manifests import read_files

    if not files and not snapshot:
        raise typer.BadParameter("give a cluster: -f FILE, or --snapshot FILE")
    documents = [] if not snapshot else load_source(None, snapshot, "", "", quiet=quiet).documents
    documents += read_files(files)
    settings, removed, added = wishes
    return changed(documents, settings=settings, removed=removed, added=added)


def _print_differences(before: "list[Decision]", after: "list[Decision]", output: DecisionFormat) -> None:
    from moorage.insight.whatif.questions import differences

    found = differences(before, after)
    if output is not DecisionFormat.TABLE:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode({"differences": found}), indent=2))
        return
    if found:
        widest = max(len(item.pod) for item in found)
        longest = max(len(item.before) for item in found)
        for item in found:
            typer.echo(f"{item.pod:<{widest}}  {item.before:<{longest}}  →  {item.after}")
    typer.echo(f"{len(found)} of {len(before)} pods fare differently")


def _with_extenders(policy: "Policy", *, wanted: bool, quiet: bool) -> "Policy":
    extenders = policy.config.extenders
    if wanted or not extenders:
        return policy
    from msgspec.structs import replace

    if not quiet:
        typer.echo(f"note: extenders of the configuration that are not asked: {len(extenders)}", err=True)
    return replace(policy, config=replace(policy.config, extenders=()))


def _seconds(text: str, where: str) -> float | None:
    if not text:
        return None
    from moorage.common.errors import InputError
    from moorage.scheduler.config.durations import Duration

    try:
        seconds = Duration.parse(text).seconds
    except ValueError as error:
        raise InputError(where, f"{text!r} is not a duration", hint="write it like 90s, 10m or 1h30m") from error
    if seconds <= 0:
        raise InputError(where, f"{text!r} is not a time that passes", hint="write it like 90s, 10m or 1h30m")
    return seconds


def _one_pass(
    cluster: "ClusterInput",
    policy: "Policy",
    search: NodeSearch,
    output: DecisionFormat,
    progress: "ShowProgress | None",
) -> "tuple[list[Decision], list[GroupDecision]]":
    from moorage.cluster import OnePass

    in_detail = _is_in_detail(cluster, output)
    single = OnePass(cluster, policy, search_all=search is NodeSearch.ALL, with_nodes=in_detail)
    return single.run(progress), single.groups


def _run(
    cluster: "ClusterInput",
    policy: "Policy",
    output: DecisionFormat,
    times: tuple[float | None, float | None],
    group_by: str,
    progress: "ShowProgress | None",
) -> "Run":
    from moorage.cluster import Pace, run_until_quiet

    until, run_for = times
    return run_until_quiet(
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
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(cluster.ignored.items()))
        typer.echo(f"note: left out, since they do not bear on scheduling: {counted}", err=True)
    for title, problem in cluster.selecting.items():
        typer.echo(f"note: {title} makes no pods, since an API server would refuse it: {problem}", err=True)


def _note_custom(cluster: "ClusterInput") -> None:
    """Say what became of custom resources: only now all plugins have said what they ask for."""
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

    from moorage.cluster import print_decisions, print_run, summary

    console = Console()
    print_decisions(decisions, console)
    if run is not None:
        print_run(run, console, whole_timeline=whole_timeline)
    console.print(summary(decisions), highlight=False)
