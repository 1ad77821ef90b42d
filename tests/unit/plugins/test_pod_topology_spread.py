from collections.abc import Mapping

import numpy as np
import pytest

from moorage.api.affinity import Affinity, NodeAffinity, Taint, Toleration, TopologySpreadConstraint
from moorage.api.cluster import (
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    WorkloadSpec,
)
from moorage.api.meta import KubeObject, ObjectMeta, OwnerReference
from moorage.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.api.pod import Pod, PodStatus
from moorage.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    label_matcher,
)
from moorage.config.args import PodTopologySpreadArgs
from moorage.features import FeatureGates
from moorage.framework.cycle import CycleState
from moorage.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.framework.status import SKIP, Code, Status
from moorage.plugins.pod_topology_spread import PodTopologySpread
from moorage.plugins.pod_topology_spread.filter import LABEL_MISSING, TOO_UNEVEN, CriticalPaths
from moorage.plugins.pod_topology_spread.hints import SpreadHints
from moorage.plugins.pod_topology_spread.selectors import DefaultSelectors
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, SCORE_FORMS, FilterForm, Rig, ScoreForm, judge, rate

WEB = LabelSelector(match_labels={"app": "web"})
SOFT = "ScheduleAnyway"


def spread(skew: int = 1, key: str = "zone", **fields: object) -> TopologySpreadConstraint:
    """Spread the pods of app web; hard unless told otherwise."""
    written = {"when_unsatisfiable": "DoNotSchedule", "label_selector": WEB, **fields}
    return TopologySpreadConstraint(max_skew=skew, topology_key=key, **written)  # type: ignore[arg-type]


def pod(*constraints: TopologySpreadConstraint, app: str = "web", name: str = "web", **fields: object) -> Pod:
    labels = {"app": app, **fields.pop("labels", {})}  # type: ignore[dict-item]
    return make_pod(name, labels=labels, topology_spread_constraints=constraints, **fields)  # type: ignore[arg-type]


def on(*nodes: str, **fields: object) -> list[Pod]:
    """Put a pod of app web on each of these nodes."""
    return [pod(name=f"p{number}-{node}", node=node, **fields) for number, node in enumerate(nodes)]  # type: ignore[arg-type]


DEDICATED = Taint("dedicated", "x", "NoSchedule")
# Zones a and b of two nodes each, zone c of one, and a node in none.
CLUSTER = (
    make_node("a1", labels={"zone": "a"}),
    make_node("a2", labels={"zone": "a"}),
    make_node("b1", labels={"zone": "b"}),
    make_node("b2", labels={"zone": "b"}),
    make_node("c1", labels={"zone": "c", "tier": "x"}, taints=[DEDICATED]),
    make_node("bare"),
)
ONLY_AB = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("zone", "In", ("a", "b")),)),))


def verdict(pattern: str) -> list[Status | None]:
    """Spell the verdicts on the nodes: ``.`` accepted, ``u`` too uneven, ``m`` label missing."""
    return [{".": None, "u": TOO_UNEVEN, "m": LABEL_MISSING}[letter] for letter in pattern]


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
    "too few domains count as one that is empty": (on("a1", "b1", "c1"), pod(spread(min_domains=4)), "uuuuum"),
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
    "a missing key that comes first does so, too": (
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
    "unless the constraint honours taints": (on("a1", "b1"), pod(spread(node_taints_policy="Honor")), ".....m"),
    "or the pod tolerates them": (
        on("a1", "b1"),
        pod(spread(node_taints_policy="Honor"), tolerates=["dedicated"]),
        "uuuu.m",
    ),
    "pods in a domain that is left out count as none": (
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
    assert judge(PodTopologySpread(handle=rig), rig, incoming, form) == verdict(want)


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
    assert judge(PodTopologySpread(handle=rig), rig, incoming, FORMS[1]) == verdict("uu...m")


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
    "pods on a node that is left out change nothing": (
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
def test_what_ifs(
    form: FilterForm, existing: list[Pod], incoming: Pod, changes: list[tuple[str, Pod]], want: str
) -> None:
    rig = Rig(*CLUSTER, *existing)
    plugin, cycle = PodTopologySpread(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, incoming, rig.nodes) is None
    before = form(plugin, cycle, incoming, rig.nodes)
    clone = cycle.clone()
    for what, other in changes:
        node = rig.nodes.find(other.node_name)
        assert node is not None
        (plugin.add_pod if what == "add" else plugin.remove_pod)(clone, incoming, other, node)
    assert form(plugin, clone, incoming, rig.nodes) == verdict(want)
    assert form(plugin, cycle.clone(), incoming, rig.nodes) == before


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


def soft(skew: int = 1, key: str = "zone", **fields: object) -> TopologySpreadConstraint:
    return spread(skew, key, when_unsatisfiable=SOFT, **fields)


SCORES: dict[str, tuple[list[Pod], Pod, list[int] | None]] = {
    "no soft constraint, no score": (on("a1"), pod(), None),
    "an empty cluster is all the same, but for nodes without the key": (
        [],
        pod(soft()),
        [100, 100, 100, 100, 100, 0],
    ),
    "the reference's example": (
        on("a1", "a1", "a2", "b1"),
        pod(soft()),
        [0, 0, 60, 60, 100, 0],
    ),
    "host names count the pods on the very node": (
        on("a1", "a1", "b1"),
        pod(soft(key=HOSTNAME_LABEL)),
        [0, 100, 50, 100, 100, 100],
    ),
    "counts on a host ignore the policies": (
        on("c1", "c1", "a1"),
        pod(soft(key=HOSTNAME_LABEL, node_taints_policy="Honor")),
        [50, 100, 100, 100, 0, 100],
    ),
    "counts of domains do not": (
        on("c1", "c1", "a1"),
        pod(soft(node_taints_policy="Honor")),
        [0, 0, 100, 100, 100, 0],
    ),
    "terminating pods do not count": (on("a1", terminating=True), pod(soft()), [100, 100, 100, 100, 100, 0]),
    "an empty selector counts no pod": (
        on("a1"),
        pod(soft(label_selector=LabelSelector())),
        [100, 100, 100, 100, 100, 0],
    ),
    "a larger skew waters the difference down": (on("a1"), pod(soft(5)), [66, 66, 100, 100, 100, 0]),
    # Six times ln 5 and six times ln 7 are 9.66 and 11.68, so 21 together and 22 if they were rounded before.
    "constraints add up before they are rounded": (
        on(*["a1"] * 6),
        pod(soft(), soft(key=HOSTNAME_LABEL)),
        [0, 52, 100, 100, 100, 0],
    ),
    "nodes without one of the keys get nothing": (on("a1"), pod(soft(), soft(key="tier")), [0, 0, 0, 0, 100, 0]),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("existing", "incoming", "want"), SCORES.values(), ids=SCORES)
def test_score(form: ScoreForm, existing: list[Pod], incoming: Pod, want: list[int] | None) -> None:
    rig = Rig(*CLUSTER, *existing)
    assert rate(PodTopologySpread(handle=rig), rig, incoming, form) == want


def test_only_feasible_nodes_make_domains_but_all_pods_in_them_count() -> None:
    rig = Rig(*CLUSTER, *on("a1", "a1", "b1"))
    plugin, cycle, incoming = PodTopologySpread(handle=rig), CycleState(), pod(soft())
    feasible = rig.nodes.take(np.array([1, 3]))
    assert plugin.pre_score(cycle, incoming, feasible) is None
    # ln(2 + 2) = 1.386 with two domains: 2.77 and 1.39.
    assert plugin.score_nodes(cycle, incoming, feasible).tolist() == [3, 1]
    assert [plugin.score(cycle, incoming, node) for node in feasible] == [3, 1]


def service(name: str = "web", namespace: str = "default", **selector: str) -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector=selector or None))


def owned_by(kind: str, api_version: str = "apps/v1", *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="owner", uid="o", controller=controller)


OWNER = ObjectMeta(name="owner", namespace="default")
LABELS = {"app": "web", "tier": "front"}
SELECTORS: dict[str, tuple[list[KubeObject], OwnerReference | None, Mapping[str, str]]] = {
    "nothing selects the pod": ([], None, {}),
    "a service selects it": ([service(app="web")], None, {"app": "web"}),
    "several services do": ([service(app="web"), service("two", tier="front")], None, {"app": "web", "tier": "front"}),
    "a service that selects other pods does not count": ([service(app="db")], None, {}),
    "nor one of another namespace": ([service(namespace="other", app="web")], None, {}),
    "nor one without a selector": ([service()], None, {}),
    "a replica set owns it": (
        [ReplicaSet(metadata=OWNER, spec=WorkloadSpec(WEB))],
        owned_by("ReplicaSet"),
        {"app": "web"},
    ),
    "a stateful set owns it": (
        [StatefulSet(metadata=OWNER, spec=WorkloadSpec(WEB))],
        owned_by("StatefulSet"),
        {"app": "web"},
    ),
    "a replication controller owns it": (
        [ReplicationController(metadata=OWNER, spec=ReplicationControllerSpec({"app": "web"}))],
        owned_by("ReplicationController", "v1"),
        {"app": "web"},
    ),
    "owner and service add up": (
        [service(tier="front"), ReplicaSet(metadata=OWNER, spec=WorkloadSpec(WEB))],
        owned_by("ReplicaSet"),
        {"app": "web", "tier": "front"},
    ),
    "an owner that is not known does not count": ([], owned_by("ReplicaSet"), {}),
    "an owner that is not the controller does not": (
        [ReplicaSet(metadata=OWNER, spec=WorkloadSpec(WEB))],
        owned_by("ReplicaSet", controller=False),
        {},
    ),
    "an owner without a selector does not": ([ReplicaSet(metadata=OWNER)], owned_by("ReplicaSet"), {}),
    "an owner of another kind does not": ([], owned_by("Job", "batch/v1"), {}),
    "nor one of that name in another group": (
        [ReplicaSet(metadata=OWNER, spec=WorkloadSpec(WEB))],
        owned_by("ReplicaSet", "extensions/v1beta1"),
        {},
    ),
}


@pytest.mark.parametrize(("objects", "owner", "want"), SELECTORS.values(), ids=SELECTORS)
def test_default_selector(objects: list[KubeObject], owner: OwnerReference | None, want: Mapping[str, str]) -> None:
    found = DefaultSelectors(Rig(*objects)).of(make_pod(labels=LABELS, owner=owner))
    assert set(found.requirements) == set(label_matcher(LabelSelector(match_labels=dict(want))).requirements)


def test_default_selectors_follow_their_objects() -> None:
    rig = Rig()
    selectors, subject = DefaultSelectors(rig), make_pod(labels=LABELS, owner=owned_by("ReplicaSet"))
    assert selectors.of(subject).is_everything
    rig.add(service(app="web"))
    assert len(selectors.of(subject).requirements) == 1
    rig.add(ReplicaSet(metadata=OWNER, spec=WorkloadSpec(LabelSelector(match_labels={"tier": "front"}))))
    first = selectors.of(subject)
    assert len(first.requirements) == 2
    rig.add(ReplicaSet(metadata=OWNER, spec=WorkloadSpec(LabelSelector(match_labels={"tier": "front"}), replicas=2)))
    assert selectors.of(subject) is first
    rig.add(ReplicaSet(metadata=OWNER, spec=WorkloadSpec(WEB)))
    assert {item.key for item in selectors.of(subject).requirements} == {"app"}


ZONED = (
    make_node("a1", zone="a"),
    make_node("a2", zone="a"),
    make_node("b1", zone="b"),
    make_node("b2", zone="b"),
    make_node("c1", zone="c"),
    make_node("c2", zone="c"),
)
LISTED = PodTopologySpreadArgs(
    default_constraints=(
        TopologySpreadConstraint(max_skew=1, topology_key=ZONE_LABEL, when_unsatisfiable="DoNotSchedule"),
        TopologySpreadConstraint(max_skew=1, topology_key=ZONE_LABEL, when_unsatisfiable=SOFT),
    ),
    defaulting_type="List",
)
NO_DEFAULTS = PodTopologySpreadArgs(defaulting_type="List")


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_system_defaults_score_by_host_and_zone(form: ScoreForm) -> None:
    rig = Rig(service(app="web"), *ZONED, *on("a1", "b1", "b1"))
    plugin, cycle = PodTopologySpread(handle=rig), CycleState()
    assert plugin.pre_score(cycle, pod(), rig.nodes) is None
    raw = form(plugin, cycle, pod(), rig.nodes)
    # ln(6 + 2) = 2.079 a pod on the host, ln(3 + 2) = 1.609 a pod in the zone, 2 + 4 for the skews.
    assert raw == [10, 8, 13, 9, 6, 6]
    assert plugin.normalize_scores(cycle, pod(), rig.nodes, np.array([11, 9, 6])).tolist() == [54, 72, 100]


def test_system_defaults_neither_filter_nor_apply_without_a_selector() -> None:
    rig = Rig(*ZONED, *on("a1", "a1"))
    plugin = PodTopologySpread(handle=rig)
    assert plugin.pre_filter(CycleState(), pod(), rig.nodes) == SKIP
    assert plugin.pre_score(CycleState(), pod(), rig.nodes) == SKIP
    rig.add(service(app="web"))
    assert plugin.pre_filter(CycleState(), pod(), rig.nodes) == SKIP
    assert plugin.pre_score(CycleState(), pod(), rig.nodes) is None


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_system_defaults_forgive_nodes_without_a_zone(form: ScoreForm) -> None:
    rig = Rig(service(app="web"), *ZONED[:2], make_node("bare"), *on("a1", "bare"))
    # Two domains, the zone and the lack of one: ln 4. Three hosts: ln 5. The bare node has no points for a zone.
    plugin, cycle = PodTopologySpread(handle=rig), CycleState()
    assert plugin.pre_score(cycle, pod(), rig.nodes) is None
    assert form(plugin, cycle, pod(), rig.nodes) == [9, 7, 4]


def test_an_empty_zone_label_is_the_domain_of_nodes_without_one() -> None:
    rig = Rig(service(app="web"), make_node("a"), make_node("b", labels={ZONE_LABEL: ""}), *on("a", "a"))
    plugin, cycle = PodTopologySpread(handle=rig), CycleState()
    assert plugin.pre_score(cycle, pod(), rig.nodes) is None
    # One domain, ln 3 = 1.0986 a pod; two hosts, ln 4 = 1.386: on a 2 * 1.386 + 2, on b 2 * 1.0986 + 4 + 2.
    assert plugin.score_nodes(cycle, pod(), rig.nodes).tolist() == [5, 8]


def test_listed_defaults_filter_and_score() -> None:
    rig = Rig(service(app="web"), *ZONED, make_node("bare"), *on("a1"))
    plugin = PodTopologySpread(args=LISTED, handle=rig)
    assert judge(plugin, rig, pod(), FORMS[1]) == verdict("uu....m")
    assert rate(plugin, rig, pod(), SCORE_FORMS[1]) == [0, 0, 100, 100, 100, 100, 0]


def test_a_pod_with_any_constraint_gets_no_defaults() -> None:
    rig = Rig(service(app="web"), *ZONED, *on("a1", "a1"))
    plugin = PodTopologySpread(args=LISTED, handle=rig)
    assert plugin.pre_filter(CycleState(), pod(soft()), rig.nodes) == SKIP
    assert plugin.pre_score(CycleState(), pod(spread()), rig.nodes) == SKIP


def test_without_default_constraints_nothing_is_watched_for_them() -> None:
    rig = Rig(*ZONED)
    plugin = PodTopologySpread(args=NO_DEFAULTS, handle=rig)
    assert plugin.pre_score(CycleState(), pod(), rig.nodes) == SKIP
    assert Service not in rig.objects.kinds()


QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
PLACED, OTHER = on("a1")[0], pod(node="a1", app="db")
POD_HINTS: dict[str, tuple[Pod, Pod | None, Pod | None, QueueingHint]] = {
    "a pod that counts came": (pod(spread()), None, PLACED, QUEUE),
    "one was promised a node": (pod(spread()), None, pod(status=PodStatus(nominated_node_name="a1")), QUEUE),
    "one is pending": (pod(spread()), None, pod(), SKIPPED),
    "one of another namespace came": (pod(spread()), None, on("a1", namespace="other")[0], SKIPPED),
    "one that does not count came": (pod(spread()), None, OTHER, SKIPPED),
    "one that counts went": (pod(spread()), PLACED, None, QUEUE),
    "one that does not count went": (pod(spread()), OTHER, None, SKIPPED),
    "one began to count": (pod(spread()), OTHER, PLACED, QUEUE),
    "one ceased to count": (pod(spread()), PLACED, OTHER, QUEUE),
    "one changed and still counts": (pod(spread()), PLACED, pod(node="a1", labels={"x": "y"}), SKIPPED),
    "soft constraints do not matter": (pod(soft()), None, PLACED, SKIPPED),
}


def hints() -> SpreadHints:
    return PodTopologySpread(handle=Rig())._hints


@pytest.mark.parametrize(("waiting", "old", "new", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod(waiting: Pod, old: Pod | None, new: Pod | None, want: QueueingHint) -> None:
    assert hints().after_assigned_pod(waiting, old, new) == want


TOLERATING = pod(tolerates=[Toleration("dedicated", "Exists")])
OWN_HINTS: dict[str, tuple[Pod, Pod, Pod, QueueingHint]] = {
    "a toleration came and taints are honoured": (pod(spread(node_taints_policy="Honor")), pod(), TOLERATING, QUEUE),
    "a toleration came and taints are ignored": (pod(spread()), pod(), TOLERATING, SKIPPED),
    "it no longer counts itself": (pod(spread()), pod(), pod(app="db"), QUEUE),
    "its labels changed and it still counts": (pod(spread()), pod(), pod(labels={"x": "y"}), SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), OWN_HINTS.values(), ids=OWN_HINTS)
def test_hint_after_own_change(waiting: Pod, old: Pod, new: Pod, want: QueueingHint) -> None:
    assert hints().after_own_change(waiting, old, new) == want


IN_A, IN_B, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()
TAINTED = make_node(labels={"zone": "a"}, taints=[DEDICATED])
NODE_HINTS: dict[str, tuple[Pod, Node | None, Node | None, QueueingHint]] = {
    "a node with the keys came": (pod(spread()), None, IN_A, QUEUE),
    "a node with some of the keys came": (pod(spread(), spread(key="tier")), None, IN_A, SKIPPED),
    "a node without came": (pod(spread()), None, NOWHERE, SKIPPED),
    "a node with the keys went": (pod(spread()), IN_A, None, QUEUE),
    "a node without went": (pod(spread()), NOWHERE, None, SKIPPED),
    "a node got the keys": (pod(spread()), NOWHERE, IN_A, QUEUE),
    "a node lost them": (pod(spread()), IN_A, NOWHERE, QUEUE),
    "a node moved": (pod(spread()), IN_A, IN_B, QUEUE),
    "a node was tainted": (pod(spread()), IN_A, TAINTED, QUEUE),
    "a node without the keys was tainted": (pod(spread(key="tier")), IN_A, TAINTED, SKIPPED),
    "a node changed otherwise": (pod(spread()), IN_A, make_node(labels={"zone": "a", "x": "y"}), SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_after_node(waiting: Pod, old: Node | None, new: Node | None, want: QueueingHint) -> None:
    assert hints().after_node(waiting, old, new) == want


def test_events() -> None:
    assert [item.event for item in PodTopologySpread(handle=Rig()).events_to_register()] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL),
        ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT),
    ]
