"""`moorage plan`: which pods to move, in which order, and the predicted node of each pod."""

import sys
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from moorage.cli import options
from moorage.cli.explain import load_cluster_policy
from moorage.cli.startup import start_lightly

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.insight import Plan

app = options.make_group("Plan moves of pods and predict their new nodes.")


class PlanFormat(StrEnum):
    """Output formats of a plan."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


Output = Annotated[PlanFormat, typer.Option("--output", "-o", help="Output format.")]
MaxMoves = Annotated[
    int | None,
    typer.Option("--max-moves", metavar="NUMBER", parser=options.number(0), help="Maximum number of pods to evict."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help="Do not evict pods that match NAMESPACE/POD, such as 'default/db-*', or pods on nodes that match NODE; "
        "may be repeated.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="KEY=VALUE",
        help="Pods that must not move: namespace=NAME, or a label of pods; may be repeated.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Also evict pods that no controller recreates, or whose Job would fail.")
]
AllowPending = Annotated[
    bool, typer.Option("--allow-pending", help="Also evict pods that fit on no other node; they remain pending.")
]
Verbosity = Annotated[
    int | None,
    typer.Option(
        *("-v", "--v"),
        parser=options.parse_level,
        metavar="LEVEL",
        help="1 prints all pods; 2 to 10 also set the log verbosity.",
    ),
]


class PlanOptions(NamedTuple):
    """The options of all goals: the cluster, the configuration, the constraints and the output."""

    file: options.ClusterFiles = None
    snapshot: options.Snapshot = ""
    config: options.LiveConfig = None
    output: Output = PlanFormat.TEXT
    max_moves: MaxMoves = None
    exclude: Exclude = None
    keep: Keep = None
    force: Force = False
    kubeconfig: options.Kubeconfig = ""
    context: options.Context = ""
    plugin: options.Plugins = None
    feature_gates: options.FeatureGates = None
    emulated_version: options.EmulatedVersion = ""
    verbosity: Verbosity = None
    quiet: options.Quiet = False


@app.command(cls=options.Command)
@options.expand
def drain(
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE", help="Nodes to drain.")] = None,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="SELECTOR", help="Labels of nodes to drain, such as pool=old.")
    ] = "",
    rolling: Annotated[
        int | None,
        typer.Option(
            "--rolling",
            metavar="NUMBER",
            parser=options.number(1),
            help="Drain this number of nodes at a time, and uncordon them before the next ones.",
        ),
    ] = None,
    allow_pending: AllowPending = False,
    *,
    shared: PlanOptions,
) -> None:
    """Plan how to drain nodes.

    Prints the steps, the new node of each pod, the pods that cannot move and why, and the disruption budgets that
    limit the evictions per step. Nothing is written to the cluster.

    The pods of a step are evicted together. The next step begins when their replacements are ready. No step exceeds a
    disruption budget.

    The exit code is 0 whether or not the plan is feasible, and 2 for invalid input.
    """
    start_lightly()
    from moorage.insight import plan_drain

    _run(
        partial(plan_drain, nodes=nodes or (), selector=selector, rolling=rolling), shared, allow_pending=allow_pending
    )


@app.command(cls=options.Command)
@options.expand
def defragment(
    request: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REQUEST", help="Pending pods, podgroup/NAME, job/NAME, or files with a Pod or a workload."
        ),
    ] = None,
    former_request: Annotated[list[str] | None, typer.Option("--for", hidden=True)] = None,
    *,
    shared: PlanOptions,
) -> None:
    """Plan the cheapest moves that make all requested pods fit.

    The plan is feasible only if all requested pods fit. The command prints the moves, and the final nodes of the
    requested pods. No pod is preempted, and nothing is written to the cluster.

    The exit code is 0 whether or not the plan is feasible, and 2 for invalid input.
    """
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.insight import plan_room

    requests = [*(request or ()), *(former_request or ())]
    if not requests:
        hint = "name pending pods or files with pods, or use moorage plan fit for all pending pods"
        raise InputError("plan defragment", "no pods specified", hint=hint)
    _run(partial(plan_room, request=requests), shared)


@app.command(cls=options.Command)
@options.expand
def consolidate(shared: PlanOptions) -> None:
    """Plan how to empty as many nodes as possible.

    Emptied nodes remain cordoned and can be removed. The annotation moorage.io/price-per-hour of a node is its price.
    The most expensive nodes are emptied first. With moorage[solver], the result is proven to be minimal if possible.
    Nothing is written to the cluster.

    The exit code is 0 whether or not the plan is feasible, and 2 for invalid input.
    """
    start_lightly()
    from moorage.insight import plan_consolidate

    _run(plan_consolidate, shared)


@app.command(cls=options.Command)
@options.expand
def rebalance(
    hot: Annotated[
        float,
        typer.Option("--hot", metavar="SHARE", help="A node is hot if a larger share of a resource is requested."),
    ] = 0.8,
    preferred: Annotated[
        bool, typer.Option("--preferred", help="Also move pods to nodes that their preferred node affinity favors.")
    ] = False,
    *,
    shared: PlanOptions,
) -> None:
    """Plan moves that correct outdated or uneven placements.

    A pod moves if the plugins now reject its node (taints, affinity, topology spread), if several pods of its
    controller share the node and another node has none, or if the node is hot (--hot). A pod moves only to a better
    node. Nothing is written to the cluster.

    The exit code is 0 whether or not the plan is feasible, and 2 for invalid input.
    """
    start_lightly()
    from moorage.insight import plan_rebalance

    _run(partial(plan_rebalance, hot=hot, preferred=preferred), shared)


@app.command(cls=options.Command)
@options.expand
def fit(
    pods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="REQUEST", help="Pending pods, podgroup/NAME, job/NAME or files (default: all pending pods)."
        ),
    ] = None,
    *,
    shared: PlanOptions,
) -> None:
    """Plan moves that make pending pods fit, even if not all do.

    Without REQUEST, the plan is for all pending pods. If the files of -f contain no nodes, they are the request, and
    the cluster is the snapshot or the live cluster. No pod is preempted, and nothing is written to the cluster.

    The exit code is 0 whether or not the plan is feasible, and 2 for invalid input.
    """
    start_lightly()
    from moorage.insight import plan_room

    request = list(pods or ())
    if shared.file and not request and not _has_nodes(shared.file):
        request, shared = shared.file, shared._replace(file=None)
    _run(partial(plan_room, request=request, goal="fit"), shared)


@app.command(cls=options.Command)
def apply(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    plan_file: Annotated[
        str,
        typer.Argument(metavar="PLAN", help="File written by `moorage plan drain -o json` or another plan command."),
    ],
    step: Annotated[bool, typer.Option("--step", help="Execute the next step.")] = False,
    all_steps: Annotated[
        bool, typer.Option("--all", help="Execute all steps; stop if the cluster differs from the plan.")
    ] = False,
    timeout: Annotated[
        str,
        typer.Option("--timeout", metavar="DURATION", help="Time limit for the evictions and replacements of a step."),
    ] = "5m",
    config: options.LiveConfig = None,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: Verbosity = None,
    quiet: options.Quiet = False,
) -> None:
    """Apply a plan, one step at a time.

    Without --step or --all, the command checks the next step and writes nothing. With --step, it cordons the nodes of
    the step, evicts its pods, and compares the nodes of the replacements with the plan. It saves the progress in the
    plan file. Repeat the command for the next step, or after an interruption. --all executes all remaining steps.

    With --step or --all, the command stops if the cluster has changed, and writes a new plan. The previous plan is
    saved as PLAN.previous.

    The exit code is 0 if the step succeeded, 1 if it did not or if the completed plan does not reach its goal, 2 for
    invalid input, and 130 after Ctrl-C.
    """
    start_lightly()
    options.configure_trial_logs(verbosity if verbosity != 1 else None)
    from moorage.common.durations import parse_duration
    from moorage.insight import ClusterSource, apply_plan_step, plan_lines, read_plan

    plan = read_plan(plan_file)
    cluster = options.load_cluster(None, "", kubeconfig, context, quiet=quiet, is_live=True)
    gates = options.GateFlags(feature_gates, emulated_version)
    policy = load_cluster_policy(cluster, config, plugin, gates, quiet=quiet)
    source = ClusterSource((), "", kubeconfig, context)
    seconds = parse_duration(timeout, where="--timeout")
    try:
        while True:
            is_dry_run = not (step or all_steps)
            result = apply_plan_step(plan_file, plan, source, policy, is_dry_run=is_dry_run, seconds=seconds)
            plan = result.plan
            for line in result.lines:
                typer.echo(line)
            is_complete = (plan.progress.done if plan.progress else 0) >= len(plan.steps)
            if not all_steps or not result.is_done or is_complete:
                break
    except KeyboardInterrupt:
        typer.echo(f"interrupted; {plan_file} contains the progress: repeat the command to continue", err=True)
        raise
    if result.is_replanned:
        typer.echo(f"{plan_file} has a new plan; the previous plan is saved as {plan_file}.previous")
        for line in plan_lines(result.plan, is_verbose=bool(verbosity)):
            typer.echo(line)
    elif is_complete and not plan.feasible:
        typer.echo(f"the plan does not reach its goal: {plan.reason}")
    raise typer.Exit(0 if result.is_done and (plan.feasible or not is_complete) else 1)


def _has_nodes(files: list[str]) -> bool:
    """Return whether files contain nodes. Standard input is assumed to contain nodes."""
    from moorage.kube.manifests import read_files

    return "-" in files or any(document.kind == "Node" for document in read_files(files))


def _run(make: "Callable[..., Plan]", shared: PlanOptions, *, allow_pending: bool = False) -> None:
    """Load the cluster, make the plan and print it."""
    options.configure_trial_logs(shared.verbosity if shared.verbosity != 1 else None)
    from moorage.insight import Constraints

    constraints = Constraints(
        shared.max_moves, tuple(shared.exclude or ()), tuple(shared.keep or ()), shared.force, allow_pending
    )
    quiet = shared.quiet
    cluster = options.load_cluster(shared.file, shared.snapshot, shared.kubeconfig, shared.context, quiet=quiet)
    gates = options.GateFlags(shared.feature_gates, shared.emulated_version)
    policy = load_cluster_policy(cluster, shared.config, shared.plugin, gates, quiet=quiet)
    with options.prints_to_stderr(), cluster.session(policy) as session:
        plan = make(session, constraints=constraints, taken_at=cluster.taken_at)
    for note in plan.notes if shared.output is not PlanFormat.TEXT else ():
        options.print_note(note, quiet=quiet)
    _print(plan, shared.output, is_verbose=bool(shared.verbosity))


def _print(plan: "Plan", output: PlanFormat, *, is_verbose: bool) -> None:
    if output is PlanFormat.JSON:
        options.print_json(plan.as_data())
    elif output is PlanFormat.MARKDOWN:
        from moorage.insight import plan_markdown

        sys.stdout.write(plan_markdown(plan))
    elif output is PlanFormat.HTML:
        from moorage.insight import plan_html

        sys.stdout.write(plan_html(plan))
    else:
        from moorage.insight import plan_lines

        for line in plan_lines(plan, is_verbose=is_verbose):
            typer.echo(line)
