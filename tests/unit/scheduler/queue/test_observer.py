"""The recorded moves of pods."""

from tests.unit.scheduler.queue.queue_bench import NODE_ADD, Bench

from moorage.scheduler.framework.faults import FaultRecord
from moorage.scheduler.queue.observer import Story, report_raised
from moorage.testing import make_pod


def test_story_returns_the_moves_of_a_pod() -> None:
    story = Story(length=5)
    bench = Bench(observer=story)
    pod = bench.add("p")
    bench.add("other")
    bench.fail(bench.pop("p"), "Fit")
    assert [(step.queue, step.event) for step in story.of(pod)] == [
        ("active", "UnscheduledPodAdd"),
        ("in-flight", "attempt 1"),
        ("unschedulable", "ScheduleAttemptFailure"),
    ]
    bench.move(NODE_ADD)
    bench.wait(5)
    assert [(step.queue, step.event) for step in story.of(pod)] == [
        ("in-flight", "attempt 1"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "BackoffComplete"),
    ]


def test_story_records_each_pod_of_a_group() -> None:
    story, pods = Story(), [make_pod("a", uid="a"), make_pod("b", uid="b")]
    story.group_moved(pods, "active", "PodGroupAdd")
    assert [[(step.queue, step.event) for step in story.of(pod)] for pod in pods] == [[("active", "PodGroupAdd")]] * 2


def test_an_exception_is_reported_with_its_method_if_there_is_an_observer() -> None:
    failures: list[tuple[str, str, object]] = []

    class Failures(Story):
        def plugin_failed(self, plugin: str, pod: object, problem: object) -> None:
            failures.append((plugin, pod.name, problem))  # type: ignore[attr-defined]

    for observer in (Failures(), None):
        report_raised(observer, FaultRecord(), "Gate.pre_enqueue", make_pod("p"), ValueError("no route"))
    assert failures == [("Gate", "p", "Gate.pre_enqueue raised ValueError: no route")]


def test_an_exception_is_recorded_without_an_observer() -> None:
    faults, error = FaultRecord(), ValueError("no route")
    report_raised(None, faults, "Gate.pre_enqueue", make_pod("p"), error)
    assert faults.first is error
