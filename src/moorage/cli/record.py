"""`moorage record`: a live cluster as a trace for the lab."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.shared import ContextOption, KubeconfigOption
from moorage.cli.starting import start_lightly


def record(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="Where to: .jsonl, .csv or .parquet.")],
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.0, help="How long; without it, until Ctrl-C.")
    ] = None,
    cluster_out: Annotated[
        Path | None, typer.Option("--cluster-out", metavar="FILE", help="Where the nodes go; TRACE-nodes.json.")
    ] = None,
    class_label: Annotated[
        str, typer.Option("--class-label", metavar="LABEL", help="The label that tells pods apart; their namespace.")
    ] = "",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
) -> None:
    """Record what arrives on a live cluster, how long it runs and which nodes fail, as a trace for `moorage lab`.

    The cluster is only read: nodes and pods are listed and watched. Pods that are there already arrive at time 0.
    """
    start_lightly()
    import signal

    from moorage.common.clock import SteadyClock
    from moorage.common.errors import ApiError, InputError
    from moorage.kube.client.kubeconfig import load_connection
    from moorage.kube.client.rest import ApiClient
    from moorage.lab.recording import TraceRecorder, write_nodes
    from moorage.lab.recording import record as follow
    from moorage.lab.trace_files import write_trace

    connection = load_connection(kubeconfig, context=context)
    recorder = TraceRecorder(SteadyClock(), class_label)

    async def work() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with ApiClient(connection) as client:
            await follow(client, recorder, stop, seconds)

    try:
        asyncio.run(work())
    except* ApiError as errors:
        raise InputError(connection.server, str(errors.exceptions[0])) from errors
    trace = recorder.trace(file.name.split(".")[0])
    write_trace(file, trace)
    nodes = cluster_out or file.with_name(f"{file.stem}-nodes.json")
    write_nodes(nodes, list(recorder.nodes.values()))
    typer.echo(f"{file}: {len(trace.pods)} pods, {len(trace.outages)} outages; {nodes}: {len(recorder.nodes)} nodes")
