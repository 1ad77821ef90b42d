"""`python -m tests.e2e [--focus REGEX]`: run specs of upstream's end-to-end suite on `moorage up`.

With `--server real` they run on a real control plane with fake kubelets, and Moorage as its scheduler.

Every spec has a separate process and a timeout; every worker has a separate cluster, because some specs taint nodes.
Specs that need processes inside of pods are skipped (`needs_processes.txt`). The last line is the number of failed
specs; their output is kept.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Final

from tests.e2e.real import real_cluster
from tests.live.scenarios.combinations import MOORAGE, SCHEDULERS, gate_flags
from tests.support.control_plane import ROOT, program

SUITES: Final = r"\[sig-(apps|scheduling)\].*\[Conformance\]"
LEFT_OUT: Final = Path(__file__).with_name("needs_processes.txt")
START_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result and the output of a spec."""

    name: str
    result: str
    seconds: float
    output: str


def main() -> int:
    options = _options()
    suite = program("e2e.test")
    expected = [name for name in specs(suite, options.focus) if options.all or not is_left_out(name)]
    if options.list:
        say("\n".join(expected))
        return 0
    options.save.mkdir(parents=True, exist_ok=True)
    waiting: Queue[str] = Queue()
    for name in expected:
        waiting.put(name)
    outcomes: list[Outcome] = []
    workers = [
        threading.Thread(target=work, args=(suite, waiting, outcomes, options), name=f"worker {number}")
        for number in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = [outcome for outcome in outcomes if outcome.result == "failed"]
    skipped = sum(outcome.result == "skipped" for outcome in outcomes)
    say(f"{len(outcomes)} specs, {skipped} skipped, {len(failed)} failed, {len(expected) - len(outcomes)} not run")
    return 0 if len(outcomes) == len(expected) and not failed else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--focus", default=SUITES, help="which specs, as a regular expression on their full names")
    parser.add_argument("--all", action="store_true", help="also those that need processes")
    parser.add_argument("--list", action="store_true", help="name the specs, and run none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--feature-gates", default="", metavar="A=true,...", help="of all programs")
    parser.add_argument("--emulated-version", default="", help="release that Moorage emulates, such as 1.38")
    parser.add_argument(
        "--server", choices=("embedded", "real"), default="embedded", help="`moorage up`, or a real control plane"
    )
    parser.add_argument("--scheduler", choices=SCHEDULERS, default=MOORAGE, help="who schedules on the real one")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long one spec may take")
    parser.add_argument(
        "--save", type=Path, default=Path(tempfile.gettempdir()) / "moorage-e2e", help="outputs of specs that failed"
    )
    return parser.parse_args()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def specs(suite: Path, focus: str) -> list[str]:
    """Read the full names of the specs from the suite."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "specs.json"
        command = [str(suite), "-ginkgo.dry-run", f"-ginkgo.focus={focus}", f"-ginkgo.json-report={report}"]
        subprocess.run([*command, "-kubeconfig=/dev/null", "-provider=skeleton"], check=True, capture_output=True)
        (outcome,) = json.loads(report.read_text())
    items = (spec for spec in outcome["SpecReports"] if spec["LeafNodeType"] == "It" and spec["State"] == "passed")
    return sorted(" ".join([*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]]) for spec in items)


def is_left_out(name: str) -> bool:
    lines = (line.strip() for line in LEFT_OUT.read_text().splitlines())
    return any(line in name for line in lines if line and not line.startswith("#"))


def work(suite: Path, waiting: "Queue[str]", outcomes: list[Outcome], options: argparse.Namespace) -> None:
    """Run specs on a separate cluster until all are done."""
    with tempfile.TemporaryDirectory() as directory, cluster(Path(directory), options) as kubeconfig:
        while True:
            try:
                name = waiting.get_nowait()
            except Empty:
                return
            outcome = run(suite, name, kubeconfig, options.seconds)
            outcomes.append(outcome)
            say(f"{outcome.result:8} {outcome.seconds:5.0f} s  {name}")
            if outcome.result == "failed":
                (options.save / f"{re.sub(r'[^A-Za-z0-9]+', '-', name)[:150]}.log").write_text(outcome.output)


def cluster(directory: Path, options: argparse.Namespace) -> AbstractContextManager[Path]:
    """Run a cluster for the duration of the block."""
    emulated = [f"--emulated-version={options.emulated_version}"] if options.emulated_version else []
    if options.server == "real":
        return real_cluster(options.nodes, options.feature_gates, options.scheduler, emulated)
    return embedded_cluster(directory, options.nodes, [*gate_flags(options.feature_gates), *emulated])


@contextmanager
def embedded_cluster(directory: Path, nodes: int, flags: list[str]) -> Iterator[Path]:
    """Run `moorage up` for the duration of the block; fail if it exits early."""
    kubeconfig, log = directory / "kubeconfig", directory / "up.log"
    command = [
        str(Path(sys.executable).with_name("moorage")),
        "up",
        "--nodes",
        str(nodes),
        "--kubeconfig",
        str(kubeconfig),
        *flags,
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield kubeconfig
        if process.poll() is not None:
            raise RuntimeError(f"the cluster ended by itself:\n{log.read_text()}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def run(suite: Path, name: str, kubeconfig: Path, seconds: float) -> Outcome:
    """Run one spec."""
    started = time.monotonic()
    # Go's regular expressions do not support all escapes of re.escape.
    literally = re.sub("([^A-Za-z0-9 ])", r"[\1]", name)
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "spec.json"
        command = [
            str(suite),
            f"-ginkgo.focus={literally}",
            f"-ginkgo.timeout={seconds:.0f}s",
            f"-ginkgo.json-report={report}",
            "-ginkgo.no-color",
            "-ginkgo.v",
            f"-kubeconfig={kubeconfig}",
            "-provider=skeleton",
            "-allowed-not-ready-nodes=-1",
        ]
        process = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", cwd=kubeconfig.parent
        )
        result = state_in(report) if report.exists() else "failed"
    return Outcome(name, result, time.monotonic() - started, process.stdout + process.stderr)


def state_in(report: Path) -> str:
    (outcome,) = json.loads(report.read_text())
    states = [spec["State"] for spec in outcome["SpecReports"] if spec["NumAttempts"]]
    if any(state not in ("passed", "skipped") for state in states):
        return "failed"
    ran = any(spec["LeafNodeType"] == "It" and spec["State"] == "passed" for spec in outcome["SpecReports"])
    return "passed" if ran else "skipped"


if __name__ == "__main__":
    sys.exit(main())
