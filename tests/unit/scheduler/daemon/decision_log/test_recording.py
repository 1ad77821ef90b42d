"""Attempts in the decision log: the near misses equal those of scoring without caches."""

import asyncio
import gc
import resource
import signal
from collections import Counter
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.insight.page.clusters import SMALL, Content, loaded, node, pod, policy

from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.offline import DiscardingApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.scheduler.daemon.decision_log.recording import (
    BUFFER,
    DISK,
    MAX_WAITING,
    RUNNERS_UP,
    DecisionLog,
    LineWriter,
    LogLimits,
    RotatedFile,
    check_limits,
)
from moorage.scheduler.decisions.attempts import node_entries
from moorage.scheduler.decisions.decision import NodeEntry, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision, RejectedNodes, log_files, read_log
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.testing import make_node, make_pod

SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
HARD_SPREAD = [{**SPREAD[0], "whenUnsatisfiable": "DoNotSchedule"}]
PREFERRED = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 10,
                "podAffinityTerm": {
                    "topologyKey": "topology.kubernetes.io/zone",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                },
            }
        ]
    }
}


class FromNothing(AttemptObserver):
    """Describes every node from nothing, as `simulate` does."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, NodeEntry]] = {}

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        self.entries[queued.key] = node_entries(runner, result)


async def decided(contents: Iterable[Content]) -> tuple[list[LoggedDecision], FromNothing]:
    """Run one scheduling attempt per pod, with an API that accepts every write."""
    clock, lines, reference = VirtualClock(1000.0), list[LoggedDecision](), FromNothing()
    log = DecisionLog(lines.append, clock)
    offline = OfflineScheduler(policy(), DiscardingApi(TaskBackground()), clock, observers=(reference, log))
    offline.load(cluster_from_documents(loaded(contents).documents).objects, arrival_interval=1.0)
    await offline.start()
    while offline.scheduler.queue.sizes().active:
        await offline.scheduler.schedule_next()
    await offline.api.background.drain()
    await offline.close()
    return lines, reference


def run(*contents: Content) -> tuple[dict[str, LoggedDecision], FromNothing]:
    lines, reference = asyncio.run(decided(contents))
    return {line.pod: line for line in lines}, reference


def test_an_unschedulable_pod_has_its_nodes_in_groups() -> None:
    lines, _ = run(*SMALL)
    line = lines["shop/big-1"]
    assert line.result is Result.UNSCHEDULABLE
    assert line.message.startswith("0/3 nodes are available: 1 Insufficient cpu")
    assert (line.node_count, line.feasible, line.attempts, line.nodes) == (3, 0, 1, {})
    assert {(group.plugin, group.count, group.nodes) for group in line.rejected} == {
        ("NodeResourcesFit", 1, ("n1",)),
        ("NodeUnschedulable", 1, ("n2",)),
        ("TaintToleration", 1, ("n3",)),
    }
    assert (
        RejectedNodes(1, "NodeResourcesFit", "UnschedulableAndUnresolvable", ("Insufficient cpu",), ("n1",))
        in line.rejected
    )


def test_a_single_node_is_not_scored() -> None:
    line = run(*SMALL)[0]["shop/fits"]
    assert (line.result, line.node, line.nodes, line.feasible) == (Result.SCHEDULED, "n1", {"n1": NodeEntry()}, 1)
    assert line.requests == {"cpu": "1000m"}
    assert line.time.startswith("1970-01-01T00:16:")
    assert line.took > 0


def test_near_misses_equal_scores_without_caches() -> None:
    """Cover cached results, plugins without cached results, and nodes rejected for this pod only."""
    nodes = [node(f"n{number}", allocatable={"cpu": str(4 + number)}) for number in range(1, 9)]
    shapes: list[dict[str, Any]] = [
        {},
        {"topologySpreadConstraints": SPREAD},
        {"topologySpreadConstraints": HARD_SPREAD},
        {"affinity": PREFERRED},
        {"nodeSelector": {"topology.kubernetes.io/zone": "zone-3"}},
    ]
    pods = [pod(f"web-{number}", f"{100 + number}m", **shapes[number % len(shapes)]) for number in range(30)]
    lines, reference = run(*nodes, *pods)
    several = 0
    for key, line in lines.items():
        scored = {name: entry for name, entry in reference.entries[key].items() if entry.total is not None}
        if not scored:
            continue
        several += 1
        assert {name: scored[name] for name in line.nodes} == line.nodes
        totals = sorted((entry.total or 0 for entry in scored.values()), reverse=True)
        assert next(iter(line.nodes)) == line.node
        assert [entry.total for entry in line.nodes.values()] == totals[: RUNNERS_UP + 1]
    assert several >= 20


def test_preemption_victims_are_logged() -> None:
    high = pod("high", "4", priority=100)
    lines, _ = run(node("n1"), pod("low", "3", node="n1"), high)
    post_filter = lines["shop/high"].post_filter
    assert post_filter is not None
    assert (post_filter.nominated_node, post_filter.victims) == ("n1", ("shop/low",))


def line(number: int) -> LoggedDecision:
    return LoggedDecision(
        time="2026-11-17T05:00:00.000000Z", pod=f"default/p{number}", profile="x", result=Result.SCHEDULED, node="n1"
    )


class Dropped(Counter[str]):
    def __call__(self, reason: str, count: int) -> None:
        self[reason] += count


def test_lines_are_read_back_over_all_rotated_files(tmp_path: Path) -> None:
    path, dropped = tmp_path / "log", Dropped()
    size = len(b'{"time":"2026-11-17T05:00:00.000000Z","pod":"default/p100",' * 4)
    for number in range(100, 130):
        # Each line has its own writer: a restart continues the same file.
        writer = LineWriter(RotatedFile(path, LogLimits(size, 50)), dropped)
        writer.start()
        writer.put(line(number))
        writer.close()
    assert not dropped
    assert len(log_files(path)) > 5
    assert all(file.stat().st_size <= size for file in log_files(path))
    assert [decision.pod for decision in read_log(path)] == [f"default/p{number}" for number in range(100, 130)]


def test_number_of_files_is_limited(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "log", LogLimits(10, 2))
    for number in range(8):
        file.write(b"%d-345678\n" % number)
    file.close()
    contents = {path_in_directory.name: path_in_directory.read_bytes() for path_in_directory in tmp_path.iterdir()}
    assert contents == {"log": b"7-345678\n", "log.1": b"6-345678\n", "log.2": b"5-345678\n"}


def test_incomplete_last_line_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"whole": 1}\n{"half')
    file = RotatedFile(path, LogLimits())
    file.write(b'{"next": 2}\n')
    file.close()
    assert path.read_bytes() == b'{"whole": 1}\n{"next": 2}\n'


def test_a_full_disk_costs_lines_only(tmp_path: Path, logged: list[MutableMapping[str, Any]]) -> None:
    """The limit of a file's size rejects writes as a full disk does, also in the middle."""
    path, dropped = tmp_path / "log", Dropped()
    file = RotatedFile(path, LogLimits())
    file.open()
    writer = LineWriter(file, dropped)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    quiet = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        writer._write(b"whole\n", 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        writer._write(b"too long for it\n", 3)
        assert path.read_bytes() == b"whole\n"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, quiet)
    writer._write(b"again\n", 1)
    assert path.read_bytes() == b"whole\nagain\n"
    assert dropped == {DISK: 3}
    # The log is captured in memory: if output is written to a file, the limit would apply to it too.
    assert [line["event"] for line in logged] == ["lines of the decision log are dropped"]


def test_lines_beyond_the_buffer_are_dropped_and_counted(tmp_path: Path) -> None:
    dropped = Dropped()
    # The writer is not started, which simulates a blocked disk.
    writer = LineWriter(RotatedFile(tmp_path / "log", LogLimits()), dropped)
    for number in range(MAX_WAITING + 7):
        writer.put(line(number))
    assert dropped == {BUFFER: 7}


def test_a_file_that_cannot_be_opened_is_rejected_at_the_start(tmp_path: Path) -> None:
    writer = LineWriter(RotatedFile(tmp_path / "no" / "log", LogLimits()), Dropped())
    with pytest.raises(InputError, match="log: the file cannot be written: No such file or directory"):
        writer.start()


@pytest.mark.parametrize(("size", "files"), [(10, 5), (1 << 20, -1), (1 << 20, 100_000)])
def test_limits_out_of_bounds_are_rejected(size: int, files: int) -> None:
    with pytest.raises(InputError, match="--decision-log-max"):
        check_limits(size, files)


async def runners_after_reloads(reloads: int) -> int:
    """Reload the configuration between pods; return the number of profile runners in memory."""
    log = DecisionLog(lambda _line: None, VirtualClock())
    offline = OfflineScheduler(policy(), DiscardingApi(TaskBackground()), VirtualClock(), observers=(log,))
    offline.load([make_node("a"), make_node("b")])
    await offline.start()
    scheduler = offline.scheduler
    for number in range(reloads + 1):
        scheduler.handlers.pod_added(make_pod(f"p{number}"))
        scheduler.handlers.pod_added(make_pod(f"q{number}", requests={"cpu": "99"}))
        await offline.settle()
        profiles = scheduler.build_profiles(policy().config, policy().registry)
        await profiles.lifecycle.start()
        await scheduler.change_profiles(profiles).lifecycle.close()
    gc.collect()
    count = sum(isinstance(item, ProfileRunner) for item in gc.get_objects())
    await offline.close()
    return count


def test_reloads_leave_no_former_profiles() -> None:
    gc.collect()
    few, many = (asyncio.run(runners_after_reloads(reloads)) for reloads in (2, 12))
    assert many <= few


@pytest.mark.parametrize("text", [b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"pod":"\xff"}', b'{"time":5}', b"{"])
def test_invalid_line_is_reported_with_its_number(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"\n" + text + b"\n")
    with pytest.raises(InputError, match="log, line 2: invalid JSON: "):
        list(read_log(tmp_path / "log"))
