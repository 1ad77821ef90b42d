"""`moorage ui`: show a cluster in the browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError

if TYPE_CHECKING:
    from moorage.insight import LoadedCluster, ReplayedRun
    from moorage.scheduler.wiring.policy import Policy

Compare = Annotated[
    Path | None,
    typer.Option("--compare", metavar="FILE", help="Second configuration to simulate and show next to the first."),
]
Simulate = Annotated[
    bool | None,
    typer.Option(
        "--simulate/--no-simulate",
        help="Simulate the cluster and replay the simulation, or show its state (default: simulate files only).",
        show_default=False,
    ),
]


def ui(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    decision_log: options.DecisionLog = None,
    config: options.Config = None,
    compare: Compare = None,
    simulate: Simulate = None,
    for_: options.SimulateFor = "",
    address: options.Address = "127.0.0.1",
    port: options.Port = 8090,
    token_file: options.TokenFile = None,
    tls_cert_file: options.CertFile = None,
    tls_private_key_file: options.KeyFile = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: options.Verbosity = None,
    quiet: options.Quiet = False,
) -> None:
    """Show a cluster in the browser.

    The page shows nodes, pending pods with reasons and suggested changes, and evaluates what-if changes. The cluster
    is read from files, from a snapshot, or from the live cluster that kubectl uses. It is never changed.

    Files are simulated, and the page replays the simulation. To replay the decisions of a scheduler instead, add
    --decision-log. Files or a snapshot provide the sizes of the nodes. Stop with Ctrl-C.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.cluster import LoggedRun, Replay, cluster_from_documents
    from moorage.insight import (
        ListenOptions,
        LoadedCluster,
        PageSource,
        ReplayedCluster,
        ReplayedRun,
        StaticCluster,
        run_page,
    )
    from moorage.scheduler.decisions.decision_log import read_log

    if decision_log is not None and compare is not None:
        raise InputError("--compare", "cannot be combined with --decision-log", hint="omit one of them")
    seconds = options.parse_seconds(for_, "--for")
    listening = ListenOptions.read(address, port, token_file, tls_cert_file, tls_private_key_file)
    gates = options.GateFlags(feature_gates, emulated_version)
    policy = options.load_policy(config, plugin, gates)
    policies = {"as configured" if config is None else config.name: policy}
    if compare is not None:
        policies[f"{compare.name} (compared)"] = options.load_policy(compare, plugin, gates)
    if decision_log is not None and not (file or snapshot or kubeconfig or context):
        note = "a decision log does not contain the sizes of nodes; add -f, --snapshot or --kubeconfig"
        cluster = LoadedCluster([], note)
    else:
        cluster = options.load_cluster(file, snapshot, kubeconfig, context, quiet=quiet)
    title = ", ".join(file) if file else snapshot or "live cluster"
    source: PageSource
    if decision_log is not None:
        described = cluster_from_documents(cluster.documents, features=policy.features)
        recorder = LoggedRun(read_log(decision_log)).recorder(described.nodes, described.running)
        run = ReplayedRun(decision_log.name, policy, Replay(recorder))
        source = ReplayedCluster(cluster, [run], str(decision_log))
    elif (bool(file) if simulate is None else simulate) or compare is not None:
        runs = [_simulate(cluster, name, simulated, seconds, quiet=quiet) for name, simulated in policies.items()]
        source = ReplayedCluster(cluster, runs, title)
    else:
        source = StaticCluster(cluster, policy, title)

    def print_url(url: str) -> None:
        typer.echo(f"Open {url} in a browser. Stop with Ctrl-C.")
        if open_browser:
            import webbrowser

            webbrowser.open(url)

    raise typer.Exit(run_page(source, listening, print_url))


def _simulate(
    cluster: "LoadedCluster", name: str, policy: "Policy", until: float | None, *, quiet: bool
) -> "ReplayedRun":
    from moorage.cluster import Replay, RunRecorder, cluster_from_documents, simulate
    from moorage.insight import ReplayedRun

    recorder = RunRecorder()
    with options.simulation_progress(quiet=quiet) as progress:
        described = cluster_from_documents(cluster.documents, features=policy.features)
        simulate(described, policy, until=until, progress=progress, recorder=recorder)
    return ReplayedRun(name, policy, Replay(recorder))
