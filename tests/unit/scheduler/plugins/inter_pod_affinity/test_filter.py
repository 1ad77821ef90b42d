import pytest
from tests.unit.scheduler.plugins.inter_pod_affinity.affinity_builders import ANY, CLUSTER, namespace, pod, to

from moorage.kube.api.affinity_terms import AffinityTerm
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import EVERYTHING, NOTHING, LabelSelector, LabelSelectorRequirement
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.status import SKIP, Code, Status
from moorage.scheduler.plugins.inter_pod_affinity.filter import (
    AFFINITY_UNMET,
    ANTI_AFFINITY_BROKEN,
    EXISTING_BROKEN,
    NamespaceExpansion,
)
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.testing import make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

NEVER = [AFFINITY_UNMET] * 5
ALWAYS = [None] * 5
IN_A = [None, None, AFFINITY_UNMET, AFFINITY_UNMET, AFFINITY_UNMET]
NOT_IN_A = [ANTI_AFFINITY_BROKEN, ANTI_AFFINITY_BROKEN, None, None, None]
RESENTED_IN_A = [EXISTING_BROKEN, EXISTING_BROKEN, None, None, None]

FILTERS: dict[str, tuple[list[KubeObject], Pod, list[Status | None]]] = {
    "a pod without terms fits on every node": ([pod(node="a1")], pod(), ALWAYS),
    "affinity draws a pod to the domain of its kind": ([pod(node="a1")], pod("db", near=[to()]), IN_A),
    "no such pod means no node": ([pod("db", "a1")], pod("db", near=[to()]), NEVER),
    "the first pod with affinity to itself fits nodes with the key": (
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
    "anti-affinity without a selector matches no pod": ([pod(node="a1")], pod(away=[to(label_selector=None)]), ALWAYS),
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
    "affinity of existing pods rejects no pod": ([pod("db", "a1", near=[to("db")])], pod(), ALWAYS),
    "of several reasons affinity is first": (
        [pod(node="a1"), pod("db", "a1", away=[to("x")])],
        pod("x", near=[to("db")], away=[to("web")]),
        [ANTI_AFFINITY_BROKEN, ANTI_AFFINITY_BROKEN, AFFINITY_UNMET, AFFINITY_UNMET, AFFINITY_UNMET],
    ),
    "own anti-affinity precedes that of existing pods": (
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
    "an existing pod's is matched with the incoming pod's namespace, known or not": (
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
    assert run_filter(InterPodAffinity(handle=rig), rig, incoming, form) == want


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


def test_an_invalid_selector_makes_the_pod_unresolvable() -> None:
    bad = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Near"),))
    rig = Rig(*CLUSTER)
    plugin = InterPodAffinity(handle=rig)
    first = plugin.pre_filter(CycleState(), pod(near=[to(label_selector=bad)]), rig.nodes)
    assert isinstance(first, Status)
    assert first.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert first.message.startswith("parsing pod: requiredAffinityTerms: app: operator 'Near' is unknown")
    combined = pod(away=[to(label_selector=bad)], likes=[(1, to(label_selector=bad))])
    two = plugin.pre_filter(CycleState(), combined, rig.nodes)
    assert isinstance(two, Status)
    assert two.message.startswith("parsing pod: [requiredAntiAffinityTerms: ")
    assert ", preferredAffinityTerms: " in two.message
    failed = plugin.pre_score(CycleState(), combined, rig.nodes)
    assert failed is not None
    assert failed.code == Code.ERROR


def test_namespaces_that_change_are_seen_in_the_next_cycle() -> None:
    rig = Rig(*CLUSTER, pod(node="a1", namespace="other"), namespace("other"))
    plugin = InterPodAffinity(handle=rig)
    choosy = pod("db", away=[to(namespace_selector=LabelSelector(match_labels={"team": "x"}))])
    assert run_filter(plugin, rig, choosy, FORMS[1]) == ALWAYS
    rig.add(namespace("other", team="x"))
    assert run_filter(plugin, rig, choosy, FORMS[1]) == NOT_IN_A


WHAT_IFS: dict[str, tuple[list[Pod], Pod, str, Pod, list[Status | None]]] = {
    "adding a matching pod opens its domain": ([], pod("x", near=[to()]), "add", pod(node="a1"), IN_A),
    "removing the last one closes it": (
        [pod(node="a1", uid="1")],
        pod("x", near=[to()]),
        "remove",
        pod(node="a1", uid="1"),
        NEVER,
    ),
    "removing the last of its kind makes it the first": (
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
@pytest.mark.parametrize(("existing", "incoming", "description", "other", "want"), WHAT_IFS.values(), ids=WHAT_IFS)
def test_adding_and_removing_pods_changes_the_result(
    form: FilterForm, existing: list[Pod], incoming: Pod, description: str, other: Pod, want: list[Status | None]
) -> None:
    rig = Rig(*CLUSTER, *existing)
    plugin, cycle = InterPodAffinity(handle=rig), CycleState()
    assert plugin.pre_filter(cycle, incoming, rig.nodes) is None
    before = form(plugin, cycle, incoming, rig.nodes)
    clone = cycle.clone()
    node = rig.nodes.find(other.node_name)
    assert node is not None
    (plugin.add_pod if description == "add" else plugin.remove_pod)(clone, incoming, other, node)
    assert form(plugin, clone, incoming, rig.nodes) == want
    assert form(plugin, cycle, incoming, rig.nodes) == before


def test_many_terms_are_expanded_once_until_a_namespace_changes() -> None:
    rig = Rig()
    expansion = NamespaceExpansion(rig.lister(Namespace))
    terms = tuple(AffinityTerm(f"k{number}", EVERYTHING, frozenset(("a",)), NOTHING) for number in range(50))
    expanded = expansion.expand(terms)
    assert expansion.expand(terms) is expanded
    rig.add(namespace("b"))
    assert expansion.expand(terms) is not expanded
