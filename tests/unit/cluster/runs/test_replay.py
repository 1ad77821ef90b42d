"""A recorded simulation, shown at any moment."""

from random import Random

import numpy as np
import pytest
from tests.unit.insight.page.clusters import job, node, pod, replayed

from moorage.cluster.runs import replay
from moorage.cluster.runs.recording import StepKind
from moorage.cluster.runs.replay import ClusterMoment

CLUSTER = (node("n1"), node("n2"), pod("web", node="n1"), pod("too-big", "9"), job("short", 6, 1), job("long", 6, 5))


def facts(moment: ClusterMoment) -> tuple[object, ...]:
    waiting = {key: (record.place, record.attempts, record.failure) for key, record in moment.waiting.items()}
    return moment.requested["cpu"].tolist(), moment.pods.tolist(), dict(moment.placed), waiting, moment.bound


def test_state_at_a_time_is_independent_of_the_seek_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "CHECKPOINT_STEPS", 7)
    run, chance = replayed(CLUSTER), Random(1)
    for _ in range(40):
        seconds = chance.uniform(-1.0, run.seconds + 1.0)
        assert facts(run.at(seconds)) == facts(run.apart().at(seconds))


def test_node_usage_equals_requests_of_its_pods() -> None:
    run = replayed(CLUSTER)
    for seconds in np.linspace(0.0, run.seconds, 25):
        moment = run.at(float(seconds))
        for row, placed_on in enumerate(run.nodes):
            on_it = [run.pods[key] for key, name in moment.placed.items() if name == placed_on.name]
            assert moment.requested["cpu"][row] == sum(placed_pod.requests["cpu"] for placed_pod in on_it) <= 4000
            assert moment.pods[row] == len(on_it)


def test_replay_starts_with_the_input_and_ends_with_the_last_event() -> None:
    run = replayed(CLUSTER)
    assert run.at(-1.0).placed == {}
    begin = run.at(0.0)
    assert (begin.placed, "shop/too-big" in begin.waiting) == ({"shop/web": "n1"}, True)
    end = run.at(run.seconds)
    assert (list(end.placed), list(end.waiting)) == (["shop/web"], ["shop/too-big"])
    assert end.bound == 12
    # The pod that fits nowhere is tried for the rest of the day, and always fails alike.
    assert 300 < run.seconds < 900
    assert max(step.moment for step in run.steps) == run.seconds


def test_reasons_of_pending_pods_are_sorted_by_frequency() -> None:
    run = replayed((node("n1"), node("n2"), node("n3", spec={"unschedulable": True}), pod("too-big", "9")))
    record = run.at(run.seconds).waiting["shop/too-big"]
    assert record.failure is not None
    assert record.failure.reasons == ("Insufficient cpu", "node(s) were unschedulable")
    assert record.place == "unschedulable"
    assert [step.what for step in run.steps].count(StepKind.WAITS) == 1


def test_reason_of_nodes_that_could_fit_later_precedes_more_frequent_ones() -> None:
    closed = [node(f"closed-{number}", spec={"unschedulable": True}) for number in range(3)]
    run = replayed((node("n1"), *closed, pod("web", "3", node="n1"), pod("waits", "2")))
    failure = run.at(run.seconds).waiting["shop/waits"].failure
    assert failure is not None
    assert failure.reasons == ("Insufficient cpu", "node(s) were unschedulable")


def test_pods_at_a_moment_can_be_queried() -> None:
    run = replayed(CLUSTER)
    pods = {placed_pod.key: placed_pod.node_name for placed_pod in run.replay_pods(30.0)}
    assert len(pods) == 14
    assert (pods["shop/web"], pods["shop/too-big"]) == ("n1", "")
    assert len([name for name in pods.values() if name]) == 8
