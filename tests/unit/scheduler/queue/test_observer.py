"""The recorded moves of pods."""

from tests.unit.scheduler.queue.queue_bench import NODE_ADD, Bench

from moorage.scheduler.queue.observer import Story
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
    story.on_group_move(pods, "active", "PodGroupAdd")
    assert [[(step.queue, step.event) for step in story.of(pod)] for pod in pods] == [[("active", "PodGroupAdd")]] * 2
