from collections.abc import Iterable

import numpy as np
import pytest

from moorage.api.affinity import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from moorage.api.cluster import Namespace
from moorage.api.meta import KubeObject, ObjectMeta
from moorage.api.node import HOSTNAME_LABEL, Node
from moorage.api.pod import Pod, PodStatus
from moorage.api.selectors import LabelSelector, LabelSelectorRequirement
from moorage.config.args import InterPodAffinityArgs
from moorage.framework.cycle import CycleState
from moorage.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.framework.status import SKIP, Code, Status
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.inter_pod_affinity.filter import AFFINITY_UNMET, ANTI_AFFINITY_BROKEN, EXISTING_BROKEN
from moorage.plugins.inter_pod_affinity.hints import hint_after_assigned_pod, hint_after_node, hint_after_own_labels
from moorage.plugins.inter_pod_affinity.score import normalize
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, SCORE_FORMS, FilterForm, Rig, ScoreForm, judge, rate

ANY = LabelSelector()


def to(app: str = "web", key: str = "zone", **fields: object) -> PodAffinityTerm:
    """Mean the pods of an app."""
    written = {"label_selector": LabelSelector(match_labels={"app": app}), **fields}
    return PodAffinityTerm(topology_key=key, **written)  # type: ignore[arg-type]


def affinity(
    near: Iterable[PodAffinityTerm] = (),
    away: Iterable[PodAffinityTerm] = (),
    likes: Iterable[tuple[int, PodAffinityTerm]] = (),
    dislikes: Iterable[tuple[int, PodAffinityTerm]] = (),
) -> Affinity:
    def weighted(terms: Iterable[tuple[int, PodAffinityTerm]]) -> tuple[WeightedPodAffinityTerm, ...]:
        return tuple(WeightedPodAffinityTerm(weight, term) for weight, term in terms)

    return Affinity(
        pod_affinity=PodAffinity(tuple(near), weighted(likes)),
        pod_anti_affinity=PodAntiAffinity(tuple(away), weighted(dislikes)),
    )


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def pod(app: str = "web", node: str = "", *, name: str = "", **fields: object) -> Pod:
    """Make a pod of an app; the rest are what :func:`affinity` takes, and fields of the pod."""
    wishes = {key: fields.pop(key) for key in ("near", "away", "likes", "dislikes") if key in fields}
    return make_pod(
        name or app,
        node=node,
        labels={"app": app},
        affinity=affinity(**wishes) if wishes else None,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


# Two zones of two nodes each, and a node in none.
CLUSTER = (
    make_node("a1", labels={"zone": "a", "rack": "1"}),
    make_node("a2", labels={"zone": "a", "rack": "2"}),
    make_node("b1", labels={"zone": "b", "rack": "1"}),
    make_node("b2", labels={"zone": "b"}),
    make_node("bare"),
)
NEVER = [AFFINITY_UNMET] * 5
ALWAYS = [None] * 5
IN_A = [None, None, AFFINITY_UNMET, AFFINITY_UNMET, AFFINITY_UNMET]
NOT_IN_A = [ANTI_AFFINITY_BROKEN, ANTI_AFFINITY_BROKEN, None, None, None]
RESENTED_IN_A = [EXISTING_BROKEN, EXISTING_BROKEN, None, None, None]

FILTERS: dict[str, tuple[list[KubeObject], Pod, list[Status | None]]] = {
    "a pod without terms goes anywhere": ([pod(node="a1")], pod(), ALWAYS),
    "affinity draws a pod to the domain of its kind": ([pod(node="a1")], pod("db", near=[to()]), IN_A),
    "no such pod means no node": ([pod("db", "a1")], pod("db", near=[to()]), NEVER),
    "the first of a group that wants to be together may go where the key is": (
        [],
        pod(near=[to()]),
        [None, None, None, None, AFFINITY_UNMET],
    ),
    "unless one of its kind is there already": (
        [pod(node="b1")],
        pod(near=[to()]),
        [*[AFFINITY_UNMET] * 2, None, None, AFFINITY_UNMET],
    ),
    "one foreign pod that matches is enough to end that": (
        [make_pod("foreign", labels={"app": "web", "x": "y"}, node="a2")],
        pod(near=[to()]),
        IN_A,
    ),
    "a pod that matches on a node without the key does not end it": (
        [pod(node="bare")],
        pod(near=[to()]),
        [None, None, None, None, AFFINITY_UNMET],
    ),
    "a pod that does not match itself is never the first": ([], pod("db", near=[to()]), NEVER),
    "all terms must be met by the same pod": (
        [pod(node="a1"), pod("db", "a2")],
        pod("x", near=[to("web"), to("db")]),
        NEVER,
    ),
    "that pod meets each term in its own domain of the key": (
        [make_pod("both", labels={"app": "web", "tier": "1"}, node="a1")],
        pod("x", near=[to("web"), to("web", "rack")]),
        [None, AFFINITY_UNMET, AFFINITY_UNMET, AFFINITY_UNMET, AFFINITY_UNMET],
    ),
    "two pods may meet the terms of one node": (
        [pod(node="a2"), pod(node="b1")],
        pod("x", near=[to(key="zone"), to(key="rack")]),
        [None, None, None, AFFINITY_UNMET, AFFINITY_UNMET],
    ),
    "terminating pods are there": ([pod(node="a1", terminating=True)], pod("db", near=[to()]), IN_A),
    "affinity without a selector is never met": ([pod(node="a1")], pod(near=[to(label_selector=None)]), NEVER),
    "affinity with an empty selector is met by any pod": (
        [pod(node="a1")],
        pod("db", near=[to(label_selector=ANY)]),
        IN_A,
    ),
    "anti-affinity keeps a pod out of the domain": ([pod(node="a1")], pod("db", away=[to()]), NOT_IN_A),
    "a node without the key is out of every domain": ([pod(node="bare")], pod("db", away=[to()]), ALWAYS),
    "anti-affinity without a selector means nobody": ([pod(node="a1")], pod(away=[to(label_selector=None)]), ALWAYS),
    "any anti-affinity term is enough": (
        [pod(node="a1"), pod("db", "b1")],
        pod("x", away=[to("web"), to("db", HOSTNAME_LABEL)]),
        [ANTI_AFFINITY_BROKEN, ANTI_AFFINITY_BROKEN, ANTI_AFFINITY_BROKEN, None, None],
    ),
    "existing pods keep others away": ([pod("db", "a1", away=[to()])], pod(), RESENTED_IN_A),
    "but not those they do not mean": ([pod("db", "a1", away=[to()])], pod("db"), ALWAYS),
    "nor from a node without the key": ([pod("db", "bare", away=[to()])], pod(), ALWAYS),
    "existing pods may mean several keys": (
        [pod("db", "a1", away=[to(), to(key="rack")])],
        pod(),
        [EXISTING_BROKEN, EXISTING_BROKEN, EXISTING_BROKEN, None, None],
    ),
    "affinity of existing pods keeps nobody away": ([pod("db", "a1", near=[to("db")])], pod(), ALWAYS),
    "of several reasons affinity comes first": (
        [pod(node="a1"), pod("db", "a1", away=[to("x")])],
        pod("x", near=[to("db")], away=[to("web")]),
        [ANTI_AFFINITY_BROKEN, ANTI_AFFINITY_BROKEN, AFFINITY_UNMET, AFFINITY_UNMET, AFFINITY_UNMET],
    ),
    "own anti-affinity comes before that of existing pods": (
        [pod(node="a1", away=[to("x", HOSTNAME_LABEL)]), pod("db", "b1", away=[to("x", HOSTNAME_LABEL)])],
        pod("x", away=[to("web", HOSTNAME_LABEL)]),
        [ANTI_AFFINITY_BROKEN, None, EXISTING_BROKEN, None, None],
    ),
    "terms mean pods of the own namespace": ([pod(node="a1", namespace="other")], pod("db", away=[to()]), ALWAYS),
    "or of the namespaces they list": (
        [pod(node="a1", namespace="other")],
        pod("db", away=[to(namespaces=("other",))]),
        NOT_IN_A,
    ),
    "and then no longer of the own": ([pod(node="a1")], pod("db", away=[to(namespaces=("other",))]), ALWAYS),
    "a namespace selector selects by labels": (
        [namespace("other", team="x"), pod(node="a1", namespace="other")],
        pod("db", away=[to(namespace_selector=LabelSelector(match_labels={"team": "x"}))]),
        NOT_IN_A,
    ),
    "an incoming pod's namespace selector selects only namespaces that are known": (
        [pod(node="a1", namespace="other")],
        pod(
            "db",
            away=[
                to(namespace_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("x", "DoesNotExist"),)))
            ],
        ),
        ALWAYS,
    ),
    "an existing pod's is asked of the incoming pod's namespace, known or not": (
        [
            pod(
                "db",
                "a1",
                namespace="other",
                away=[
                    to(
                        namespace_selector=LabelSelector(
                            match_expressions=(LabelSelectorRequirement("x", "DoesNotExist"),)
                        )
                    )
                ],
            )
        ],
        pod(),
        RESENTED_IN_A,
    ),
    "an empty namespace selector means every namespace, known or not": (
        [pod(node="a1", namespace="other")],
        pod("db", away=[to(namespace_selector=ANY)]),
        NOT_IN_A,
    ),
    "listed and selected namespaces are both meant": (
        [namespace("other"), namespace("third", team="x"), pod(node="a1", namespace="third")],
        pod("db", away=[to(namespaces=("other",), namespace_selector=LabelSelector(match_labels={"team": "x"}))]),
        NOT_IN_A,
    ),
    "two terms in different namespaces are never met by one pod": (
        [pod(node="a1"), pod(node="a1", namespace="other", name="o")],
        pod(near=[to(), to(namespaces=("other",))]),
        NEVER,
    ),
    "matchLabelKeys are the API server's business": (
        [pod(node="a1")],
        pod("db", away=[to(match_label_keys=("absent",), mismatch_label_keys=("app",))]),
        NOT_IN_A,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("objects", "incoming", "want"), FILTERS.values(), ids=FILTERS)
def test_filter(form: FilterForm, objects: list[KubeObject], incoming: Pod, want: list[Status | None]) -> None:
    rig = Rig(*CLUSTER, *objects)
    assert judge(InterPodAffinity(handle=rig), rig, incoming, form) == want


def test_reasons_and_codes() -> None:
    assert Status.unresolvable("node(s) didn't match pod affinity rules") == AFFINITY_UNMET
    assert Status.unschedulable("node(s) didn't match pod anti-affinity rules") == ANTI_AFFINITY_BROKEN
    assert Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules") == EXISTING_BROKEN


SKIPS: dict[str, tuple[list[KubeObject], Pod, bool]] = {
    "nothing to do with affinity": ([pod(node="a1")], pod(), True),
    "existing anti-affinity about others": ([pod("db", "a1", away=[to("x")])], pod(), True),
    "existing anti-affinity on a node without the key": ([pod("db", "bare", away=[to()])], pod(), True),
    "existing anti-affinity about this pod": ([pod("db", "a1", away=[to()])], pod(), False),
    "only preferred terms": ([], pod(likes=[(1, to())]), True),
    "required affinity": ([], pod(near=[to()]), False),
    "required anti-affinity": ([], pod(away=[to()]), False),
}


@pytest.mark.parametrize(("objects", "incoming", "skips"), SKIPS.values(), ids=SKIPS)
def test_pre_filter_skips(objects: list[KubeObject], incoming: Pod, skips: bool) -> None:
    rig = Rig(*CLUSTER, *objects)
    answer = InterPodAffinity(handle=rig).pre_filter(CycleState(), incoming, rig.nodes)
    assert answer == (SKIP if skips else None)


def test_a_selector_that_cannot_be_read_turns_the_pod_down_for_good() -> None:
    bad = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Near"),))
    rig = Rig(*CLUSTER)
    plugin = InterPodAffinity(handle=rig)
    one = plugin.pre_filter(CycleState(), pod(near=[to(label_selector=bad)]), rig.nodes)
    assert isinstance(one, Status)
    assert one.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert one.message.startswith("parsing pod: requiredAffinityTerms: app: operator 'Near' is unknown")
    both = pod(away=[to(label_selector=bad)], likes=[(1, to(label_selector=bad))])
    two = plugin.pre_filter(CycleState(), both, rig.nodes)
    assert isinstance(two, Status)
    assert two.message.startswith("parsing pod: [requiredAntiAffinityTerms: ")
    assert ", preferredAffinityTerms: " in two.message
    failed = plugin.pre_score(CycleState(), both, rig.nodes)
    assert failed is not None
    assert failed.code == Code.ERROR


def test_namespaces_that_change_are_seen_in_the_next_cycle() -> None:
    rig = Rig(*CLUSTER, pod(node="a1", namespace="other"), namespace("other"))
    plugin = InterPodAffinity(handle=rig)
    choosy = pod("db", away=[to(namespace_selector=LabelSelector(match_labels={"team": "x"}))])
    assert judge(plugin, rig, choosy, FORMS[1]) == ALWAYS
    rig.add(namespace("other", team="x"))
    assert judge(plugin, rig, choosy, FORMS[1]) == NOT_IN_A


WHAT_IFS: dict[str, tuple[list[Pod], Pod, str, Pod, list[Status | None]]] = {
    "adding a pod it wants opens its domain": ([], pod("x", near=[to()]), "add", pod(node="a1"), IN_A),
    "removing the last one closes it": (
        [pod(node="a1", uid="1")],
        pod("x", near=[to()]),
        "remove",
        pod(node="a1", uid="1"),
        NEVER,
    ),
    "removing the last of its kind makes it the first again": (
        [pod(node="a1", uid="1")],
        pod(near=[to()]),
        "remove",
        pod(node="a1", uid="1"),
        [None, None, None, None, AFFINITY_UNMET],
    ),
    "adding a pod it avoids closes the domain": ([], pod("x", away=[to()]), "add", pod(node="a1"), NOT_IN_A),
    "removing it opens it": (
        [pod(node="a1", uid="1")],
        pod("x", away=[to()]),
        "remove",
        pod(node="a1", uid="1"),
        ALWAYS,
    ),
    "adding a pod that avoids it closes the domain": (
        [],
        pod(away=[to("nobody")]),
        "add",
        pod("db", "a1", away=[to()]),
        RESENTED_IN_A,
    ),
    "removing that one opens it": (
        [pod("db", "a1", uid="1", away=[to()])],
        pod(),
        "remove",
        pod("db", "a1", uid="1", away=[to()]),
        ALWAYS,
    ),
    "a pod on a node without the key changes nothing": ([], pod("x", away=[to()]), "add", pod(node="bare"), ALWAYS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("existing", "incoming", "what", "other", "want"), WHAT_IFS.values(), ids=WHAT_IFS)
def test_what_ifs(
    form: FilterForm, existing: list[Pod], incoming: Pod, what: str, other: Pod, want: list[Status | None]
) -> None:
    rig = Rig(*CLUSTER, *existing)
    plugin, cycle = InterPodAffinity(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, incoming, rig.nodes) is None
    before = form(plugin, cycle, incoming, rig.nodes)
    clone = cycle.clone()
    node = rig.nodes.find(other.node_name)
    assert node is not None
    (plugin.add_pod if what == "add" else plugin.remove_pod)(clone, incoming, other, node)
    assert form(plugin, clone, incoming, rig.nodes) == want
    assert form(plugin, cycle, incoming, rig.nodes) == before


PLAIN = InterPodAffinityArgs()
IGNORING = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
SCORES: dict[str, tuple[list[KubeObject], Pod, InterPodAffinityArgs, list[int] | None]] = {
    "nothing said, nothing scored": ([pod(node="a1")], pod(), PLAIN, None),
    "a wish raises the domain": ([pod(node="a1")], pod("x", likes=[(5, to())]), PLAIN, [100, 100, 0, 0, 0]),
    "a dislike lowers it": ([pod(node="a1")], pod("x", dislikes=[(5, to())]), PLAIN, [0, 0, 100, 100, 100]),
    "every pod counts": (
        [pod(node="a1"), pod(node="a2"), pod(node="b1")],
        pod("x", likes=[(5, to())]),
        PLAIN,
        [100, 100, 50, 50, 0],
    ),
    "a pod on a node without the key counts nowhere": ([pod(node="bare")], pod("x", likes=[(5, to())]), PLAIN, None),
    "wishes of existing pods count": ([pod("db", "a1", likes=[(5, to())])], pod(), PLAIN, [100, 100, 0, 0, 0]),
    "so do their dislikes": ([pod("db", "a1", dislikes=[(5, to())])], pod(), PLAIN, [0, 0, 100, 100, 100]),
    "and their required affinity, by the hard weight": (
        [pod("db", "a1", near=[to()]), pod("db", "b1", name="liking", likes=[(4, to())])],
        pod(),
        InterPodAffinityArgs(hard_pod_affinity_weight=2),
        [50, 50, 100, 100, 0],
    ),
    "which may be 0": ([pod("db", "a1", near=[to()])], pod(), InterPodAffinityArgs(hard_pod_affinity_weight=0), None),
    "but not their required anti-affinity": ([pod("db", "a1", away=[to()])], pod(), PLAIN, None),
    "existing pods' wishes can be ignored for pods that have none": (
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
    assert rate(InterPodAffinity(args=args, handle=rig), rig, incoming, form) == want


NORMALIZED = {
    "the reference's example": ([-10, 0, 25], [0, 28, 100]),
    "equal scores are all 0": ([7, 7], [0, 0]),
    "the division comes before the multiplication": ([0, 29, 100], [0, 28, 100]),
}


@pytest.mark.parametrize(("raw", "want"), NORMALIZED.values(), ids=NORMALIZED)
def test_normalize(raw: list[int], want: list[int]) -> None:
    assert normalize(np.array(raw, dtype=np.int64)).tolist() == want


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
    assert [item.event for item in InterPodAffinity(handle=Rig()).events_to_register()] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL),
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
    ]
