"""The summary of a report: better and worse policies, amounts and confidence."""

from moorage.lab.report.conclusions import conclusions, find_baseline, summarize
from moorage.lab.report.scenes import Scene
from moorage.lab.trial import TrialResult, TrialRow

Values = dict[str, tuple[float, ...]]


def make_scene(trace: str = "t", **policies: Values) -> Scene:
    results = [
        TrialResult(TrialRow(trace, "c", name, seed, measures={key: values[seed] for key, values in measures.items()}))
        for name, measures in policies.items()
        for seed in range(len(next(iter(measures.values()))))
    ]
    return Scene(trace, "c", list(policies), results)


BASE: Values = {"cost": (100.0, 100.0, 100.0), "allocation.cpu": (0.5, 0.5, 0.5)}
CHEAP: Values = {"cost": (60.0, 62.0, 64.0), "allocation.cpu": (0.5, 0.5, 0.5)}
MIXED: Values = {"cost": (60.0, 62.0, 64.0), "allocation.cpu": (0.4, 0.41, 0.42)}
BAD: Values = {"cost": (100.0, 100.0, 100.0), "allocation.cpu": (0.4, 0.41, 0.42)}


def test_policies_are_grouped_by_their_differences() -> None:
    text = summarize([make_scene(base=BASE, cheap=CHEAP, mixed=MIXED, bad=BAD, same=BASE)], "base")
    assert "in no measure significantly worse: <b>cheap</b> (Cost of all nodes: 38.00 or 38% less)." in text
    # Measures are in the order of the report: the gain first, then the loss.
    assert (
        "worse in others: <b>mixed</b> (Cost of all nodes: 38.00 or 38% less, CPU allocated: 9.0 points less)" in text
    )
    assert "Worse than base: <b>bad</b> (CPU allocated: 9.0 points less)." in text
    assert "No significant difference from base with 3 seeds: <b>same</b>." in text
    assert "<h3>" not in text, "one scene needs no title"


def test_few_seeds_are_noted() -> None:
    def summarize_seeds(count: int) -> str:
        policies = {name: {"cost": (price,) * count} for name, price in (("base", 2.0), ("other", 1.0))}
        return summarize([make_scene(**policies)], "base")

    assert "give only a hint" not in summarize_seeds(1)
    assert "with 1 seed:" in summarize_seeds(1)
    assert "2 seeds give only a hint" in summarize_seeds(2)
    assert "5 seeds give only a hint" in summarize_seeds(5)
    assert "give only a hint" not in summarize_seeds(6)
    uneven = make_scene(base={"cost": (2.0,) * 6}, other={"cost": (1.0,) * 3})
    assert "3 seeds give only a hint" in summarize([uneven], "base"), "the smallest number counts"


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
    text = conclusions(make_scene(base={"cost": (50.0, 50.0)}, more={"cost": (75.0, 75.0)}), "base")
    assert "<b>25.00 or 50% more</b>" in text
    free = conclusions(make_scene(base={"cost": (0.0, 0.0)}, more={"cost": (75.0, 75.0)}), "base")
    assert "<b>75.00 more</b>" in free
