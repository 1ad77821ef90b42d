import numpy as np
import pytest
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import ANY, CLUSTER, namespace, pod, to

from moorage.kube.api.cluster import Namespace
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.config.args import InterPodAffinityArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.inter_pod_affinity.filter import NamespaceExpansion
from moorage.scheduler.plugins.inter_pod_affinity.plugin import (
    EVENTS,
    ExtraHints,
    InterPodAffinity,
    hint_after_assigned_pod,
    hint_after_node,
    hint_after_own_labels,
)
from moorage.testing import make_node
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

PLAIN = InterPodAffinityArgs()
IGNORING = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
SCORES: dict[str, tuple[list[KubeObject], Pod, InterPodAffinityArgs, list[int] | None]] = {
    "no pod has preferences": ([pod(node="a1")], pod(), PLAIN, None),
    "preferred affinity raises the domain": ([pod(node="a1")], pod("x", likes=[(5, to())]), PLAIN, [100, 100, 0, 0, 0]),
    "preferred anti-affinity lowers the domain": (
        [pod(node="a1")],
        pod("x", dislikes=[(5, to())]),
        PLAIN,
        [0, 0, 100, 100, 100],
    ),
    "every pod counts": (
        [pod(node="a1"), pod(node="a2"), pod(node="b1")],
        pod("x", likes=[(5, to())]),
        PLAIN,
        [100, 100, 50, 50, 0],
    ),
    "a pod on a node without the key counts nowhere": ([pod(node="bare")], pod("x", likes=[(5, to())]), PLAIN, None),
    "preferred affinity of existing pods counts": (
        [pod("db", "a1", likes=[(5, to())])],
        pod(),
        PLAIN,
        [100, 100, 0, 0, 0],
    ),
    "preferred anti-affinity of existing pods counts": (
        [pod("db", "a1", dislikes=[(5, to())])],
        pod(),
        PLAIN,
        [0, 0, 100, 100, 100],
    ),
    "required affinity of existing pods counts by the hard weight": (
        [pod("db", "a1", near=[to()]), pod("db", "b1", name="liking", likes=[(4, to())])],
        pod(),
        InterPodAffinityArgs(hard_pod_affinity_weight=2),
        [50, 50, 100, 100, 0],
    ),
    "the hard weight may be 0": (
        [pod("db", "a1", near=[to()])],
        pod(),
        InterPodAffinityArgs(hard_pod_affinity_weight=0),
        None,
    ),
    "required anti-affinity of existing pods does not count": ([pod("db", "a1", away=[to()])], pod(), PLAIN, None),
    "preferences of existing pods are ignored for pods without preferences": (
        [pod("db", "a1", likes=[(5, to())])],
        pod(near=[to()]),
        IGNORING,
        None,
    ),
    "for pods that have some they still count": (
        [pod("db", "a1", likes=[(5, to())])],
        pod(likes=[(1, to("nobody"))]),
        IGNORING,
        [100, 100, 0, 0, 0],
    ),
    "different keys add up on a node": (
        [pod(node="a1")],
        pod("x", likes=[(1, to()), (3, to(key="rack"))]),
        PLAIN,
        [100, 25, 75, 0, 0],
    ),
    "opinions that cancel out still are opinions": (
        [pod(node="a1")],
        pod("x", likes=[(5, to())], dislikes=[(5, to())]),
        PLAIN,
        [0, 0, 0, 0, 0],
    ),
    "terminating pods count": (
        [pod(node="a1", terminating=True)],
        pod("x", likes=[(5, to())]),
        PLAIN,
        [100, 100, 0, 0, 0],
    ),
    "namespaces are those of the terms": (
        [namespace("other", team="x"), pod(node="a1", namespace="other"), pod(node="b1")],
        pod("x", likes=[(5, to(namespace_selector=LabelSelector(match_labels={"team": "x"})))]),
        PLAIN,
        [100, 100, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("objects", "incoming", "args", "want"), SCORES.values(), ids=SCORES)
def test_score(
    form: ScoreForm, objects: list[KubeObject], incoming: Pod, args: InterPodAffinityArgs, want: list[int] | None
) -> None:
    rig = Rig(*CLUSTER, *objects)
    assert run_score(InterPodAffinity(args=args, handle=rig), rig, incoming, form) == want


NORMALIZED = {
    "the example of upstream's documentation": ([-10, 0, 25], [0, 28, 100]),
    "equal scores are all 0": ([7, 7], [0, 0]),
    "the division precedes the multiplication": ([0, 29, 100], [0, 28, 100]),
}


@pytest.mark.parametrize(("raw", "want"), NORMALIZED.values(), ids=NORMALIZED)
def test_normalize(raw: list[int], want: list[int]) -> None:
    rig, scores = Rig(), np.array(raw, dtype=np.int64)
    assert InterPodAffinity(handle=rig).normalize_scores(CycleState(), pod(), rig.nodes, scores).tolist() == want


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
    "a pod with a matching anti-affinity was deleted": (pod("x"), pod("db", "a1", away=[to("x")]), None, QUEUE),
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


def test_label_changes_of_the_pod_always_requeue() -> None:
    assert hint_after_own_labels(pod(), pod(), pod()) == QUEUE


IN_ZONE, IN_OTHER, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()


NODE_HINTS: dict[str, tuple[Pod, Node | None, Node, QueueingHint]] = {
    "a node with the key of affinity was added": (pod(near=[to()]), None, IN_ZONE, QUEUE),
    "a node without it was added": (pod(near=[to()]), None, NOWHERE, SKIPPED),
    "a node got the key": (pod(near=[to()]), NOWHERE, IN_ZONE, QUEUE),
    "a node moved": (pod(near=[to()]), IN_OTHER, IN_ZONE, QUEUE),
    "a node lost the key of affinity": (pod(near=[to()]), IN_ZONE, NOWHERE, SKIPPED),
    "a node remained where it was": (pod(near=[to()], away=[to()]), IN_ZONE, IN_ZONE, SKIPPED),
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
    "a pod with a matching anti-affinity was deleted": (pod("x"), pod("db", "a1", away=[to("x")]), None, QUEUE),
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
    "a node remained where it was": (pod(near=[to()], away=[to()]), IN_ZONE, IN_ZONE, SKIPPED),
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
    "a node remained in its domain": (pod("loud"), IN_ZONE, IN_ZONE, SKIPPED),
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
