from collections.abc import Mapping

import numpy as np
import pytest
from tests.unit.scheduler.plugins.pod_topology_spread.spread_builders import (
    SOFT,
    WEB,
    on,
    pod,
    service,
    soft,
    spread,
    verdict,
)

from moorage.kube.api.affinity import TopologySpreadConstraint
from moorage.kube.api.cluster import Service
from moorage.kube.api.meta import KubeObject, ObjectMeta, OwnerReference
from moorage.kube.api.node import ZONE_LABEL
from moorage.kube.api.selectors import (
    LabelSelector,
    label_matcher,
)
from moorage.kube.api.workloads import (
    AppsWorkloadSpec,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
)
from moorage.scheduler.config.args import PodTopologySpreadArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.status import SKIP
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import DefaultSelectors
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, SCORE_FORMS, Rig, ScoreForm, run_filter, run_score


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
        [ReplicaSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=WEB))],
        owned_by("ReplicaSet"),
        {"app": "web"},
    ),
    "a stateful set owns it": (
        [StatefulSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=WEB))],
        owned_by("StatefulSet"),
        {"app": "web"},
    ),
    "a replication controller owns it": (
        [ReplicationController(metadata=OWNER, spec=ReplicationControllerSpec(selector={"app": "web"}))],
        owned_by("ReplicationController", "v1"),
        {"app": "web"},
    ),
    "owner and service add up": (
        [service(tier="front"), ReplicaSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=WEB))],
        owned_by("ReplicaSet"),
        {"app": "web", "tier": "front"},
    ),
    "an owner that is not known does not count": ([], owned_by("ReplicaSet"), {}),
    "an owner that is not the controller does not": (
        [ReplicaSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=WEB))],
        owned_by("ReplicaSet", controller=False),
        {},
    ),
    "an owner without a selector does not": ([ReplicaSet(metadata=OWNER)], owned_by("ReplicaSet"), {}),
    "an owner of another kind does not": ([], owned_by("Job", "batch/v1"), {}),
    "nor one of that name in another group": (
        [ReplicaSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=WEB))],
        owned_by("ReplicaSet", "extensions/v1beta1"),
        {},
    ),
}


@pytest.mark.parametrize(("objects", "owner", "want"), SELECTORS.values(), ids=SELECTORS)
def test_default_selector(objects: list[KubeObject], owner: OwnerReference | None, want: Mapping[str, str]) -> None:
    result = DefaultSelectors(Rig(*objects)).of(make_pod(labels=LABELS, owner=owner))
    assert set(result.requirements) == set(label_matcher(LabelSelector(match_labels=dict(want))).requirements)


def test_default_selectors_follow_their_objects() -> None:
    rig = Rig()
    selectors, subject = DefaultSelectors(rig), make_pod(labels=LABELS, owner=owned_by("ReplicaSet"))
    assert selectors.of(subject).is_everything
    rig.add(service(app="web"))
    assert len(selectors.of(subject).requirements) == 1
    rig.add(ReplicaSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=LabelSelector(match_labels={"tier": "front"}))))
    first = selectors.of(subject)
    assert len(first.requirements) == 2
    rig.add(
        ReplicaSet(
            metadata=OWNER, spec=AppsWorkloadSpec(selector=LabelSelector(match_labels={"tier": "front"}), replicas=2)
        )
    )
    assert selectors.of(subject) is first
    rig.add(ReplicaSet(metadata=OWNER, spec=AppsWorkloadSpec(selector=WEB)))
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
    assert run_filter(plugin, rig, pod(), FORMS[1]) == verdict("uu....m")
    assert run_score(plugin, rig, pod(), SCORE_FORMS[1]) == [0, 0, 100, 100, 100, 100, 0]


def test_a_pod_with_any_constraint_gets_no_defaults() -> None:
    rig = Rig(service(app="web"), *ZONED, *on("a1", "a1"))
    plugin = PodTopologySpread(args=LISTED, handle=rig)
    assert plugin.pre_filter(CycleState(), pod(soft()), rig.nodes) == SKIP
    assert plugin.pre_score(CycleState(), pod(spread()), rig.nodes) == SKIP


def test_no_watches_without_default_constraints() -> None:
    rig = Rig(*ZONED)
    plugin = PodTopologySpread(args=NO_DEFAULTS, handle=rig)
    assert plugin.pre_score(CycleState(), pod(), rig.nodes) == SKIP
    assert Service not in rig.objects.kinds()
