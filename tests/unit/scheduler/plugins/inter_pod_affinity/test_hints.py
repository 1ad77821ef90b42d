import pytest
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import ANY, pod, to

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.inter_pod_affinity.hints import (
    hint_after_assigned_pod,
    hint_after_node,
    hint_after_own_labels,
)
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.testing import make_node
from moorage.testing.rig import Rig

QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
WEB, DB = pod(node="a1"), pod("db", "a1")
POD_HINTS: dict[str, tuple[Pod, Pod | None, Pod | None, QueueingHint]] = {
    "a pod it wants came": (pod("x", near=[to()]), None, WEB, QUEUE),
    "a pod it wants was promised a node": (
        pod("x", near=[to()]),
        None,
        pod(status=PodStatus(nominated_node_name="a1")),
        QUEUE,
    ),
    "a pending pod changes nothing": (pod("x", near=[to()]), None, pod(), SKIPPED),
    "another pod came": (pod("x", near=[to()]), None, DB, SKIPPED),
    "a pod came that meets only one of its terms": (pod("x", near=[to(), to("db")]), None, WEB, SKIPPED),
    "a pod came and it has no affinity": (pod("x", away=[to()]), None, WEB, SKIPPED),
    "a pod became what it wants": (pod("x", near=[to()]), DB, WEB, QUEUE),
    "a pod was what it wants before, too": (pod("x", near=[to()]), WEB, WEB, SKIPPED),
    "a pod no longer is what it avoids": (pod("x", away=[to()]), WEB, DB, QUEUE),
    "a pod still is one that it avoids": (pod("x", away=[to(), to("db")]), WEB, DB, SKIPPED),
    "a pod it avoids went": (pod("x", away=[to()]), WEB, None, QUEUE),
    "a pod that avoids it went": (pod("x"), pod("db", "a1", away=[to("x")]), None, QUEUE),
    "a pod it wants went": (pod("x", near=[to()]), WEB, None, SKIPPED),
    "namespace selectors are asked without labels": (
        pod("x", near=[to(namespace_selector=LabelSelector(match_labels={"team": "x"}))]),
        None,
        WEB,
        SKIPPED,
    ),
    "an empty one still means all namespaces": (
        pod("x", near=[to(namespace_selector=ANY)]),
        None,
        pod(node="a1", namespace="other"),
        QUEUE,
    ),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod(waiting: Pod, old: Pod | None, new: Pod | None, want: QueueingHint) -> None:
    assert hint_after_assigned_pod(waiting, old, new) == want


def test_own_labels_are_always_worth_a_try() -> None:
    assert hint_after_own_labels(pod(), pod(), pod()) == QUEUE


IN_ZONE, IN_OTHER, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()
NODE_HINTS: dict[str, tuple[Pod, Node | None, Node, QueueingHint]] = {
    "a node with the key of affinity came": (pod(near=[to()]), None, IN_ZONE, QUEUE),
    "a node without it came": (pod(near=[to()]), None, NOWHERE, SKIPPED),
    "a node got the key": (pod(near=[to()]), NOWHERE, IN_ZONE, QUEUE),
    "a node moved": (pod(near=[to()]), IN_OTHER, IN_ZONE, QUEUE),
    "a node lost the key of affinity": (pod(near=[to()]), IN_ZONE, NOWHERE, SKIPPED),
    "a node stayed where it was": (pod(near=[to()], away=[to()]), IN_ZONE, IN_ZONE, SKIPPED),
    "any node came to a pod with anti-affinity": (pod(away=[to()]), None, NOWHERE, QUEUE),
    "a node lost the key of anti-affinity": (pod(away=[to()]), IN_ZONE, NOWHERE, QUEUE),
    "a node moved to another domain of anti-affinity": (pod(away=[to()]), IN_ZONE, IN_OTHER, QUEUE),
    "a node got the key of anti-affinity": (pod(away=[to()]), NOWHERE, IN_ZONE, SKIPPED),
    "a pod without terms does not care": (pod(), None, IN_ZONE, SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_after_node(waiting: Pod, old: Node | None, new: Node, want: QueueingHint) -> None:
    assert hint_after_node(waiting, old, new) == want


def test_events() -> None:
    registered = InterPodAffinity(handle=Rig()).events_to_register()
    assert [item.event for item in registered if not item.beyond_upstream] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL),
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
    ]
