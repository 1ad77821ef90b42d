"""`make bench-extender`: the same plugin in process, and as an extender of kube-scheduler, on the same pending pods."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvloop
import yaml
from tests.live.serving import answered

from benchmarks.live import schedulers, workload
from benchmarks.live.checks import problems
from benchmarks.live.drain import Drain, Round
from benchmarks.live.plane import Plane
from benchmarks.live.processes import SessionProcess
from benchmarks.live.session import control_plane, parser, print_line, print_transient

PLUGIN: Final = "benchmarks.live.sample_plugin:Sample"
READY_SECONDS: Final = 60.0


def main() -> None:
    """Run the benchmark selected on the command line."""
    command = parser(__doc__, nodes="1000")
    command.add_argument("--pods", type=int, default=2000, help="number of pods (default: %(default)s)")
    options = command.parse_args()
    with control_plane() as plane:
        for nodes in options.nodes:
            work = workload.load("basic", nodes, options.pods)
            print_line(f"created in {plane.fill(work):.0f} s")
            for number in range(1, options.rounds + 1):
                for name, ways in WAYS.items():
                    plane.restore()
                    _measure(plane, work, Round(work.name, work.nodes, work.pods, name, number, work.bound), ways)


def _measure(plane: Plane, work: workload.Workload, result: Round, way: "Way") -> None:
    processes: list[SessionProcess] = []
    try:
        uvloop.run(Drain(plane, work, lambda: way(plane, processes), print_transient).run(result, problems))
        extender = f", extender {sum(each.cpu() for each in processes):.1f} s CPU" if processes else ""
    finally:
        for each in processes:
            each.stop()
    figures = result.figures()
    print_line(f"{result.title}: {figures['pods_per_second']} pods/s, {figures['cpu_ms_per_pod']} ms CPU/pod{extender}")
    for problem in result.problems[:5]:
        print_line(f"  WRONG: {problem}")


def _in_process(plane: Plane, _: list[SessionProcess]) -> SessionProcess:
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig())},
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Sample", "weight": 10}]}}}],
    }
    path = plane.directory / "in-process.yaml"
    path.write_text(yaml.safe_dump(content))
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # where the plugin is
    return schedulers.start(schedulers.OURS, plane, (f"--config={path}", f"--plugin={PLUGIN}"))


def _as_extender(plane: Plane, processes: list[SessionProcess]) -> SessionProcess:
    process, url = schedulers.start_extender(plane, PLUGIN)
    processes.append(process)
    deadline = time.monotonic() + READY_SECONDS
    while answered(f"{url}/readyz") != 200:
        if not process.is_running or time.monotonic() > deadline:
            raise RuntimeError(f"the extender is not ready:\n{process.log_end}")
        time.sleep(0.1)
    verbs = {"filterVerb": "filter", "preemptVerb": "preempt", "prioritizeVerb": "prioritize", "weight": 1}
    return schedulers.start_theirs(plane, extenders=[{"urlPrefix": url, **verbs, "nodeCacheCapable": True}])


def _without(plane: Plane, _: list[SessionProcess]) -> SessionProcess:
    return schedulers.start_theirs(plane)


Way = Callable[[Plane, list[SessionProcess]], SessionProcess]
"""Starts a scheduler and the servers it needs."""
WAYS: Final[dict[str, Way]] = {
    "moorage, in process": _in_process,
    "kube-scheduler, extender": _as_extender,
    "kube-scheduler, no plugin": _without,
}

if __name__ == "__main__":
    main()
