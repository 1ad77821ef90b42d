"""Pods with another node or waiting time under another policy."""

from moorage.lab.report.differences import compare_pods, render_differences
from moorage.lab.report.scenes import Scene
from moorage.lab.trial import PodRow, TrialResult, TrialRow


def row(pod: str, waited: float | None, node: str) -> PodRow:
    return PodRow("t", "c", "p", 1, pod, "web", 0.0, waited, node)


BEFORE = [row("same", 1.0, "n1"), row("moved", 1.0, "n1"), row("later", 1.0, "n1"), row("sooner", 9.0, "n1")]
BEFORE += [row("lost", 1.0, "n1"), row("gained", None, ""), row("never", None, ""), row("only here", 0.0, "n1")]
AFTER = [row("same", 1.0, "n1"), row("moved", 1.0, "n2"), row("later", 4.0, "n1"), row("sooner", 2.0, "n2")]
AFTER += [row("lost", None, ""), row("gained", 5.0, "n2"), row("never", None, "")]


def test_pods_are_counted_by_node_and_waiting_time() -> None:
    differences = compare_pods({pod.pod: pod for pod in BEFORE}, {pod.pod: pod for pod in AFTER})
    assert differences.pods == 7
    assert differences.other_node == 2
    assert (differences.only_before, differences.only_after) == (1, 1)
    assert (differences.sooner, differences.later) == (2, 2)
    assert [pod.before.pod for pod in differences.moved] == ["gained", "lost", "sooner", "later", "moved"]


def test_comparison_is_rendered_for_the_first_common_seed() -> None:
    def result(name: str, seed: int, pods: list[PodRow]) -> TrialResult:
        return TrialResult(TrialRow("t", "c", name, seed), pods=tuple(pods))

    results = [result("base", 1, []), result("base", 2, BEFORE), result("other", 1, AFTER), result("other", 2, AFTER)]
    text = render_differences(Scene("t", "c", ["base", "other"], results), "base")
    assert "<b>other</b>, seed 2: 2 of 7 pods got another node; 2 got a node sooner, 2 later; 1 got a node only" in text
    assert "<td>later</td><td>web</td><td>n1</td><td>n1</td><td>1s → 4s</td>" in text
    assert "<td>lost</td><td>web</td><td>n1</td><td>–</td><td>1s → never</td>" in text
    assert text.count("<details>") == 1
    assert render_differences(Scene("t", "c", ["base"], results), "base") == ""


def render_moved(count: int, waited: float = 0.0) -> str:
    before = [row(f"p{number}", 0.0, "n1") for number in range(count)]
    after = [row(f"p{number}", waited, "n2") for number in range(count)]
    results = [
        TrialResult(TrialRow("t", "c", name, 1), pods=tuple(pods)) for name, pods in (("base", before), ("x", after))
    ]
    return render_differences(Scene("t", "c", ["base", "x"], results), "base")


def test_long_list_is_truncated() -> None:
    text = render_moved(103)
    assert text.count("<td>n1</td>") == 100
    assert ">3 more are in pods.jsonl." in text
    assert "sooner" not in text
    assert "more are in pods.jsonl" not in render_moved(100)
    assert ">1 more are in pods.jsonl." in render_moved(101)


def test_pods_that_only_wait_longer_are_counted() -> None:
    assert "0 got a node sooner, 2 later" in render_moved(2, waited=5.0)
