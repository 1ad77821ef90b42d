"""`moorage ui`: a cluster as a page in the browser."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli.shared import (
    ConfigOption,
    ContextOption,
    DecisionLogOption,
    GatesOption,
    KubeconfigOption,
    ObjectFiles,
    PluginPaths,
    SnapshotOption,
    VerbosityOption,
    load_source,
    log_trials_as_asked,
    policy_of,
    simulation_progress,
)
from moorage.cli.starting import start_lightly

if TYPE_CHECKING:
    from moorage.insight.page.played import PlayedRun
    from moorage.insight.page.running import StartedSource
    from moorage.insight.whatif.sources import LoadedCluster
    from moorage.scheduler.wiring.policy import Policy


BesideOption = Annotated[
    Path | None, typer.Option("--compare", metavar="FILE", help="Another configuration, to play beside the first.")
]


def ui(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    decision_log: DecisionLogOption = None,
    config: ConfigOption = None,
    compare: BesideOption = None,
    play: Annotated[
        bool | None,
        typer.Option("--play/--still", help="Simulate, to be played; or show as it is. Files are played, others not."),
    ] = None,
    until: Annotated[str, typer.Option("--until", metavar="DURATION", help="Simulate no longer than this.")] = "",
    address: Annotated[str, typer.Option("--address", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 is any.")] = 8090,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file of tokens, one a line, of which a caller must have one.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
) -> None:
    """Show a cluster in the browser: its nodes, who waits and why, what would help, and what would be if.

    The cluster is in files, in a snapshot, or the live one that kubectl uses, as it is now; it is only read. Files are
    simulated, so that there is a history to play forwards and backwards; with --decision-log the history is what a
    scheduler decided, and the files or the snapshot say how large its nodes are. Ctrl-C ends it.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    from moorage.insight.page.running import run_page
    from moorage.scheduler.daemon.caller_tokens import CallerTokens

    tokens = CallerTokens.for_address(token_file, address)
    policies = {"as configured" if config is None else config.name: policy_of(config, plugin, feature_gates)}
    if compare is not None:
        policies[f"{compare.name} (compared)"] = policy_of(compare, plugin, feature_gates)
    is_known = decision_log is None or file or snapshot or kubeconfig or context
    cluster = load_source(file, snapshot, kubeconfig, context, quiet=quiet) if is_known else _unknown()
    title = ", ".join(file) if file else snapshot or "the cluster that kubectl uses"
    if decision_log is not None:
        source = _logged(cluster, policies, decision_log)
    elif (bool(file) if play is None else play) or compare is not None:
        source = _played(cluster, policies, title, until, shown=not quiet and sys.stderr.isatty())
    else:
        source = _still(cluster, next(iter(policies.values())), title)
    raise typer.Exit(run_page(lambda: source, address, port, tokens, partial(_say, opens=open_browser)))


def _say(url: str, *, opens: bool) -> None:
    typer.echo(f"The page is at {url}\nCtrl-C ends it.")
    if opens:
        import webbrowser

        webbrowser.open(url)


def _unknown() -> "LoadedCluster":
    from moorage.insight.whatif.sources import LoadedCluster

    note = "a decision log does not say how large nodes are: -f, --snapshot or --kubeconfig does"
    return LoadedCluster([], note)


def _logged(cluster: "LoadedCluster", policies: "dict[str, Policy]", path: Path) -> "StartedSource":
    if len(policies) > 1:
        raise typer.BadParameter("a decision log is what one configuration decided: leave --compare out")
    from moorage.cluster import LoggedRun, Replay, cluster_of
    from moorage.insight.page.played import PlayedCluster, PlayedRun
    from moorage.scheduler.decisions.decision_log import read_log

    (policy,) = policies.values()
    described = cluster_of(cluster.documents, features=policy.features)
    recorder = LoggedRun(read_log(path)).recorder(described.nodes, described.running)
    return PlayedCluster(cluster, [PlayedRun(path.name, policy, Replay(recorder))], str(path))


def _still(cluster: "LoadedCluster", policy: "Policy", title: str) -> "StartedSource":
    from moorage.insight.page.still import StillCluster

    return StillCluster(cluster, policy, title)


def _played(
    cluster: "LoadedCluster", policies: "dict[str, Policy]", title: str, until: str, *, shown: bool
) -> "StartedSource":
    from moorage.common.durations import parse_duration
    from moorage.insight.page.played import PlayedCluster

    seconds = parse_duration(until, where="--until") if until else None
    return PlayedCluster(
        cluster, [_run(cluster, name, policy, seconds, shown=shown) for name, policy in policies.items()], title
    )


def _run(cluster: "LoadedCluster", name: str, policy: "Policy", until: float | None, *, shown: bool) -> "PlayedRun":
    from moorage.cluster import Replay, RunRecorder, cluster_of, run_until_quiet
    from moorage.insight.page.played import PlayedRun

    recorder = RunRecorder()
    with simulation_progress(shown=shown) as progress:
        described = cluster_of(cluster.documents, features=policy.features)
        run_until_quiet(described, policy, until=until, progress=progress, recorder=recorder)
    return PlayedRun(name, policy, Replay(recorder))
