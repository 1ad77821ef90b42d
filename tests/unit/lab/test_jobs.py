"""Jobs, gangs, dependencies and retries of a trace, and their measures, recomputed from the events of a trial."""

from collections import defaultdict
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.lab import config_with, pool_cluster, trial_with

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.jobs import jain_index
from moorage.lab.measuring import Measures, run_trial
from moorage.lab.playing import Play, PodLife
from moorage.lab.trace import TracePod
from moorage.lab.trial import JobRow, PolicyText, Trial, TrialResult


def index_jobs(result: TrialResult) -> dict[str, JobRow]:
    return {row.job: row for row in result.jobs}


def test_job_ends_with_its_last_pod() -> None:
    pods = (
        TracePod("a", 0.0, 100.0, cpu_milli=1000, job="train"),
        TracePod("b", 10.0, 50.0, cpu_milli=1000, job="train"),
        TracePod("single", 20.0, 5.0, cpu_milli=1000),
    )
    result = run_trial(trial_with(*pods))
    rows = index_jobs(result)
    assert (rows["train"].pods, rows["train"].jct, rows["train"].queued, rows["train"].slowdown) == (2, 100.0, 10.0, 1)
    assert (rows["single"].jct, rows["single"].slowdown) == (5.0, 1.0)
    assert result.trial.measures["makespan"] == 100.0


def gang(name: str, arrives: float, size: int, runs: float, cpu: int = 4000) -> list[TracePod]:
    return [TracePod(f"{name}-{n}", arrives, runs, cpu, job=name, gang=name, gang_size=size) for n in range(size)]


GROUPS = {"GenericWorkload": True}


def with_gates(trial: Trial, gates: dict[str, bool]) -> Trial:
    return replace(trial, policy=PolicyText("policy", trial.policy.config, gates=gates))


@pytest.mark.parametrize("kind", ["PodGroup", "Coscheduling"])
def test_gang_starts_together_or_waits_without_resources(kind: str) -> None:
    config = config_with(enabled=("Coscheduling",), disabled=("PrioritySort",)) if kind == "Coscheduling" else ""
    pods = [TracePod("first", 0.0, 100.0, 4000), *gang("both", 10.0, 2, 30.0), TracePod("small", 20.0, 5.0, 3000)]
    trial = with_gates(trial_with(*pods, config=config), GROUPS if kind == "PodGroup" else {})
    result = run_trial(trial)
    waits = {row.pod: row.waited for row in result.pods}
    assert waits["small"] == 0.0, "the gang reserves no node while it waits"
    assert waits["both-0"] == pytest.approx(waits["both-1"])
    assert 90.0 <= (waits["both-0"] or 0.0) < 102.0
    assert index_jobs(result)["both"].jct == pytest.approx((waits["both-0"] or 0.0) + 30.0)


@pytest.mark.release("1.37")
def test_gangs_without_a_group_plugin_can_block_each_other() -> None:
    pods = [*gang("x", 0.0, 2, 30.0), *gang("y", 0.0, 2, 30.0)]
    order = [pods[0], pods[2], pods[1], pods[3]]
    plain = run_trial(trial_with(*order))
    assert plain.trial.unplaced == 2, "each gang holds one node and waits for another"
    assert {row.jct for row in plain.jobs} == {None}
    assert sum(plain.reasons.values()) == 2
    assert all("Insufficient cpu" in reason for reason in plain.reasons)
    grouped = run_trial(with_gates(trial_with(*order), GROUPS))
    assert grouped.trial.unplaced == 0
    assert sorted(row.jct or 0.0 for row in grouped.jobs)[0] == 30.0


def test_dependent_pod_arrives_after_the_job_it_waits_for() -> None:
    pods = (
        TracePod("prepare-a", 0.0, 50.0, 100, job="prepare"),
        TracePod("prepare-b", 0.0, 80.0, 100, job="prepare"),
        TracePod("train", 10.0, 20.0, 100, after=("prepare",)),
        TracePod("late", 90.0, 1.0, 100, after=("prepare", "train")),
    )
    result = run_trial(trial_with(*pods))
    assert {row.pod: row.waited for row in result.pods} == {pod.name: 0.0 for pod in pods}
    rows = index_jobs(result)
    assert rows["train"].jct == 90.0, "from its arrival in the trace at 10 to 100"
    assert rows["late"].jct == 11.0
    missing = run_trial(trial_with(TracePod("a", after=("nothing",))))
    assert "waits for job 'nothing', which is not in the trace" in missing.trial.error


def test_pod_without_retries_left_fails_its_job() -> None:
    pods = (
        TracePod("twice", 0.0, 10.0, 100, fails=2, retries=1),
        TracePod("enough", 0.0, 10.0, 100, fails=2, retries=2),
        TracePod("never", 0.0, 10.0, 100, after=("twice",)),
    )
    result = run_trial(trial_with(*pods))
    rows = index_jobs(result)
    assert rows["twice"].jct is None
    assert rows["enough"].jct == 30.0
    assert rows["enough"].slowdown == 3.0
    assert {row.pod: row.reason for row in result.pods}["never"] == "waits for twice"


def test_limit_of_pods_per_node_holds_under_any_policy() -> None:
    pods = [TracePod(f"p{n}", cpu_milli=100, labels={"app": "web"}, max_per_node=2) for n in range(5)]
    other = TracePod("other", cpu_milli=100, labels={"app": "db"}, max_per_node=1)
    config = config_with(scores={"NodeResourcesFit": 1})
    result = run_trial(trial_with(*pods, other, config=config))
    nodes = [row.node for row in result.pods if row.pod.startswith("p") and row.node]
    assert sorted(nodes.count(name) for name in set(nodes)) == [2, 2]
    assert result.trial.unplaced == 1


class Events(Measures):
    """Records the raw events of a trial: kind, time, pod."""

    def __init__(self, play: Play[Any]) -> None:
        super().__init__(play)
        self.events: list[tuple[str, float, str]] = []
        self.lines: dict[str, TracePod] = {}

    def arrived(self, life: PodLife) -> None:
        self.lines[life.line.name] = life.line
        self.events.append(("pending", self.play.now, life.line.name))
        super().arrived(life)

    def bound(self, life: PodLife, *, is_first: bool) -> None:
        self.events.append(("bound", self.play.now, life.line.name))
        super().bound(life, is_first=is_first)

    def released(self, life: PodLife) -> None:
        self.events.append(("released", self.play.now, life.line.name))
        super().released(life)

    def done(self, life: PodLife) -> None:
        self.events.append(("done", self.play.now, life.line.name))
        super().done(life)


def busy_trial(seed: int) -> Trial:
    """Make a crowded trial with jobs, tenants, priorities and evictions; all pods end."""
    random = Random(seed)
    pods = [
        TracePod(
            f"p{number}",
            arrives=float(number * random.randrange(1, 12)),
            runs=float(random.randrange(5, 90)),
            cpu_milli=random.choice([500, 1000, 3000]),
            kind=random.choice(["batch", "web"]),
            tenant=random.choice(["red", "green", "blue"]),
            priority=random.choice([0, 0, 0, 10]),
            job=f"job{number % 13}" if number % 3 else "",
        )
        for number in range(60)
    ]
    return trial_with(*pods, cluster=pool_cluster(2, 4), seed=seed)


def run_recorded(trial: Trial) -> tuple[Events, TrialResult]:
    clock = VirtualClock()

    async def run() -> tuple[Events, TrialResult]:
        play = Play(trial, load_trial_policy(trial), clock, Events)
        await play.run()
        return play.watch, play.watch.result()

    return run_virtual(run(), clock)


@pytest.mark.parametrize("seed", range(3))
def test_costs_and_fairness_equal_those_recomputed_from_events(seed: int) -> None:
    watch, result = run_recorded(busy_trial(seed))
    lines, measures = watch.lines, result.trial.measures
    last_bound: dict[str, float] = {}
    pending: dict[str, float] = {}
    served: dict[str, float] = defaultdict(float)
    waited: dict[str, float] = defaultdict(float)
    lost = 0.0
    for kind, now, name in watch.events:
        line = lines[name]
        if kind == "pending":
            pending[name] = now
        elif kind == "bound":
            last_bound[name] = now
            waited[line.tenant] += line.cpu_milli * (now - pending[name])
        elif kind == "released":
            served[line.tenant] += line.cpu_milli * (now - last_bound[name])
            if now - last_bound[name] < (line.runs or 0.0) - 1e-6:
                lost += line.cpu_milli / 1000 * (now - last_bound[name])
            pending[name] = now  # an evicted pod returns immediately
    assert measures["evictions"] > 0, "the trial has preemptions"
    assert measures["lost.cpuHours"] == pytest.approx(lost / 3600)
    shares = {tenant: served[tenant] / (served[tenant] + waited[tenant]) for tenant in served}
    assert measures["fairness.jain"] == pytest.approx(jain_index(shares))
    assert measures["fairness.least"] == pytest.approx(min(shares.values()))


@pytest.mark.parametrize("seed", range(3))
def test_job_measures_equal_those_recomputed_from_events(seed: int) -> None:
    watch, result = run_recorded(busy_trial(seed))
    lines, measures = watch.lines, result.trial.measures
    first_bound: dict[str, float] = {}
    done: dict[str, float] = {}
    for kind, now, name in watch.events:
        if kind == "bound":
            first_bound.setdefault(name, now)
        elif kind == "done":
            done[name] = now
    jobs: dict[str, list[TracePod]] = defaultdict(list)
    for line in lines.values():
        jobs[line.job or line.name].append(line)
    jct, queueing, slowdown = {}, {}, {}
    for job, pods in jobs.items():
        arrival = min(pod.arrives for pod in pods)
        jct[job] = max(done[pod.name] for pod in pods) - arrival
        queueing[job] = max(first_bound[pod.name] for pod in pods) - arrival
        ideal = max(pod.arrives + (pod.runs or 0.0) for pod in pods) - arrival
        slowdown[job] = max(jct[job], 10.0) / max(ideal, 10.0)
    for name, values in (("jct", jct), ("queueing", queueing), ("slowdown", slowdown)):
        assert measures[f"{name}.mean"] == pytest.approx(fmean(values.values())), name
        assert measures[f"{name}.p50"] == pytest.approx(np.quantile(list(values.values()), 0.5)), name
        assert measures[f"{name}.p95"] == pytest.approx(np.quantile(list(values.values()), 0.95)), name
        curve = result.curves[name]
        assert (curve[0], curve[-1]) == pytest.approx((min(values.values()), max(values.values())))
        by_row = {row.job: getattr(row, {"queueing": "queued"}.get(name, name)) for row in result.jobs}
        assert by_row == pytest.approx(values), name
    assert measures["makespan"] == pytest.approx(max(done.values()))


@pytest.mark.parametrize("seed", range(3))
def test_queue_length_and_tenants_equal_those_recomputed_from_events(seed: int) -> None:
    watch, result = run_recorded(busy_trial(seed))
    end = max(line.arrives for line in watch.lines.values())
    waiting, queue, most, before = 0, 0.0, 0, 0.0
    gone: set[str] = set()
    finished = {name for kind, _, name in watch.events if kind == "done"}
    running: dict[str, float] = {}
    for index, (kind, now, name) in enumerate(watch.events):
        queue += waiting * max(0.0, min(now, end) - before)
        if now > before and before < end:
            most = max(most, waiting)
        before = max(before, min(now, end))
        is_last = all(other != name or k == "done" for k, _, other in watch.events[index + 1 :])
        if kind == "pending":
            waiting += 1
        elif kind == "bound":
            waiting -= 1
            running[name] = watch.lines[name].cpu_milli
        elif kind == "released":
            running.pop(name)
            if not is_last:
                waiting += 1
            else:
                gone.add(name)
    assert gone == finished
    assert result.trial.measures["queue.mean"] == pytest.approx(queue / end)
    assert result.trial.measures["queue.max"] == most
    for point in result.points:
        assert point.tenants is None or sum(point.tenants.values()) == pytest.approx(point.cpu)
    assert any(point.tenants for point in result.points)


@pytest.mark.parametrize(
    ("shares", "index"),
    [({"a": 1.0, "b": 1.0}, 1.0), ({"a": 1.0, "b": 0.0}, 0.5), ({"a": 0.5, "b": 1.0}, 0.9), ({}, 1.0)],
)
def test_jain_index(shares: dict[str, float], index: float) -> None:
    assert jain_index(shares) == pytest.approx(index)
