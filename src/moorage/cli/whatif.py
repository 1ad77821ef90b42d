"""`moorage whatif`: what-if questions about a copy of a cluster, on the command line or as a service."""

from typing import Annotated

import typer

from moorage.cli.command_classes import CommandGroup, old_names
from moorage.cli.options import (
    AddressOption,
    AnswerFormat,
    AnswerOption,
    ConfigOption,
    ContextOption,
    GatesOption,
    KubeconfigOption,
    ObjectFiles,
    PluginPaths,
    PortOption,
    SnapshotOption,
    TokenFileOption,
    VerbosityOption,
    configure_trial_logs,
    load_cluster,
    load_policy,
    print_json,
)
from moorage.cli.startup import start_lightly
from moorage.common.durations import parse_duration

app = typer.Typer(
    cls=CommandGroup,
    help="Answer what-if questions about a cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("fewest-nodes")
def fewest_nodes(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    config: ConfigOption = None,
    output: AnswerOption = AnswerFormat.TEXT,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Find the smallest number of nodes that holds all running pods.

    Two methods are tried, and the better result is printed. The first drains nodes, the emptiest first, while their
    pods fit elsewhere. The second packs all pods from scratch, the largest first. Nothing is written to the cluster.
    """
    start_lightly()
    configure_trial_logs(verbosity)
    from moorage.insight import find_fewest_nodes

    policy = load_policy(config, plugin, feature_gates)
    with load_cluster(file, snapshot, kubeconfig, context).session(policy) as session:
        result = find_fewest_nodes(session)
    if output is AnswerFormat.JSON:
        print_json(result)
        return
    is_optimal = result.needed == result.at_least
    bound = "this is optimal" if is_optimal else f"at least {result.at_least} are needed in any case"
    typer.echo(f"{result.needed} of {result.of} nodes hold all running pods; {bound}")
    for name in result.spare:
        typer.echo(f"  {name} can be removed")


@app.command(cls=old_names({"--seconds": "--timeout"}))
def serve(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    config: ConfigOption = None,
    address: AddressOption = "127.0.0.1",
    port: PortOption = 8089,
    token_file: TokenFileOption = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Time limit of one question.")] = "10s",
    refresh: Annotated[
        str,
        typer.Option(
            "--refresh", metavar="DURATION", help="Read the live cluster again after this time; 0 disables it."
        ),
    ] = "30s",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Serve what-if questions over HTTP.

    Endpoints: POST /v1/explain, /v1/capacity and /v1/place with JSON; GET /healthz. The service works on a copy of the
    cluster and cannot write to the real one. Without a token file it accepts only clients on this machine.
    """
    start_lightly()
    configure_trial_logs(verbosity)
    from moorage.insight import ClusterSource, ServiceOptions, run_service

    options = ServiceOptions(
        source=ClusterSource(file or (), snapshot, kubeconfig, context),
        policy=load_policy(config, plugin, feature_gates),
        address=address,
        port=port,
        token_file=token_file,
        seconds=parse_duration(timeout, where="--timeout"),
        refresh=parse_duration(refresh, where="--refresh"),
    )
    raise typer.Exit(run_service(options))
