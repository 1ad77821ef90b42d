"""MultiPoint expansion: order, weights, and what cannot be built."""

import pytest

from moorage.common.errors import ConfigError
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import (
    KNOWN_PLUGINS,
    EnabledPlugins,
    ExtensionPoint,
    PluginEntry,
    Plugins,
    PluginSet,
    ProfileConfig,
    default_config,
    expand_plugins,
)
from moorage.scheduler.config.expansion import merge_plugins, merge_set
from moorage.scheduler.config.plugin_facts import default_plugins

POINTS = {
    "Sort": "queueSort",
    "Sort2": "queueSort",
    "Bind": "bind",
    "F1": "filter",
    "F2": "filter",
    "F3": "filter",
    "Both": "filter score",
    "S1": "score",
    "P1": "placementScore placementGenerate",
    "P2": "placementGenerate",
}
BASE = "Sort Bind "


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    return PluginSet(enabled=entries(enabled), disabled=entries(disabled))


def entries(text: str) -> tuple[PluginEntry, ...]:
    return tuple(
        PluginEntry(name, int(weight or 0)) for name, _, weight in (item.partition(":") for item in text.split())
    )


def expand(multi_point: str, **sets: PluginSet) -> EnabledPlugins:
    profile = ProfileConfig(scheduler_name="mine", plugins=Plugins(multi_point=plugin_set(multi_point), **sets))
    return expand_plugins(profile, lambda name: POINTS[name].split() if name in POINTS else None, where="profiles[0]")


ORDER = {
    "MultiPoint's order": (BASE + "F2 F1", {}, "F2 F1"),
    "plugins that do not filter are skipped": (BASE + "F1 S1 F2", {}, "F1 F2"),
    "one disabled at the point is skipped": (BASE + "F1 F2", {"filter": plugin_set(disabled="F1")}, "F2"),
    "repeating a plugin moves it to the front": (BASE + "F1 F2 F3", {"filter": plugin_set("F3")}, "F3 F1 F2"),
    "several plugins in the point's own order": (BASE + "F1 F2 F3", {"filter": plugin_set("F3 F2")}, "F3 F2 F1"),
    "a plugin outside of MultiPoint is last": (BASE + "F1 F2", {"filter": plugin_set("F3")}, "F1 F2 F3"),
    "both together": (BASE + "F1 F2", {"filter": plugin_set("F3 F2")}, "F2 F1 F3"),
    "a star leaves the point's own list": (BASE + "F1 F2", {"filter": plugin_set("F3", "*")}, "F3"),
    "disabled but in the point's own list remains, last": (
        BASE + "F1 F2",
        {"filter": plugin_set("F1", "F1")},
        "F2 F1",
    ),
    "a plugin twice in MultiPoint is fine where the point names it": (
        BASE + "F1 F1",
        {"filter": plugin_set("F1")},
        "F1",
    ),
}


@pytest.mark.parametrize(("multi_point", "sets", "want"), ORDER.values(), ids=ORDER)
def test_order(multi_point: str, sets: dict[str, PluginSet], want: str) -> None:
    assert expand(multi_point, **sets)[ExtensionPoint.FILTER] == tuple(want.split())


WEIGHTS = {
    "MultiPoint's weight": (BASE + "S1:4 Both:2", {}, {"S1": 4, "Both": 2}),
    "a missing weight is one": (BASE + "S1 Both:0", {}, {"S1": 1, "Both": 1}),
    "the point's own weight wins": (BASE + "S1:4", {"score": plugin_set("S1:7")}, {"S1": 7}),
    "even a missing one": (BASE + "S1:4", {"score": plugin_set("S1")}, {"S1": 1}),
    "a plugin disabled for scoring has none": (BASE + "S1:4 Both", {"score": plugin_set(disabled="S1")}, {"Both": 1}),
}


@pytest.mark.parametrize(("multi_point", "sets", "want"), WEIGHTS.values(), ids=WEIGHTS)
def test_score_weights(multi_point: str, sets: dict[str, PluginSet], want: dict[str, int]) -> None:
    assert expand(multi_point, **sets).score_weights == want


def test_placement_scores_have_separate_weights() -> None:
    enabled = expand(BASE + "P1:5 S1:2")
    assert (enabled.placement_score_weights, enabled.score_weights) == ({"P1": 5}, {"S1": 2})


def test_names_of_all_points_are_listed_once() -> None:
    assert set(expand(BASE + "Both F1").names) == {"Sort", "Bind", "Both", "F1"}


REFUSED = {
    "an unknown plugin at a point": (
        BASE,
        {"filter": plugin_set("Nope")},
        ['profiles[0].plugins.filter.enabled[0]: FilterPlugin "Nope" does not exist'],
    ),
    "an unknown plugin in MultiPoint": (
        BASE + "Nope",
        {},
        ['profiles[0].plugins.multiPoint.enabled[2]: PreFilterPlugin "Nope" does not exist'],
    ),
    "a plugin that does not implement the point": (
        BASE,
        {"score": plugin_set("F1")},
        [
            'profiles[0].plugins.score.enabled[0]: plugin "F1" does not extend ScorePlugin plugin',
            "  hint: enable it under multiPoint, or at its extension points: filter",
        ],
    ),
    "a plugin twice at a point": (
        BASE,
        {"filter": plugin_set("F1 F1")},
        ['profiles[0].plugins.filter.enabled[1]: plugin "F1" already registered as "FilterPlugin"'],
    ),
    "a plugin twice in MultiPoint": (
        BASE + "Both Both",
        {},
        ['profiles[0].plugins.multiPoint: plugin "Both" already registered as "FilterPlugin"'],
    ),
    "no queue sort": (
        "Bind",
        {},
        [
            'profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "mine"'
            ", but got 0"
        ],
    ),
    "two queue sorts": (
        BASE + "Sort2",
        {},
        [
            'profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "mine"'
            ", but got 2",
            "  hint: disable PrioritySort: queueSort.disabled: [{name: PrioritySort}]",
        ],
    ),
    "nothing binds": (
        "Sort",
        {},
        ['profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "mine"'],
    ),
    "two generate placements": (
        BASE + "P1 P2",
        {},
        [
            "profiles[0].plugins.placementGenerate: at most one placement generate plugin is allowed "
            'for profile with scheduler name "mine"'
        ],
    ),
    "several problems together": (
        "Sort Nope",
        {"score": plugin_set("F1")},
        [
            'profiles[0].plugins.score.enabled[0]: plugin "F1" does not extend ScorePlugin plugin',
            "  hint: enable it under multiPoint, or at its extension points: filter",
            'profiles[0].plugins.multiPoint.enabled[1]: PreFilterPlugin "Nope" does not exist',
            'profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "mine"',
        ],
    ),
    "weights that could overflow": (
        BASE + f"S1:{2**60}",
        {},
        ["profiles[0].plugins.score: score plugins: total score of Score plugins could overflow"],
    ),
    "a negative weight before another one": (
        BASE + "S1:-1 Both",
        {},
        ["profiles[0].plugins.score: score plugins: total score of Score plugins could overflow"],
    ),
    "placement weights that could overflow": (
        BASE + f"P1:{2**60}",
        {},
        ["profiles[0].plugins.placementScore: placement score plugins: total score of Score plugins could overflow"],
    ),
}


@pytest.mark.parametrize(("multi_point", "sets", "want"), REFUSED.values(), ids=REFUSED)
def test_rejected(multi_point: str, sets: dict[str, PluginSet], want: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        expand(multi_point, **sets)
    assert str(refusal.value).splitlines() == want


FILTERS = (
    "NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions "
    "NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
)
DEFAULT_ORDER = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queueSort": "PrioritySort",
    "preFilter": FILTERS,
    "filter": FILTERS,
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
    "NodeResourcesBalancedAllocation",
    "score": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
    "DynamicResources NodeResourcesBalancedAllocation ImageLocality",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "postBind": "",
    "placementGenerate": "",
    "placementScore": "NodeResourcesFit",
    "podGroupPostFilter": "DynamicResources DefaultPreemption",
}


@pytest.mark.release("1.37")
@pytest.mark.parametrize(("point", "want"), DEFAULT_ORDER.items(), ids=DEFAULT_ORDER)
def test_default_order(point: str, want: str) -> None:
    enabled = expand_plugins(default_config(gates=FeatureGates()).profiles[0], lambda name: KNOWN_PLUGINS[name].points)
    assert enabled[ExtensionPoint(point)] == tuple(want.split())


def test_default_score_weights() -> None:
    enabled = expand_plugins(default_config().profiles[0], lambda name: KNOWN_PLUGINS[name].points)
    assert enabled.score_weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


DEFAULTS = PluginSet(enabled=(PluginEntry("A"), PluginEntry("B", 3), PluginEntry("C", 2)))
MERGED = {
    "nothing written keeps the defaults": (plugin_set(), plugin_set("A B:3 C:2")),
    "a disabled default is removed and recorded": (plugin_set(disabled="B"), plugin_set("A C:2", "B")),
    "a star takes every default": (plugin_set(disabled="*"), plugin_set("", "*")),
    "after a star only the user's are left": (plugin_set("X B", "*"), plugin_set("X B", "*")),
    "a new plugin is appended": (plugin_set("X:7"), plugin_set("A B:3 C:2 X:7")),
    "a repeated default keeps its position and gets the new weight": (plugin_set("B:9"), plugin_set("A B:9 C:2")),
    "without a weight it has none": (plugin_set("B"), plugin_set("A B C:2")),
    "disabled and enabled is enabled, at the end": (plugin_set("B:9", "B"), plugin_set("A C:2 B:9", "B")),
    "repetitions remain": (plugin_set("X X"), plugin_set("A B:3 C:2 X X")),
    "of a repeated default the last one takes its place": (plugin_set("B:1 B:2"), plugin_set("A B:2 C:2 B:1")),
    "weights of disabled entries are dropped": (plugin_set(disabled="B:4"), plugin_set("A C:2", "B")),
}


@pytest.mark.parametrize(("custom", "want"), MERGED.values(), ids=MERGED)
def test_merge(custom: PluginSet, want: PluginSet) -> None:
    assert merge_set(DEFAULTS, custom) == want


def test_default_disabled_entries_follow_the_users() -> None:
    merged = merge_set(PluginSet(enabled=(PluginEntry("A"),), disabled=(PluginEntry("Z"),)), plugin_set(disabled="A"))
    assert merged == plugin_set("", "A Z")


def test_sets_are_merged_one_by_one() -> None:
    defaults = default_plugins(FeatureGates())
    custom = type(defaults)(score=plugin_set("NodeName:4", "ImageLocality"))
    merged = merge_plugins(defaults, custom)
    assert merged.score == plugin_set("NodeName:4", "ImageLocality")
    assert merged.multi_point == defaults.multi_point
