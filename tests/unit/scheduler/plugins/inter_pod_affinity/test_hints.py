"""Queueing hints of InterPodAffinity: upstream's, and those for events that upstream ignores."""

import pytest
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import ANY, namespace, pod, to

from moorage.kube.api.cluster import Namespace
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.inter_pod_affinity.hints import (
    EVENTS,
    ExtraHints,
    hint_after_assigned_pod,
    hint_after_node,
    hint_after_own_labels,
)
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.plugins.inter_pod_affinity.terms import NamespaceExpansion
from moorage.testing import make_node
from moorage.testing.rig import Rig

QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP


WEB, DB = pod(node="a1"), pod("db", "a1")


POD_HINTS: dict[str, tuple[Pod, Pod | None, Pod | None, QueueingHint]] = {
    "a pod with matching labels was added": (pod("x", near=[to()]), None, WEB, QUEUE),
    "a pod with matching labels was nominated": (
        pod("x", near=[to()]),
        None,
        pod(status=PodStatus(nominated_node_name="a1")),
        QUEUE,
    ),
    "a matching pod is pending": (pod("x", near=[to()]), None, pod(), SKIPPED),
    "a pod with other labels was added": (pod("x", near=[to()]), None, DB, SKIPPED),
    "an added pod matches only one of two terms": (pod("x", near=[to(), to("db")]), None, WEB, SKIPPED),
    "a pod was added, and the waiting pod has no affinity": (pod("x", away=[to()]), None, WEB, SKIPPED),
    "a pod began to match": (pod("x", near=[to()]), DB, WEB, QUEUE),
    "a pod still matches": (pod("x", near=[to()]), WEB, WEB, SKIPPED),
    "a pod ceased to match the anti-affinity": (pod("x", away=[to()]), WEB, DB, QUEUE),
    "a pod matches another anti-affinity term": (pod("x", away=[to(), to("db")]), WEB, DB, SKIPPED),
    "a pod that matches the anti-affinity was deleted": (pod("x", away=[to()]), WEB, None, QUEUE),
    "a pod whose anti-affinity matches was deleted": (pod("x"), pod("db", "a1", away=[to("x")]), None, QUEUE),
    "a pod with matching labels was deleted": (pod("x", near=[to()]), WEB, None, SKIPPED),
    "namespace selectors are evaluated without labels": (
        pod("x", near=[to(namespace_selector=LabelSelector(match_labels={"team": "x"}))]),
        None,
        WEB,
        SKIPPED,
    ),
    "an empty namespace selector selects all namespaces": (
        pod("x", near=[to(namespace_selector=ANY)]),
        None,
        pod(node="a1", namespace="other"),
        QUEUE,
    ),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), POD_HINTS.values(), ids=POD_HINTS)
def test_hint_after_pod(waiting: Pod, old: Pod | None, new: Pod | None, want: QueueingHint) -> None:
    assert hint_after_assigned_pod(waiting, old, new) == want


def test_own_label_changes_always_queue() -> None:
    assert hint_after_own_labels(pod(), pod(), pod()) == QUEUE


IN_ZONE, IN_OTHER, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()


NODE_HINTS: dict[str, tuple[Pod, Node | None, Node, QueueingHint]] = {
    "a node with the key of affinity was added": (pod(near=[to()]), None, IN_ZONE, QUEUE),
    "a node without it was added": (pod(near=[to()]), None, NOWHERE, SKIPPED),
    "a node got the key": (pod(near=[to()]), NOWHERE, IN_ZONE, QUEUE),
    "a node moved": (pod(near=[to()]), IN_OTHER, IN_ZONE, QUEUE),
    "a node lost the key of affinity": (pod(near=[to()]), IN_ZONE, NOWHERE, SKIPPED),
    "a node stayed where it was": (pod(near=[to()], away=[to()]), IN_ZONE, IN_ZONE, SKIPPED),
    "any node was added for a pod with anti-affinity": (pod(away=[to()]), None, NOWHERE, QUEUE),
    "a node lost the key of anti-affinity": (pod(away=[to()]), IN_ZONE, NOWHERE, QUEUE),
    "a node moved to another domain of anti-affinity": (pod(away=[to()]), IN_ZONE, IN_OTHER, QUEUE),
    "a node got the key of anti-affinity": (pod(away=[to()]), NOWHERE, IN_ZONE, SKIPPED),
    "the pod has no terms": (pod(), None, IN_ZONE, SKIPPED),
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


OPEN = LabelSelector(match_labels={"open": "yes"})


def hints(*objects: Node | Pod | Namespace) -> ExtraHints:
    rig = Rig(*objects)
    return ExtraHints(rig.pods, NamespaceExpansion(rig.lister(Namespace)))


EXTRA_POD_HINTS: dict[str, tuple[Pod, Pod | None, Pod | None, QueueingHint]] = {
    "a pod with matching labels was added": (pod("x", near=[to()]), None, WEB, QUEUE),
    "a pod with matching labels was nominated": (
        pod("x", near=[to()]),
        None,
        pod(status=PodStatus(nominated_node_name="a1")),
        QUEUE,
    ),
    "a matching pod is pending": (pod("x", near=[to()]), None, pod(), SKIPPED),
    "a pod with other labels was added": (pod("x", near=[to()]), None, DB, SKIPPED),
    "an added pod matches only one of two terms": (pod("x", near=[to(), to("db")]), None, WEB, SKIPPED),
    "a pod was added, and the waiting pod has no affinity": (pod("x", away=[to()]), None, WEB, SKIPPED),
    "a pod began to match": (pod("x", near=[to()]), DB, WEB, QUEUE),
    "a pod still matches": (pod("x", near=[to()]), WEB, WEB, SKIPPED),
    "a pod ceased to match the anti-affinity": (pod("x", away=[to()]), WEB, DB, QUEUE),
    "a pod matches another anti-affinity term": (pod("x", away=[to(), to("db")]), WEB, DB, SKIPPED),
    "a pod that matches the anti-affinity was deleted": (pod("x", away=[to()]), WEB, None, QUEUE),
    "a pod whose anti-affinity matches was deleted": (pod("x"), pod("db", "a1", away=[to("x")]), None, QUEUE),
    "a pod ceased to match one of two anti-affinity terms": (
        pod("x", away=[to(), to("db", "rack")]),
        WEB,
        DB,
        QUEUE,
    ),
    "a pod with matching labels was deleted": (pod("x", near=[to()]), WEB, None, SKIPPED),
    "the last pod of the same kind was deleted": (pod(near=[to()]), WEB, None, QUEUE),
    "the last pod of the same kind changed its labels": (pod(near=[to()]), WEB, DB, QUEUE),
    "a pod with matching labels was added, in a namespace that is selected": (
        pod("x", near=[to(namespace_selector=OPEN)]),
        None,
        pod(node="a1", namespace="open"),
        QUEUE,
    ),
    "a matching pod was added in another namespace": (
        pod("x", near=[to(namespace_selector=OPEN)]),
        None,
        pod(node="a1", namespace="closed"),
        SKIPPED,
    ),
    "a pod that avoids the namespace was deleted": (
        pod("x", namespace="open"),
        pod("db", "a1", away=[to("x", namespace_selector=OPEN)]),
        None,
        QUEUE,
    ),
    "an empty namespace selector selects all namespaces": (
        pod("x", near=[to(namespace_selector=ANY)]),
        None,
        pod(node="a1", namespace="other"),
        QUEUE,
    ),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), EXTRA_POD_HINTS.values(), ids=EXTRA_POD_HINTS)
def test_extra_hint_after_pod(waiting: Pod, old: Pod | None, new: Pod | None, want: QueueingHint) -> None:
    spaces = namespace("open", open="yes"), namespace("closed")
    assert hints(*spaces).after_assigned_pod(waiting, old, new) == want


EXTRA_NODE_HINTS: dict[str, tuple[Pod, Node | None, Node | None, QueueingHint]] = {
    "a node with the key of affinity was added": (pod(near=[to()]), None, IN_ZONE, QUEUE),
    "a node without it was added": (pod(near=[to()]), None, NOWHERE, SKIPPED),
    "a node got the key": (pod(near=[to()]), NOWHERE, IN_ZONE, QUEUE),
    "a node moved": (pod(near=[to()]), IN_OTHER, IN_ZONE, QUEUE),
    "a node lost the key of affinity": (pod("x", near=[to()]), IN_ZONE, NOWHERE, SKIPPED),
    "a node with pods of the same kind lost the key": (pod(near=[to()]), IN_ZONE, NOWHERE, QUEUE),
    "a node stayed where it was": (pod(near=[to()], away=[to()]), IN_ZONE, IN_ZONE, SKIPPED),
    "any node was added for a pod with anti-affinity": (pod(away=[to()]), None, NOWHERE, QUEUE),
    "a node lost the key of anti-affinity": (pod(away=[to()]), IN_ZONE, NOWHERE, QUEUE),
    "a node moved to another domain of anti-affinity": (pod(away=[to()]), IN_ZONE, IN_OTHER, QUEUE),
    "a node got the key of anti-affinity": (pod(away=[to()]), NOWHERE, IN_ZONE, SKIPPED),
    "a node of the domain was deleted": (pod(away=[to()]), IN_ZONE, None, QUEUE),
    "a node without the key was deleted": (pod(away=[to()]), NOWHERE, None, SKIPPED),
    "a node with matching pods was deleted": (pod("x", near=[to()]), IN_ZONE, None, SKIPPED),
    "a node with pods of the same kind was deleted": (pod(near=[to()]), IN_ZONE, None, QUEUE),
    "the pod has no terms": (pod(), None, IN_ZONE, SKIPPED),
    "existing pods avoid the pod, and a node was added": (pod("loud"), None, IN_ZONE, QUEUE),
    "a node left a domain": (pod("loud"), IN_ZONE, IN_OTHER, QUEUE),
    "a node was deleted": (pod("loud"), IN_ZONE, None, QUEUE),
    "a node stayed in its domain": (pod("loud"), IN_ZONE, IN_ZONE, SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), EXTRA_NODE_HINTS.values(), ids=EXTRA_NODE_HINTS)
def test_extra_hint_after_node(waiting: Pod, old: Node | None, new: Node | None, want: QueueingHint) -> None:
    quiet = pod("quiet", "a1", away=[to("loud")])
    assert hints(make_node("a1"), quiet).after_node(waiting, old, new) == want


CLOSED, OPENED = namespace("default"), namespace("default", open="yes")


NAMESPACE_HINTS: dict[str, tuple[Pod, Namespace | None, Namespace, QueueingHint]] = {
    "a namespace is selected now": (pod(near=[to(namespace_selector=OPEN)]), CLOSED, OPENED, QUEUE),
    "a selected namespace was added": (pod(near=[to(namespace_selector=OPEN)]), None, OPENED, QUEUE),
    "a namespace is no longer selected": (pod(away=[to(namespace_selector=OPEN)]), OPENED, CLOSED, QUEUE),
    "a namespace is selected as before": (pod(near=[to(namespace_selector=OPEN)]), OPENED, OPENED, SKIPPED),
    "the pod has no namespace selectors": (pod(near=[to()]), CLOSED, OPENED, SKIPPED),
    "its own namespace is no longer avoided": (pod("loud"), OPENED, CLOSED, QUEUE),
    "its own namespace is avoided from now on": (pod("loud"), CLOSED, OPENED, SKIPPED),
    "another namespace is no longer avoided": (pod("loud", namespace="other"), OPENED, CLOSED, SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NAMESPACE_HINTS.values(), ids=NAMESPACE_HINTS)
def test_extra_hint_after_namespace(waiting: Pod, old: Namespace | None, new: Namespace, want: QueueingHint) -> None:
    quiet = pod("quiet", "a1", namespace="third", away=[to("loud", namespace_selector=OPEN)])
    assert hints(make_node("a1"), quiet).after_namespace(waiting, old, new) == want


def test_extra_events() -> None:
    wider = InterPodAffinity(handle=Rig()).events_to_register()[len(EVENTS) :]
    assert [item.event for item in wider] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE),
        ClusterEvent(Resource.NAMESPACE, Action.ADD | Action.UPDATE),
    ]
    assert all(item.beyond_upstream for item in wider)
