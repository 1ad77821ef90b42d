"""`make bench-perf`: play the workloads of scheduler_perf that have a threshold, with both schedulers in turns.

The workloads are read from the module k8s.io/kubernetes of the conformance module. Each turn starts with an empty
etcd. Unlike upstream, which runs API server, client and scheduler in one process, all are separate processes, so
thresholds that upstream measured on six cores are a point of reference only: compare the two schedulers.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import uvloop
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.live import records, schedulers
from benchmarks.live.plane import Plane
from benchmarks.live.session import WHO, control_plane, print_line
from benchmarks.scheduler_perf.playing import Player
from benchmarks.scheduler_perf.workloads import PerfWorkload, load, suite_directory
from moorage.common.errors import MoorageError, NotFound
from moorage.kube.api.records import Lease
from moorage.kube.client.rest import ApiClient

SECTION: Final = "scheduler_perf"
START_SECONDS: Final = 60.0


def main() -> None:
    """Play the selected workloads and print the table. Results that the file already contains are kept."""
    command = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    command.add_argument("patterns", nargs="*", help="only workloads whose name contains one of these")
    command.add_argument("--all", action="store_true", help="also workloads without a threshold")
    command.add_argument("--list", action="store_true", help="print the names and thresholds, and play nothing")
    command.add_argument("--scale", type=float, default=1.0, help="multiply numbers of objects (default: %(default)s)")
    command.add_argument("--schedulers", type=lambda text: text.split(","), default=schedulers.NAMES, help=WHO)
    command.add_argument("--json", type=Path, default=Path(".bench") / "scheduler_perf.json", help="raw data")
    options = command.parse_args()
    works = [work for work in load(suite_directory()) if (work.threshold or options.all) and _is_wanted(work, options)]
    if options.list:
        for work in works:
            sys.stdout.write(f"{work.threshold:6g}  {work.title}\n")
        return
    with control_plane() as plane:
        for number, work in enumerate(works):
            order = options.schedulers if number % 2 else options.schedulers[::-1]
            rows = [_played(plane, work.scaled(options.scale), name, options.scale) for name in order]
            records.add(options.json, SECTION, rows)
    show(records.read(options.json).get(SECTION, []))


def _is_wanted(work: PerfWorkload, options: argparse.Namespace) -> bool:
    return not options.patterns or any(pattern in work.title for pattern in options.patterns)


def _played(plane: Plane, work: PerfWorkload, name: str, scale: float) -> dict[str, Any]:
    """Play a workload on an empty cluster; return a row."""
    plane.end()
    shutil.rmtree(plane.data, ignore_errors=True)
    plane.flags = (*work.gate_flags, "--runtime-config=resource.k8s.io/v1beta2=true")
    began = time.monotonic()
    row = {"workload": f"{work.topic}/{work.title}", "nodes": scale, "pods": 0, "scheduler": name, "scale": scale}
    row |= {"threshold": work.threshold, "load": os.getloadavg()[0]}
    try:
        plane.start_etcd()
        plane.start_api_server()
        row |= uvloop.run(_play(plane, work, name))
    except (MoorageError, TimeoutError, RuntimeError, NotImplementedError, KeyError) as error:
        row["problem"] = f"{type(error).__name__}: {error}"
    print_line(f"{work.title} {name}: {row.get('rate', row.get('problem'))} ({time.monotonic() - began:.0f} s)")
    return row


async def _play(plane: Plane, work: PerfWorkload, name: str) -> dict[str, Any]:
    flags = [*work.gate_flags, *([f"--config={_config(plane, work)}"] if work.config else [])]
    async with plane.client() as client:
        await plane.quiet()
        controllers: list[subprocess.Popen[bytes]] = []
        if work.has_claims:
            claims = "--controllers=resourceclaim-controller"
            kubeconfig = f"--kubeconfig={plane.kubeconfig()}"
            quiet = ("--leader-elect=false", "--secure-port=0", "--kube-api-qps=10000", "--kube-api-burst=10000")
            controllers.append(plane.spawn("kube-controller-manager", kubeconfig, claims, *quiet))
        process = schedulers.start(name, plane, flags)
        player = Player(client, work, process)
        try:
            await _until_leading(client)
            await player.play()
        finally:
            process.stop()
            for each in controllers:
                each.kill()
                each.wait()
    return player.results[-1] if player.results else {"problem": "nothing was measured"}


async def _until_leading(client: ApiClient) -> None:
    """Wait until the scheduler holds its lease, so that its start is not measured."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            with suppress(NotFound):
                if (await client.get(Lease, schedulers.THEIRS, "kube-system")).spec.holder_identity:
                    return
            await asyncio.sleep(0.1)


def _config(plane: Plane, work: PerfWorkload) -> Path:
    """Write the configuration of a workload with the connection to the server."""
    content = yaml.safe_load(Path(work.directory, work.config).read_text())
    limits = {"qps": schedulers.UNLIMITED, "burst": schedulers.UNLIMITED}
    content["clientConnection"] = {"kubeconfig": str(plane.kubeconfig()), **limits}
    path = plane.directory / "perf-config.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print pods per second and CPU of both schedulers by workload."""
    table = Table("workload", "scale", "threshold", *(f"{name}, pods/s, CPU ms" for name in schedulers.NAMES))
    for title, scale in dict.fromkeys((row["workload"], row["scale"]) for row in rows):
        cells = {row["scheduler"]: row for row in rows if (row["workload"], row["scale"]) == (title, scale)}
        threshold = next(iter(cells.values()))["threshold"]
        results = (_cell(cells.get(name, {})) for name in schedulers.NAMES)
        table.add_row(title, f"{scale:g}", f"{threshold:g}", *results)
    Console(width=140).print(table)


def _cell(row: Mapping[str, Any]) -> str:
    return f"{row['rate']:g}, {row['cpu_ms']:.2f}" if "rate" in row else str(row.get("problem", ""))[:60]


if __name__ == "__main__":
    main()
