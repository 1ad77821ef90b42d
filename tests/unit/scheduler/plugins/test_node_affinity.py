from typing import Any

import pytest

from moorage.common.errors import SelectorError
from moorage.kube.api.affinity import Affinity, PreferredSchedulingTerm
from moorage.kube.api.affinity import NodeAffinity as Wishes
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.config.args import NodeAffinityArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.plugin import NodeNames, PreFilterAnswer
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_affinity import CONFLICT, NOT_ENFORCED, NOT_WANTED, NodeAffinity
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, SCORE_FORMS, FilterForm, Rig, ScoreForm, run_filter, run_score

A = make_node("a", labels={"disk": "ssd", "cores": "8"}, zone="east")
B = make_node("b", labels={"disk": "hdd", "cores": "16"}, zone="west")
C = make_node("c", labels={"cores": "many"})


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


def labels(*expressions: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=expressions)


def fields(*requirements: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=requirements)


def name_in(*names: str) -> NodeSelectorRequirement:
    return expression("metadata.name", "In", *names)


def requiring(*terms: NodeSelectorTerm, **spec: Any) -> Pod:
    return make_pod(affinity=Affinity(node_affinity=Wishes(required=NodeSelector(terms))), **spec)


def preferring(*terms: tuple[int, NodeSelectorTerm]) -> Pod:
    preferred = tuple(PreferredSchedulingTerm(weight, term) for weight, term in terms)
    return make_pod(affinity=Affinity(node_affinity=Wishes(preferred=preferred)))


SSD = labels(expression("disk", "In", "ssd"))
HDD = labels(expression("disk", "In", "hdd"))

CASES = {
    "a pod without wishes fits on every node": (make_pod(), "abc"),
    "a selector wants all labels equal": (make_pod(node_selector={"disk": "ssd", "cores": "8"}), "a"),
    "one label that differs is enough": (make_pod(node_selector={"disk": "ssd", "cores": "16"}), ""),
    "an empty selector wants nothing": (make_pod(node_selector={}), "abc"),
    "In takes one of the values": (requiring(labels(expression("disk", "In", "ssd", "hdd"))), "ab"),
    "NotIn takes nodes without the label, too": (requiring(labels(expression("disk", "NotIn", "ssd"))), "bc"),
    "Exists takes any value": (requiring(labels(expression("disk", "Exists"))), "ab"),
    "DoesNotExist takes its absence": (requiring(labels(expression("disk", "DoesNotExist"))), "c"),
    "Gt compares integers and passes over words": (requiring(labels(expression("cores", "Gt", "8"))), "b"),
    "Lt as well": (requiring(labels(expression("cores", "Lt", "16"))), "a"),
    "expressions of a term must all hold": (
        requiring(labels(expression("disk", "Exists"), expression("cores", "Gt", "8"))),
        "b",
    ),
    "one term is enough": (requiring(SSD, HDD), "ab"),
    "selector and affinity must both hold": (requiring(SSD, HDD, node_selector={"cores": "16"}), "b"),
    "no terms match nothing": (requiring(), ""),
    "an empty term matches nothing": (requiring(NodeSelectorTerm()), ""),
    "but leaves the others alone": (requiring(NodeSelectorTerm(), SSD), "a"),
    "a term that does not parse matches nothing": (requiring(labels(expression("disk", "Like", "ssd"))), ""),
    "nor does a bound that is not a integer": (requiring(labels(expression("cores", "Gt", "few"))), ""),
    "and its error does not concern the others": (requiring(labels(expression("disk", "Like", "ssd")), HDD), "b"),
    "fields match by name": (requiring(fields(name_in("b"))), "b"),
    "fields and expressions of a term must both hold": (
        requiring(NodeSelectorTerm(match_expressions=SSD.match_expressions, match_fields=(name_in("b"),))),
        "",
    ),
    "fields know NotIn": (requiring(fields(expression("metadata.name", "NotIn", "b"))), "ac"),
    "fields know no other operator": (requiring(fields(expression("metadata.name", "Exists"))), ""),
    "two values in a field do not parse": (requiring(fields(name_in("a", "b"))), ""),
    "a name of no node": (requiring(fields(name_in("x"))), ""),
    "another field is absent": (requiring(fields(expression("spec.x", "NotIn", "b"))), "abc"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("pod", "accepted"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, pod: Pod, accepted: str) -> None:
    want = [None if name in accepted else NOT_WANTED for name in "abc"]
    assert run_filter(NodeAffinity(), Rig(A, B, C), pod, form) == want


ENFORCED = NodeAffinity(args=NodeAffinityArgs(added_affinity=Wishes(required=NodeSelector((SSD, HDD)))))


@pytest.mark.parametrize("form", FORMS)
def test_the_profiles_affinity_is_first(form: FilterForm) -> None:
    assert run_filter(ENFORCED, Rig(A, B, C), requiring(SSD), form) == [None, NOT_WANTED, NOT_ENFORCED]
    assert run_filter(ENFORCED, Rig(A, B, C), make_pod(), form) == [None, None, NOT_ENFORCED]


def test_the_reasons_are_upstreams() -> None:
    assert [NOT_WANTED.message, NOT_ENFORCED.message, CONFLICT.message] == [
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) didn't match scheduler-enforced node affinity",
        "pod affinity terms conflict",
    ]


PRE_FILTERS: dict[str, tuple[Pod, PreFilterAnswer]] = {
    "a pod without wishes is passed over": (make_pod(), Status.skip()),
    "also one that only prefers": (preferring((1, SSD)), Status.skip()),
    "an empty selector is one": (make_pod(node_selector={}), None),
    "labels narrow nothing": (requiring(SSD), None),
    "no terms narrow nothing": (requiring(), None),
    "one named node": (requiring(fields(name_in("a"))), NodeNames(frozenset("a"))),
    "several terms add up": (requiring(fields(name_in("a")), fields(name_in("b"))), NodeNames(frozenset("ab"))),
    "both values count here although matching rejects them": (
        requiring(fields(name_in("a", "b"))),
        NodeNames(frozenset("ab")),
    ),
    "fields of one term intersect": (requiring(fields(name_in("a", "b"), name_in("b"))), NodeNames(frozenset("b"))),
    "an empty intersection is a conflict": (requiring(fields(name_in("a"), name_in("b"))), CONFLICT),
    "unless another term names a node": (
        requiring(fields(name_in("a"), name_in("b")), fields(name_in("c"))),
        NodeNames(frozenset("c")),
    ),
    "a term without a name opens the search": (requiring(fields(name_in("a")), SSD), None),
    "NotIn names no node": (requiring(fields(expression("metadata.name", "NotIn", "a"))), None),
}


@pytest.mark.parametrize(("pod", "want"), PRE_FILTERS.values(), ids=PRE_FILTERS)
def test_pre_filter(pod: Pod, want: PreFilterAnswer) -> None:
    assert NodeAffinity().pre_filter(CycleState(), pod, Rig(A, B, C).nodes) == want


SCORES: dict[str, tuple[Pod, list[int] | None]] = {
    "a pod that prefers nothing is passed over": (make_pod(), None),
    "an empty list is not": (preferring(), [0, 0, 0]),
    "weights of fulfilled wishes add up": (
        preferring((2, SSD), (3, labels(expression("cores", "Exists")))),
        [100, 60, 60],
    ),
    "a wish of no weight is ignored": (preferring((0, labels(expression("disk", "Like", "x"))), (1, HDD)), [0, 100, 0]),
    "an empty wish is ignored": (preferring((5, NodeSelectorTerm()), (1, HDD)), [0, 100, 0]),
    "names count": (preferring((1, fields(name_in("c"))), (3, SSD)), [100, 0, 33]),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("pod", "want"), SCORES.values(), ids=SCORES)
def test_score(form: ScoreForm, pod: Pod, want: list[int] | None) -> None:
    assert run_score(NodeAffinity(), Rig(A, B, C), pod, form) == want


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_the_profiles_wishes_count_for_every_pod(form: ScoreForm) -> None:
    added = Wishes(preferred=(PreferredSchedulingTerm(1, HDD),))
    plugin = NodeAffinity(args=NodeAffinityArgs(added_affinity=added))
    assert run_score(plugin, Rig(A, B, C), make_pod(), form) == [0, 100, 0]
    assert run_score(plugin, Rig(A, B, C), preferring((4, SSD)), form) == [100, 25, 0]


def test_invalid_preferred_term_is_an_error() -> None:
    pod = preferring((1, labels(expression("disk", "Like", "ssd"))))
    with pytest.raises(SelectorError, match="Like"):
        NodeAffinity().pre_score(CycleState(), pod, Rig(A).nodes)


PLAIN = make_node("a")
HINTS = {
    "a new node that will do helps": (NodeAffinity(), requiring(SSD), None, A, QueueingHint.QUEUE),
    "a new node that will not does not": (NodeAffinity(), requiring(SSD), None, B, QueueingHint.SKIP),
    "a label that appears helps": (NodeAffinity(), requiring(SSD), PLAIN, A, QueueingHint.QUEUE),
    "a removed label does not": (NodeAffinity(), requiring(SSD), A, PLAIN, QueueingHint.SKIP),
    "a node that matched before does not": (NodeAffinity(), requiring(SSD), A, A, QueueingHint.SKIP),
    "a node the profile forbids does not": (ENFORCED, make_pod(), None, C, QueueingHint.SKIP),
    "one the profile begins to allow is not distinguished": (ENFORCED, make_pod(), PLAIN, A, QueueingHint.SKIP),
}


@pytest.mark.parametrize(("plugin", "pod", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(plugin: NodeAffinity, pod: Pod, old: Node | None, new: Node, want: QueueingHint) -> None:
    assert plugin.after_node_change(pod, old, new) is want


def test_events() -> None:
    (registration,) = NodeAffinity().events_to_register()
    assert registration.event == ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)


def test_signatures_differ_by_affinity_and_selector() -> None:
    plugin = NodeAffinity()
    assert plugin.sign(requiring(SSD)) == plugin.sign(requiring(SSD))
    assert len({plugin.sign(pod) for pod in (make_pod(), make_pod(node_selector={}), requiring(SSD), requiring())}) == 4


def test_pods_that_name_their_nodes_have_no_signature() -> None:
    plugin = NodeAffinity()
    assert plugin.sign(requiring(fields(name_in("a")))) is None
    assert plugin.sign(requiring(fields(name_in("a")), fields(name_in("b")))) is None
    many = requiring(*(fields(name_in(name)) for name in "abcdefgh"))
    assert plugin.sign(many) is not None
    assert plugin.sign(requiring(fields(name_in("a")), SSD)) is not None
