"""The indexes of unschedulable pods, compared with a search through all of them."""

from hypothesis import given
from hypothesis import strategies as st

from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.hints import Interest
from moorage.scheduler.queue.unschedulable import UnschedulablePods
from moorage.testing import make_pod

PLUGINS = ("Fit", "Taints", "Volumes")
PROFILE = "default-scheduler"
ENTRIES = st.tuples(
    st.sampled_from("abcd"), st.sets(st.sampled_from(PLUGINS), min_size=1), st.booleans(), st.integers(0, 50)
)


def entity(name: str, plugins: set[str], is_gated: bool, since: float) -> QueuedPodInfo:
    info = QueuedPodInfo(make_pod(name), since)
    info.rejected_by(plugins)
    info.gating_plugin = min(plugins) if is_gated else ""
    return info


def keys(infos: object) -> list[str]:
    return sorted(info.key for info in infos)  # type: ignore[attr-defined]


@given(st.lists(st.one_of(ENTRIES, st.sampled_from("abcd")), max_size=12))
def test_indexes_equal_a_search_after_any_history(steps: list[tuple[str, set[str], bool, int] | str]) -> None:
    pods = UnschedulablePods()
    present: dict[str, QueuedPodInfo] = {}
    for step in steps:
        if isinstance(step, str):
            removed = pods.remove(f"default/{step}")
            assert removed is present.pop(f"default/{step}", None)
        else:
            info = entity(*step)
            pods.put(info)
            present[info.key] = info
        pods.check_invariants()
        assert keys(pods) == sorted(present)
        for plugins in ((), PLUGINS[:1], PLUGINS[:2], PLUGINS):
            expected = [i for i in present.values() if not i.is_gated and i.rejectors.intersection(plugins)]
            interest = Interest("", False, {}, tuple((PROFILE, plugin) for plugin in plugins), frozenset(plugins))
            assert keys(pods.rejected_by(interest, None, None)) == keys(expected)
        for plugin in PLUGINS:
            gated = pods.find_gated((PROFILE, plugin), lambda: None)
            assert keys(gated) == keys(i for i in present.values() if i.gating_plugin == plugin)
        assert pods.oldest() == min((i.timestamp for i in present.values()), default=None)
        assert keys(pods.find_older(20, 40.0)) == keys(i for i in present.values() if 40.0 - i.timestamp > 20)


def test_reconsidered_pods_are_returned_until_the_plugin_was_called() -> None:
    pods, gate = UnschedulablePods(), (PROFILE, "Fit")
    for name in "ab":
        pods.put(entity(name, {"Fit"}, True, 0))
    assert keys(pods.find_gated(gate, lambda: ["default/a", "default/elsewhere"])) == ["default/a"]
    assert keys(pods.find_gated(gate, lambda: [])) == ["default/a"]
    pods.still_gated("default/a")
    assert keys(pods.find_gated(gate, lambda: [])) == []
    assert keys(pods.find_gated(gate, lambda: ["default/b"])) == ["default/b"]
    pods.remove("default/b")
    assert keys(pods.find_gated(gate, lambda: ["default/b"])) == []
