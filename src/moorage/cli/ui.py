"""`moorage ui`: show a cluster in the browser."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.options import (
    AddressOption,
    ConfigOption,
    ContextOption,
    DecisionLogOption,
    GatesOption,
    KubeconfigOption,
    ObjectFiles,
    PluginPaths,
    PortOption,
    QuietOption,
    SnapshotOption,
    TokenFileOption,
    VerbosityOption,
    configure_trial_logs,
    load_cluster,
    load_policy,
    simulation_progress,
)
from moorage.cli.startup import start_lightly
from moorage.common.durations import parse_duration

if TYPE_CHECKING:
    from moorage.insight import LoadedCluster, ReplayedRun, StartedSource
    from moorage.scheduler.wiring.policy import Policy


CompareOption = Annotated[
    Path | None,
    typer.Option("--compare", metavar="FILE", help="Second configuration to simulate and show next to the first."),
]
SimulateOption = Annotated[
    bool | None,
    typer.Option(
        "--simulate/--no-simulate",
        help="Simulate the cluster and replay the simulation, or show it as it is (default: simulate files only).",
        show_default=False,
    ),
]


def ui(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    decision_log: DecisionLogOption = None,
    config: ConfigOption = None,
    compare: CompareOption = None,
    simulate: SimulateOption = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="Limit of the simulated time, such as 1h.")
    ] = "",
    address: AddressOption = "127.0.0.1",
    port: PortOption = 8090,
    token_file: TokenFileOption = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
    quiet: QuietOption = False,
) -> None:
    """Show a cluster in the browser.

    The page shows nodes, pending pods with reasons and suggested changes, and answers what-if questions. The cluster
    is read from files, from a snapshot, or from the live cluster that kubectl uses. It is never changed.

    Files are simulated, and the page replays the simulation. With --decision-log the page replays the decisions of a
    scheduler; add the files or the snapshot for the sizes of the nodes. Stop with Ctrl-C.
    """
    start_lightly()
    configure_trial_logs(verbosity)
    from moorage.insight import run_page
    from moorage.kube.http.bearer_tokens import BearerTokens

    tokens = BearerTokens.for_address(token_file, address)
    policies = {"as configured" if config is None else config.name: load_policy(config, plugin, feature_gates)}
    if compare is not None:
        policies[f"{compare.name} (compared)"] = load_policy(compare, plugin, feature_gates)
    has_cluster = decision_log is None or file or snapshot or kubeconfig or context
    cluster = load_cluster(file, snapshot, kubeconfig, context, quiet=quiet) if has_cluster else _empty_cluster()
    title = ", ".join(file) if file else snapshot or "live cluster"
    if decision_log is not None:
        source = _replay_log(cluster, policies, decision_log)
    elif (bool(file) if simulate is None else simulate) or compare is not None:
        source = _simulate(cluster, policies, title, for_, shown=not quiet and sys.stderr.isatty())
    else:
        source = _show_as_is(cluster, next(iter(policies.values())), title)
    raise typer.Exit(run_page(lambda: source, address, port, tokens, partial(_print_url, opens=open_browser)))


def _print_url(url: str, *, opens: bool) -> None:
    typer.echo(f"Open {url} in a browser. Stop with Ctrl-C.")
    if opens:
        import webbrowser

        webbrowser.open(url)


def _empty_cluster() -> "LoadedCluster":
    from moorage.insight import LoadedCluster

    note = "a decision log does not contain the sizes of nodes; add -f, --snapshot or --kubeconfig"
    return LoadedCluster([], note)


def _replay_log(cluster: "LoadedCluster", policies: "dict[str, Policy]", log: Path) -> "StartedSource":
    if len(policies) > 1:
        raise typer.BadParameter("--compare cannot be combined with --decision-log")
    from moorage.cluster import LoggedRun, Replay, cluster_of
    from moorage.insight import ReplayedCluster, ReplayedRun
    from moorage.scheduler.decisions.decision_log import read_log

    (policy,) = policies.values()
    described = cluster_of(cluster.documents, features=policy.features)
    recorder = LoggedRun(read_log(log)).recorder(described.nodes, described.running)
    return ReplayedCluster(cluster, [ReplayedRun(log.name, policy, Replay(recorder))], str(log))


def _show_as_is(cluster: "LoadedCluster", policy: "Policy", title: str) -> "StartedSource":
    from moorage.insight import StaticCluster

    return StaticCluster(cluster, policy, title)


def _simulate(
    cluster: "LoadedCluster", policies: "dict[str, Policy]", title: str, for_: str, *, shown: bool
) -> "StartedSource":
    from moorage.insight import ReplayedCluster

    seconds = parse_duration(for_, where="--for") if for_ else None
    runs = [_simulate_policy(cluster, name, policy, seconds, shown=shown) for name, policy in policies.items()]
    return ReplayedCluster(cluster, runs, title)


def _simulate_policy(
    cluster: "LoadedCluster", name: str, policy: "Policy", until: float | None, *, shown: bool
) -> "ReplayedRun":
    from moorage.cluster import Replay, RunRecorder, cluster_of, simulate
    from moorage.insight import ReplayedRun

    recorder = RunRecorder()
    with simulation_progress(shown=shown) as progress:
        described = cluster_of(cluster.documents, features=policy.features)
        simulate(described, policy, until=until, progress=progress, recorder=recorder)
    return ReplayedRun(name, policy, Replay(recorder))
