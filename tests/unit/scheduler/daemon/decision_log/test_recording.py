"""Attempts in the decision log: the near misses equal those of scoring without caches."""

import asyncio
from collections.abc import Iterable
from typing import Any

from tests.unit.insight.page.clusters import SMALL, Content, loaded, node, pod, policy

from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.offline import DiscardingApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.scheduler.daemon.decision_log.recording import RUNNERS_UP, DecisionLog
from moorage.scheduler.decisions.attempts import node_entries
from moorage.scheduler.decisions.decision import NodeEntry, Result
from moorage.scheduler.decisions.decision_log import LoggedDecision, RejectedNodes
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.queue.entities import QueuedPodInfo

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

    def found(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
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


def test_a_node_that_is_the_only_one_was_not_scored() -> None:
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
