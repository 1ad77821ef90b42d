import pytest
from tests.unit.scheduler.plugins.pod_topology_spread.spread_builders import CLUSTER, SOFT, on, pod, spread, verdict

from moorage.kube.api.affinity import Affinity, NodeAffinity
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import SKIP, Code, Status
from moorage.scheduler.plugins.pod_topology_spread.filter import LABEL_MISSING, TOO_UNEVEN, CriticalPaths
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.testing import make_node
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

ONLY_AB = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("zone", "In", ("a", "b")),)),))


FILTERS: dict[str, tuple[list[Pod], Pod, str]] = {
    "an empty cluster takes the pod anywhere the key is": ([], pod(spread()), ".....m"),
    "a fuller domain than the emptiest is closed": (on("a1"), pod(spread()), "uu...m"),
    "a larger skew opens it": (on("a1"), pod(spread(2)), ".....m"),
    "all nodes of a domain count together": (on("a1", "a2", "b1", "c1"), pod(spread()), "uu...m"),
    "equally full domains are all open": (on("a1", "b1", "c1"), pod(spread()), ".....m"),
    "a pod that does not match its own selector adds nothing": (on("a1"), pod(spread(), app="db"), ".....m"),
    "then two too many close a domain": (on("a1", "a1"), pod(spread(), app="db"), "uu...m"),
    "pods of other namespaces do not count": (on("a1", namespace="other"), pod(spread()), ".....m"),
    "pods with other labels do not count": (on("a1", app="db"), pod(spread()), ".....m"),
    "terminating pods do not count": (on("a1", terminating=True), pod(spread()), ".....m"),
    "pods on nodes without the key do not count": (on("bare"), pod(spread()), ".....m"),
    "no selector selects nothing": (on("a1", "a1"), pod(spread(label_selector=None)), ".....m"),
    "an empty selector counts no pod, though it matches the pod itself": (
        on("a1", "a1"),
        pod(spread(label_selector=LabelSelector())),
        ".....m",
    ),
    "with it and too small a skew no node will do": ([], pod(spread(0, label_selector=LabelSelector())), "uuuuum"),
    "host names are domains, too": (on("a1"), pod(spread(key=HOSTNAME_LABEL)), "u....."),
    "too few domains are treated like an empty one": (on("a1", "b1", "c1"), pod(spread(min_domains=4)), "uuuuum"),
    "enough domains do not": (on("a1", "b1", "c1"), pod(spread(min_domains=3)), ".....m"),
    "every constraint must hold": (
        on("a1", "b1", "c1"),
        pod(spread(), spread(key=HOSTNAME_LABEL)),
        "u.u.um",
    ),
    "only nodes with all keys make domains": (on("a1", "c1"), pod(spread(), spread(key="tier")), "mmmm.m"),
    "the first constraint that fails gives the reason": (
        [],
        pod(spread(0, HOSTNAME_LABEL, min_domains=2), spread(key="tier", label_selector=None)),
        "uuuuuu",
    ),
    "a missing first key does as well": (
        [],
        pod(spread(key="tier", label_selector=None), spread(0, HOSTNAME_LABEL, min_domains=2)),
        "mmmmum",
    ),
    "nodes the pod's node selector excludes make no domains": (
        on("a1"),
        pod(spread(), node_selector={"zone": "a"}),
        ".....m",
    ),
    "nor do nodes its required affinity excludes": (
        on("a1", "b1"),
        pod(spread(), affinity=Affinity(node_affinity=NodeAffinity(required=ONLY_AB))),
        ".....m",
    ),
    "unless the constraint ignores affinity": (
        on("a1", "b1"),
        pod(spread(node_affinity_policy="Ignore"), affinity=Affinity(node_affinity=NodeAffinity(required=ONLY_AB))),
        "uuuu.m",
    ),
    "tainted nodes make domains although the pod cannot go there": (on("a1", "b1"), pod(spread()), "uuuu.m"),
    "unless the constraint honors taints": (on("a1", "b1"), pod(spread(node_taints_policy="Honor")), ".....m"),
    "or the pod tolerates them": (
        on("a1", "b1"),
        pod(spread(node_taints_policy="Honor"), tolerates=["dedicated"]),
        "uuuu.m",
    ),
    "pods in an omitted domain are not counted": (
        on("c1", "c1"),
        pod(spread(node_taints_policy="Honor")),
        ".....m",
    ),
    "matchLabelKeys narrow the selector to the pod's own value": (
        [*on("a1", labels={"rev": "1"}), *on("b1", labels={"rev": "2"})],
        pod(spread(match_label_keys=("rev",)), labels={"rev": "2"}),
        "..uu.m",
    ),
    "a key the pod lacks narrows nothing": (on("a1"), pod(spread(match_label_keys=("absent",))), "uu...m"),
    "narrowing nothing leaves nothing": (
        on("a1"),
        pod(spread(label_selector=None, match_label_keys=("app",))),
        ".....m",
    ),
    "narrowing an empty selector makes it count": (
        on("a1"),
        pod(spread(label_selector=LabelSelector(), match_label_keys=("app",))),
        "uu...m",
    ),
    "soft constraints do not filter": (on("a1", "a1"), pod(spread(when_unsatisfiable=SOFT)), "......"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("existing", "incoming", "want"), FILTERS.values(), ids=FILTERS)
def test_filter(form: FilterForm, existing: list[Pod], incoming: Pod, want: str) -> None:
    rig = Rig(*CLUSTER, *existing)
    assert run_filter(PodTopologySpread(handle=rig), rig, incoming, form) == verdict(want)


def test_reasons_and_codes() -> None:
    text = "node(s) didn't match pod topology spread constraints"
    assert Status.unschedulable(text) == TOO_UNEVEN
    assert Status.unresolvable(f"{text} (missing required label)") == LABEL_MISSING


def test_pre_filter_skips_without_hard_constraints() -> None:
    rig = Rig(*CLUSTER)
    plugin = PodTopologySpread(handle=rig)
    assert plugin.pre_filter(CycleState(), pod(), rig.nodes) == SKIP
    assert plugin.pre_filter(CycleState(), pod(spread(when_unsatisfiable=SOFT)), rig.nodes) == SKIP
    assert plugin.pre_score(CycleState(), pod(spread()), rig.nodes) == SKIP


def test_a_selector_that_cannot_be_read_is_an_error_where_it_is_used() -> None:
    bad = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Near"),))
    rig = Rig(*CLUSTER)
    plugin, incoming = PodTopologySpread(handle=rig), pod(spread(label_selector=bad))
    answer = plugin.pre_filter(CycleState(), incoming, rig.nodes)
    assert isinstance(answer, Status)
    assert answer.code == Code.ERROR
    prefix = "get constraints from pod: obtaining pod's hard topology spread constraints: app: operator 'Near'"
    assert answer.message.startswith(prefix)
    assert plugin.pre_score(CycleState(), incoming, rig.nodes) == SKIP
    soft = plugin.pre_score(CycleState(), pod(spread(label_selector=bad, when_unsatisfiable=SOFT)), rig.nodes)
    assert soft is not None
    assert soft.message.startswith("calculating preScoreState: obtaining pod's soft topology spread constraints: app")


def test_match_label_keys_are_ignored_without_their_gate() -> None:
    gates = FeatureGates(
        {"MatchLabelKeysInPodTopologySpread": False, "MatchLabelKeysInPodTopologySpreadSelectorMerge": False}
    )
    rig = Rig(*CLUSTER, *on("a1", labels={"rev": "1"}), features=gates)
    incoming = pod(spread(match_label_keys=("rev",)), labels={"rev": "2"})
    assert run_filter(PodTopologySpread(handle=rig), rig, incoming, FORMS[1]) == verdict("uu...m")


WHAT_IFS: dict[str, tuple[list[Pod], Pod, list[tuple[str, Pod]], str]] = {
    "adding a pod closes its domain": ([], pod(spread()), [("add", on("a1")[0])], "uu...m"),
    "removing it opens it": (on("a1", uid="1"), pod(spread()), [("remove", on("a1", uid="1")[0])], ".....m"),
    "filling the emptiest domain moves the minimum": (on("a1", "b1"), pod(spread()), [("add", on("c1")[0])], ".....m"),
    "emptying the fullest leaves the rest": (
        on("a1", "b1", "b2"),
        pod(spread()),
        [("remove", on("a1")[0])],
        "..uu.m",
    ),
    "pods of another namespace change nothing": (
        on("a1"),
        pod(spread()),
        [("add", pod(node="b1", namespace="other"))],
        "uu...m",
    ),
    "pods with other labels change nothing": (on("a1"), pod(spread()), [("add", pod(node="b1", app="db"))], "uu...m"),
    "pods on a node without the key change nothing": (on("a1"), pod(spread()), [("add", on("bare")[0])], "uu...m"),
    "pods on a node that is omitted change nothing": (
        on("a1", "b1"),
        pod(spread(node_taints_policy="Honor")),
        [("add", on("c1")[0])],
        ".....m",
    ),
    "terminating pods count here": ([], pod(spread()), [("add", on("a1", terminating=True)[0])], "uu...m"),
    "so do pods of an empty selector": (
        [],
        pod(spread(label_selector=LabelSelector())),
        [("add", on("a1")[0])],
        "uu...m",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("existing", "incoming", "changes", "want"), WHAT_IFS.values(), ids=WHAT_IFS)
def test_adding_and_removing_pods_changes_the_result(
    form: FilterForm, existing: list[Pod], incoming: Pod, changes: list[tuple[str, Pod]], want: str
) -> None:
    rig = Rig(*CLUSTER, *existing)
    plugin, cycle = PodTopologySpread(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, incoming, rig.nodes) is None
    before = form(plugin, cycle, incoming, rig.nodes)
    clone = cycle.clone()
    for change, second in changes:
        node = rig.nodes.find(second.node_name)
        assert node is not None
        (plugin.add_pod if change == "add" else plugin.remove_pod)(clone, incoming, second, node)
    assert form(plugin, clone, incoming, rig.nodes) == verdict(want)
    assert form(plugin, cycle.clone(), incoming, rig.nodes) == before


def test_a_what_if_on_a_node_of_a_new_domain_makes_that_domain() -> None:
    rig = Rig(*CLUSTER, *on("a1", "b1", "c1"))
    plugin, cycle, incoming = PodTopologySpread(handle=rig), CycleState(), pod(spread(min_domains=4))
    assert plugin.pre_filter(cycle, incoming, rig.nodes) is None
    assert FORMS[0](plugin, cycle, incoming, rig.nodes) == verdict("uuuuum")
    planned = NodeInfo(make_node("d1", labels={"zone": "d"}))
    assert plugin.add_pod(cycle, incoming, on("d1")[0], planned) is None
    assert plugin.add_pod(cycle, incoming, on("d1")[0], planned) is None
    for form in FORMS:
        assert form(plugin, cycle, incoming, rig.nodes) == verdict(".....m")
    assert plugin.filter(cycle, incoming, planned) == TOO_UNEVEN


PATHS: dict[str, tuple[list[tuple[str, int]], tuple[str, int], tuple[str, int]]] = {
    "the emptiest grows past the next": ([("a", 3)], ("b", 2), ("a", 3)),
    "the next shrinks below the emptiest": ([("b", 0)], ("b", 0), ("a", 1)),
    "a third becomes the emptiest": ([("c", 0)], ("c", 0), ("a", 1)),
    "a third becomes the next": ([("b", 5), ("c", 4)], ("a", 1), ("c", 4)),
    "a third that is fuller than both is not kept": ([("c", 9)], ("a", 1), ("b", 2)),
    "a minimum that only a forgotten domain has is missed, as upstream": (
        [("c", 3), ("a", 9), ("b", 9)],
        ("a", 9),
        ("b", 9),
    ),
}


@pytest.mark.parametrize(("updates", "emptiest", "following"), PATHS.values(), ids=PATHS)
def test_critical_paths(updates: list[tuple[str, int]], emptiest: tuple[str, int], following: tuple[str, int]) -> None:
    paths = CriticalPaths(("a", 1), ("b", 2))
    for value, count in updates:
        paths.update(value, count)
    assert {paths.emptiest, paths.next} == {emptiest, following}
    assert paths.emptiest[1] <= paths.next[1]
