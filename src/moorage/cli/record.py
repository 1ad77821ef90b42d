"""`moorage record`: record a live cluster as a trace for the lab."""

from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly


def record(
    file: Annotated[
        Path,
        typer.Argument(metavar="TRACE", help=options.TRACE_HELP, callback=options.TRACE_FILE),
    ],
    for_: options.RunFor = "",
    cluster_out: Annotated[
        Path | None,
        typer.Option(
            "--cluster-out",
            metavar="FILE",
            help="Output file for the nodes, as JSON (default: TRACE-nodes.json).",
            callback=options.with_extension(".json"),
        ),
    ] = None,
    class_label: options.ClassLabel = "",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
) -> None:
    """Record a live cluster as a trace for the lab.

    The trace contains the arrival and the run time of each pod, and node failures. The cluster is only read: nodes and
    pods are listed and watched. Pods that exist at the start arrive at time 0.
    """
    start_lightly()
    import asyncio

    from moorage.common.clock import SteadyClock
    from moorage.common.errors import ApiError, InputError
    from moorage.common.signals import stop_on_signals
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.kube.client.rest import ApiClient
    from moorage.lab import TraceRecorder, write_nodes, write_trace
    from moorage.lab import record as record_cluster

    seconds = options.parse_seconds(for_, "--for")
    connection = load_connection(kubeconfig, context=context)
    recorder = TraceRecorder(SteadyClock(), class_label)

    async def follow() -> None:
        stop = stop_on_signals()
        async with ApiClient(connection) as client:
            await record_cluster(client, recorder, stop, seconds)

    try:
        asyncio.run(follow())
    except* ApiError as errors:
        raise InputError(connection.server, str(errors.exceptions[0])) from errors
    trace = recorder.trace(file.name.split(".")[0])
    write_trace(file, trace)
    nodes = cluster_out or file.with_name(f"{file.stem}-nodes.json")
    write_nodes(nodes, list(recorder.nodes.values()))
    typer.echo(f"{file}: {len(trace.pods)} pods, {len(trace.outages)} outages")
    typer.echo(f"{nodes}: {len(recorder.nodes)} nodes")
