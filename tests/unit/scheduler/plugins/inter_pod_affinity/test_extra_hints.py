import pytest
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import ANY, namespace, pod, to

from moorage.kube.api.cluster import Namespace
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.selectors import LabelSelector
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.inter_pod_affinity.hints import EVENTS, ExtraHints
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.plugins.inter_pod_affinity.terms import NamespaceExpansion
from moorage.testing import make_node
from moorage.testing.rig import Rig

QUEUE, SKIPPED = QueueingHint.QUEUE, QueueingHint.SKIP
WEB, DB = pod(node="a1"), pod("db", "a1")
OPEN = LabelSelector(match_labels={"open": "yes"})


def hints(*objects: Node | Pod | Namespace) -> ExtraHints:
    rig = Rig(*objects)
    return ExtraHints(rig.pods, NamespaceExpansion(rig.lister(Namespace)))


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
    "a pod no longer is what it avoids in one of two kinds of domains": (
        pod("x", away=[to(), to("db", "rack")]),
        WEB,
        DB,
        QUEUE,
    ),
    "a pod it wants went": (pod("x", near=[to()]), WEB, None, SKIPPED),
    "a pod of its own kind went: it may be the first again": (pod(near=[to()]), WEB, None, QUEUE),
    "a pod of its own kind is of another": (pod(near=[to()]), WEB, DB, QUEUE),
    "a pod it wants came, in a namespace that is selected": (
        pod("x", near=[to(namespace_selector=OPEN)]),
        None,
        pod(node="a1", namespace="open"),
        QUEUE,
    ),
    "a pod came in a namespace that is not": (
        pod("x", near=[to(namespace_selector=OPEN)]),
        None,
        pod(node="a1", namespace="closed"),
        SKIPPED,
    ),
    "a pod that avoids it for its namespace went": (
        pod("x", namespace="open"),
        pod("db", "a1", away=[to("x", namespace_selector=OPEN)]),
        None,
        QUEUE,
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
    spaces = namespace("open", open="yes"), namespace("closed")
    assert hints(*spaces).after_assigned_pod(waiting, old, new) == want


IN_ZONE, IN_OTHER, NOWHERE = make_node(labels={"zone": "a"}), make_node(labels={"zone": "b"}), make_node()
NODE_HINTS: dict[str, tuple[Pod, Node | None, Node | None, QueueingHint]] = {
    "a node with the key of affinity came": (pod(near=[to()]), None, IN_ZONE, QUEUE),
    "a node without it came": (pod(near=[to()]), None, NOWHERE, SKIPPED),
    "a node got the key": (pod(near=[to()]), NOWHERE, IN_ZONE, QUEUE),
    "a node moved": (pod(near=[to()]), IN_OTHER, IN_ZONE, QUEUE),
    "a node lost the key of affinity": (pod("x", near=[to()]), IN_ZONE, NOWHERE, SKIPPED),
    "a node lost it, and perhaps the last pods of its kind": (pod(near=[to()]), IN_ZONE, NOWHERE, QUEUE),
    "a node stayed where it was": (pod(near=[to()], away=[to()]), IN_ZONE, IN_ZONE, SKIPPED),
    "any node came to a pod with anti-affinity": (pod(away=[to()]), None, NOWHERE, QUEUE),
    "a node lost the key of anti-affinity": (pod(away=[to()]), IN_ZONE, NOWHERE, QUEUE),
    "a node moved to another domain of anti-affinity": (pod(away=[to()]), IN_ZONE, IN_OTHER, QUEUE),
    "a node got the key of anti-affinity": (pod(away=[to()]), NOWHERE, IN_ZONE, SKIPPED),
    "a node of the domain went": (pod(away=[to()]), IN_ZONE, None, QUEUE),
    "a node without the key went": (pod(away=[to()]), NOWHERE, None, SKIPPED),
    "a node went on which pods were that it wants": (pod("x", near=[to()]), IN_ZONE, None, SKIPPED),
    "a node went on which pods of its own kind were": (pod(near=[to()]), IN_ZONE, None, QUEUE),
    "a pod without terms does not care": (pod(), None, IN_ZONE, SKIPPED),
    "unless pods on nodes avoid it: a node came": (pod("loud"), None, IN_ZONE, QUEUE),
    "a node left a domain": (pod("loud"), IN_ZONE, IN_OTHER, QUEUE),
    "a node went": (pod("loud"), IN_ZONE, None, QUEUE),
    "a node stayed in its domain": (pod("loud"), IN_ZONE, IN_ZONE, SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_after_node(waiting: Pod, old: Node | None, new: Node | None, want: QueueingHint) -> None:
    quiet = pod("quiet", "a1", away=[to("loud")])
    assert hints(make_node("a1"), quiet).after_node(waiting, old, new) == want


CLOSED, OPENED = namespace("default"), namespace("default", open="yes")
NAMESPACE_HINTS: dict[str, tuple[Pod, Namespace | None, Namespace, QueueingHint]] = {
    "a namespace is selected now": (pod(near=[to(namespace_selector=OPEN)]), CLOSED, OPENED, QUEUE),
    "one that is selected was not known": (pod(near=[to(namespace_selector=OPEN)]), None, OPENED, QUEUE),
    "a namespace is no longer selected": (pod(away=[to(namespace_selector=OPEN)]), OPENED, CLOSED, QUEUE),
    "a namespace is selected as before": (pod(near=[to(namespace_selector=OPEN)]), OPENED, OPENED, SKIPPED),
    "a pod without selectors does not care": (pod(near=[to()]), CLOSED, OPENED, SKIPPED),
    "its own namespace is no longer avoided": (pod("loud"), OPENED, CLOSED, QUEUE),
    "its own namespace is avoided from now on": (pod("loud"), CLOSED, OPENED, SKIPPED),
    "another namespace is no longer avoided": (pod("loud", namespace="other"), OPENED, CLOSED, SKIPPED),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NAMESPACE_HINTS.values(), ids=NAMESPACE_HINTS)
def test_hint_after_namespace(waiting: Pod, old: Namespace | None, new: Namespace, want: QueueingHint) -> None:
    quiet = pod("quiet", "a1", namespace="third", away=[to("loud", namespace_selector=OPEN)])
    assert hints(make_node("a1"), quiet).after_namespace(waiting, old, new) == want


def test_events() -> None:
    wider = InterPodAffinity(handle=Rig()).events_to_register()[len(EVENTS) :]
    assert [item.event for item in wider] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE),
        ClusterEvent(Resource.NAMESPACE, Action.ADD | Action.UPDATE),
    ]
    assert all(item.beyond_upstream for item in wider)
