"""The summary of a report: better and worse policies, amounts and confidence."""

from moorage.lab.report.conclusions import (
    Scene,
    compare_pods,
    conclusions,
    find_baseline,
    render_differences,
    summarize,
)
from moorage.lab.trial import PodRow, TrialResult, TrialRow

Values = dict[str, tuple[float, ...]]


def make_scene(trace: str = "t", **policies: Values) -> Scene:
    results = [
        TrialResult(TrialRow(trace, "c", name, seed, measures={key: values[seed] for key, values in measures.items()}))
        for name, measures in policies.items()
        for seed in range(len(next(iter(measures.values()))))
    ]
    return Scene(trace, "c", list(policies), results)


BASE: Values = {"cost": (100.0,) * 6, "allocation.cpu": (0.5,) * 6}
CHEAP: Values = {"cost": (60.0, 62.0, 64.0) * 2, "allocation.cpu": (0.5,) * 6}
MIXED: Values = {"cost": (60.0, 62.0, 64.0) * 2, "allocation.cpu": (0.4, 0.41, 0.42) * 2}
BAD: Values = {"cost": (100.0,) * 6, "allocation.cpu": (0.4, 0.41, 0.42) * 2}


def test_policies_are_grouped_by_their_differences() -> None:
    text = summarize([make_scene(base=BASE, cheap=CHEAP, mixed=MIXED, bad=BAD, same=BASE)], "base")
    assert "not significantly worse in any measure: <b>cheap</b> (Cost of all nodes: 38.00 or 38% less)." in text
    # Measures are in the order of the report: the gain first, then the loss.
    assert (
        "worse in others: <b>mixed</b> (Cost of all nodes: 38.00 or 38% less, CPU allocated: 9.0 points less)" in text
    )
    assert "Worse than base: <b>bad</b> (CPU allocated: 9.0 points less)." in text
    assert "No significant difference from base with 6 seeds: <b>same</b>." in text
    assert "<h3>" not in text, "one scene needs no title"


def test_few_seeds_are_noted() -> None:
    def summarize_seeds(count: int) -> str:
        policies = {name: {"cost": (price,) * count} for name, price in (("base", 2.0), ("other", 1.0))}
        return summarize([make_scene(**policies)], "base")

    assert "One seed is not enough" in summarize_seeds(1)
    assert "with 1 seed:" in summarize_seeds(1)
    assert "2 seeds are not enough" in summarize_seeds(2)
    assert "5 seeds are not enough" in summarize_seeds(5)
    assert "not enough" not in summarize_seeds(6)
    uneven = make_scene(base={"cost": (2.0,) * 6}, other={"cost": (1.0,) * 3})
    assert "3 seeds are not enough" in summarize([uneven], "base"), "the smallest number counts"


def test_scenes_have_titles_and_a_lone_policy_has_no_summary() -> None:
    text = summarize([make_scene("one", base=BASE, cheap=CHEAP), make_scene("two", base=BASE, cheap=CHEAP)], "base")
    assert "<h3>one on c</h3>" in text
    assert "<h3>two on c</h3>" in text
    assert summarize([make_scene(base=BASE)], "base") == ""


def test_baseline_without_results_is_replaced() -> None:
    scene = make_scene(base=BASE, cheap=CHEAP)
    assert find_baseline(scene, "cheap") == "cheap"
    assert find_baseline(scene, "failed") == "base"


def test_cards_describe_each_significant_difference() -> None:
    text = conclusions(make_scene(base=BASE, mixed=MIXED, same=BASE), "base")
    assert '<li class="good">Cost of all nodes: <b>38.00 or 38% less</b>' in text
    assert "between 36.00 and 40.00" in text
    assert '<li class="bad">CPU allocated: <b>9.0 points less</b>' in text
    assert "<li class=quiet>no significant difference</li>" in text
    assert text.count('<article class="card">') == 2
    assert 'swatch c1"></i>mixed' in text
    assert conclusions(make_scene(base=BASE), "base") == ""


def test_amount_of_more_is_relative_to_the_baseline() -> None:
    text = conclusions(make_scene(base={"cost": (50.0,) * 6}, more={"cost": (75.0,) * 6}), "base")
    assert "<b>25.00 or 50% more</b>" in text
    free = conclusions(make_scene(base={"cost": (0.0,) * 6}, more={"cost": (75.0,) * 6}), "base")
    assert "<b>75.00 more</b>" in free


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
    assert "The first 100 of 103 pods" in text
    assert "sooner" not in text
    assert "pods.jsonl" not in render_moved(100)
    assert "The first 100 of 101 pods" in render_moved(101)


def test_pods_that_only_wait_longer_are_counted() -> None:
    assert "0 got a node sooner, 2 later" in render_moved(2, waited=5.0)


def test_pods_with_a_node_under_one_policy_are_counted_apart() -> None:
    before = {name: row(name, None if name in "abc" else 1.0, "") for name in "abcdefgh"}
    after = {name: row(name, None if name in "cdefg" else 1.0, "") for name in "abcdefgh"}
    differences = compare_pods(before, after)
    assert (differences.only_before, differences.only_after) == (4, 2)
