"""`moorage record`: record a live cluster as a trace for the lab."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.options import ContextOption, KubeconfigOption
from moorage.cli.startup import start_lightly
from moorage.common.durations import parse_duration


def record(
    file: Annotated[
        Path,
        typer.Argument(metavar="TRACE", help="Output file; the extension selects the format (.jsonl, .csv, .parquet)."),
    ],
    for_: Annotated[
        str,
        typer.Option(
            "--for", metavar="DURATION", help="Stop after this time, such as 30m (default: run until Ctrl-C)."
        ),
    ] = "",
    cluster_out: Annotated[
        Path | None,
        typer.Option("--cluster-out", metavar="FILE", help="Output file for the nodes (default: TRACE-nodes.json)."),
    ] = None,
    class_label: Annotated[
        str,
        typer.Option("--class-label", metavar="LABEL", help="Label used to classify pods (default: the namespace)."),
    ] = "",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
) -> None:
    """Record a live cluster as a trace for the lab.

    The trace contains the arrival and the run time of each pod, and node failures. The cluster is only read: nodes and
    pods are listed and watched. Pods that exist at the start arrive at time 0.
    """
    start_lightly()
    import signal

    from moorage.common.clock import SteadyClock
    from moorage.common.errors import ApiError, InputError
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.kube.client.rest import ApiClient
    from moorage.lab.recording import TraceRecorder, write_nodes
    from moorage.lab.recording import record as record_cluster
    from moorage.lab.trace_files import write_trace

    seconds = parse_duration(for_, where="--for") if for_ else None
    connection = load_connection(kubeconfig, context=context)
    recorder = TraceRecorder(SteadyClock(), class_label)

    async def follow() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
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
