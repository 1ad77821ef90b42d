"""`moorage whatif`: questions about a cluster that is only thought of, on the command line or as a service."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.capacity import AnswerFormat
from moorage.cli.shared import (
    ConfigOption,
    ContextOption,
    GatesOption,
    KubeconfigOption,
    ObjectFiles,
    PluginPaths,
    SnapshotOption,
    VerbosityOption,
    load_source,
    log_trials_as_asked,
    policy_of,
)
from moorage.cli.starting import start_lightly

app = typer.Typer(help="Ask what would be if.", no_args_is_help=True, rich_markup_mode=None)


@app.command("fewest-nodes")
def fewest_nodes(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    config: ConfigOption = None,
    output: Annotated[AnswerFormat, typer.Option("--output", "-o", help="How to print it.")] = AnswerFormat.TEXT,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Say how few nodes hold all pods.

    Nodes are emptied one by one, the emptiest first, as long as their pods fit elsewhere; then all pods are packed
    anew, the largest first, and the better result counts. Nothing is written.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    from moorage.insight.whatif.packing import fewest_nodes as find_fewest

    policy = policy_of(config, plugin, feature_gates)
    with load_source(file, snapshot, kubeconfig, context).session(policy) as session:
        found = find_fewest(session)
    if output is AnswerFormat.JSON:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
        return
    known = "which is the least" if found.needed == found.at_least else f"no fewer than {found.at_least} can do"
    typer.echo(f"{found.needed} of {found.of} nodes are enough for all pods; {known}")
    for name in found.spare:
        typer.echo(f"  {name} can be done without")


@app.command()
def serve(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: ObjectFiles = None,
    snapshot: SnapshotOption = "",
    config: ConfigOption = None,
    address: Annotated[str, typer.Option("--address", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 is any.")] = 8089,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file of tokens, one a line, of which a caller must have one.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long one question may take.")] = 10.0,
    refresh: Annotated[
        float, typer.Option("--refresh", min=0.0, help="Read the live cluster anew after so many seconds; 0: never.")
    ] = 30.0,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    plugin: PluginPaths = None,
    feature_gates: GatesOption = None,
    verbosity: VerbosityOption = None,
) -> None:
    """Answer what-if questions over HTTP, as JSON, for autoscalers, admission checks and bots.

    POST /v1/explain, /v1/capacity and /v1/place; GET /healthz. The service holds a copy of the cluster and has no way
    to write to the real one. Without a token file it serves callers on this machine only.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    from moorage.insight.whatif.sources import ClusterSource
    from moorage.insight.whatif_service import ServiceOptions, run_service

    options = ServiceOptions(
        source=ClusterSource(file or (), snapshot, kubeconfig, context),
        policy=policy_of(config, plugin, feature_gates),
        address=address,
        port=port,
        token_file=token_file,
        seconds=seconds,
        refresh=refresh,
    )
    raise typer.Exit(run_service(options))
