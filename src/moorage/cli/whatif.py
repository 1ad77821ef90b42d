"""`moorage whatif`: what-if questions about a copy of a cluster, on the command line or as a service."""

from typing import Annotated, Final

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.durations import parse_duration

MAX_NAMES: Final = 5
FORECAST_DRAWS: Final = 30
app = options.make_group("""Find the fewest nodes for all pods, or answer what-if questions.

To simulate a changed cluster, use `moorage simulate` with --set, --remove-node or --add-nodes.
""")


@app.command("fewest-nodes", cls=options.Command)
def fewest_nodes(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    config: options.Config = None,
    output: options.Answer = options.AnswerFormat.TEXT,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: options.Verbosity = None,
    quiet: options.Quiet = False,
) -> None:
    """Find the smallest number of nodes that holds all pods.

    Pending pods are placed first; those that fit nowhere are listed. Then two methods are tried, and the better result
    is printed. One drains nodes, the emptiest first, while their pods fit elsewhere. The other packs all pods from
    scratch, the largest first. With moorage[solver], an optimal assignment is also tried. Nothing is written to the
    cluster.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.insight import find_fewest_nodes

    policy = options.load_policy(config, plugin, options.GateFlags(feature_gates, emulated_version))
    with options.load_cluster(file, snapshot, kubeconfig, context, quiet=quiet).session(policy) as session:
        result = find_fewest_nodes(session)
    if output is options.AnswerFormat.JSON:
        options.print_json(result)
        return
    is_optimal = result.needed == result.at_least
    proof = "proven minimum" if is_optimal else f"lower bound: {result.at_least}"
    if result.unplaced:
        names = ", ".join(result.unplaced[:MAX_NAMES]) + (", …" if len(result.unplaced) > MAX_NAMES else "")
        verb = "pod fits" if len(result.unplaced) == 1 else "pods fit"
        typer.echo(f"{len(result.unplaced)} pending {verb} on no node: {names}")
    pods_text = "all other pods" if result.unplaced else "all pods"
    typer.echo(f"{pods_text} fit on {result.needed} of {result.of} nodes ({proof})")
    for name in result.spare:
        typer.echo(f"  {name} can be removed")


@app.command(cls=options.Command)
def serve(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    config: options.Config = None,
    address: options.Address = "127.0.0.1",
    port: options.Port = 8089,
    token_file: options.TokenFile = None,
    tls_cert_file: options.CertFile = None,
    tls_private_key_file: options.KeyFile = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="Time limit for each question.")
    ] = "10s",
    refresh: Annotated[
        str,
        typer.Option(
            "--refresh",
            metavar="DURATION",
            help="Interval at which the live cluster is reloaded; 0 disables reloading.",
        ),
    ] = "30s",
    history: options.History = None,
    class_label: options.ClassLabel = "",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: options.Verbosity = None,
) -> None:
    """Answer what-if questions over HTTP.

    Endpoints: POST /v1/explain, /v1/capacity, /v1/place, /v1/plan and /v1/when with JSON; GET /metrics, a forecast of
    the queue for alerts; GET /healthz. The service works on a copy of the cluster and cannot write to the real one.
    Without a token file it accepts only clients on this machine.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.insight import ClusterSource, ForecastOptions, ListenOptions, ServiceOptions, run_service
    from moorage.lab import read_history

    settings = ServiceOptions(
        source=ClusterSource(file or (), snapshot, kubeconfig, context),
        policy=options.load_policy(config, plugin, options.GateFlags(feature_gates, emulated_version)),
        listening=ListenOptions.read(address, port, token_file, tls_cert_file, tls_private_key_file),
        seconds=parse_duration(timeout, where="--timeout"),
        refresh=parse_duration(refresh, where="--refresh"),
        forecast=ForecastOptions(
            class_label=class_label,
            past=read_history(history, class_label) if history is not None else (),
            past_name=str(history or ""),
            draws=FORECAST_DRAWS,
        ),
    )
    raise typer.Exit(run_service(settings))
