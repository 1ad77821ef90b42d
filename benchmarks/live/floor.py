"""`python -m benchmarks.live.floor`: measure the CPU per pod of a client that makes no decisions.

Pods are listed, bound to one node after the other, reported by an event each, and seen to be bound: what is left of a
scheduler without its engine. No change to the engine can make a pod cheaper than this.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import uvloop

from benchmarks.live import workload
from benchmarks.live.plane import Plane
from benchmarks.live.session import control_plane, parser, print_line
from moorage.common.clock import SteadyClock
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import EventNote
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.config.types import ClientConnection
from moorage.scheduler.wiring.assembly import ApiConnection


def main() -> None:
    """Measure the rounds selected on the command line."""
    command = parser(__doc__, nodes="5000")
    command.add_argument("--pods", type=int, default=10_000, help="number of pods (default: %(default)s)")
    options = command.parse_args()
    with control_plane() as plane:
        for nodes in options.nodes:
            work = workload.load("basic", nodes, options.pods)
            print_line(f"created {nodes} nodes and {options.pods} pods in {plane.fill(work):.0f} s")
            for number in range(1, options.rounds + 1):
                for records in (True, False):
                    plane.restore()
                    took, events = uvloop.run(_measured(plane, work, records))
                    print_line(f"{nodes} nodes, round {number}: {took:.3f} ms CPU/pod, {events} events written")


async def _measured(plane: Plane, work: workload.Workload, records: bool) -> tuple[float, int]:
    """Bind all pods; return the CPU milliseconds per pod of this process, and the number of written events."""
    await plane.quiet()
    observed = SeenPods(work.pods)
    async with ApiClient(plane.connection()) as client, ApiClient(plane.connection()) as event_client:
        remote = ApiConnection(client, event_client, SteadyClock(), ClientConnection())
        began = time.process_time()
        following = asyncio.create_task(Informer(client, BY_TYPE[Pod], observed.take).run())
        await observed.all_listed.wait()
        binding = (
            _bind(remote, pod, f"node-{index % work.nodes}", records) for index, pod in enumerate(observed.listed)
        )
        await asyncio.gather(*binding)
        await observed.all_bound.wait()
        await remote.recorder.flush()
        took = time.process_time() - began
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
    return took / work.pods * 1000, (work.pods if records else 0) - remote.recorder.dropped


async def _bind(remote: ApiConnection, pod: Pod, node: str, records: bool) -> None:
    await remote.cluster.bind(pod, node)
    if records:
        note = f"Successfully assigned {pod.key} to {node}"
        remote.recorder.record(EventNote(pod, "Scheduled", "Binding", note, pod.scheduler_name))


class SeenPods:
    """The pods of a watch, and whether all of them were received and bound."""

    def __init__(self, expected: int) -> None:
        self.listed: list[Pod] = []
        self.all_listed = asyncio.Event()
        self.all_bound = asyncio.Event()
        self._expected = expected
        self._bound = 0

    def take(self, _kind: Kind, changes: Sequence[Change[Pod]]) -> None:
        """Apply an event of the informer."""
        for change in changes:
            if change.before is None and change.after is not None:
                self.listed.append(change.after)
            elif change.after is not None and change.before is not None and not change.before.node_name:
                self._bound += bool(change.after.node_name)
        if len(self.listed) == self._expected:
            self.all_listed.set()
        if self._bound == self._expected:
            self.all_bound.set()


if __name__ == "__main__":
    main()
