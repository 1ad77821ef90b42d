import pytest

from moorage.kube.api.affinity import Taint, Toleration
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.taint_toleration import COMPARING, UNTOLERATED, TaintToleration
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, SCORE_FORMS, FilterForm, Rig, ScoreForm, run_filter, run_score

HARD = Taint(key="gpu", value="yes", effect="NoSchedule")
EVICTING = Taint(key="gpu", value="yes", effect="NoExecute")
SOFT = Taint(key="old", value="yes", effect="PreferNoSchedule")
OTHER_SOFT = Taint(key="slow", effect="PreferNoSchedule")


def tolerating(*tolerations: Toleration | str) -> Pod:
    return make_pod(tolerates=tolerations)


CASES = {
    "a node without taints is accepted": ([], make_pod(), None),
    "NoSchedule keeps pods off": ([HARD], make_pod(), UNTOLERATED),
    "NoExecute as well": ([EVICTING], make_pod(), UNTOLERATED),
    "PreferNoSchedule does not": ([SOFT], make_pod(), None),
    "a toleration by key and value lets the pod in": ([HARD], tolerating(Toleration("gpu", "Equal", "yes")), None),
    "Equal is the default operator": ([HARD], tolerating(Toleration("gpu", "", "yes")), None),
    "another value does not": ([HARD], tolerating(Toleration("gpu", "Equal", "no")), UNTOLERATED),
    "another key does not": ([HARD], tolerating("tpu"), UNTOLERATED),
    "Exists ignores the value": ([HARD], tolerating(Toleration("gpu", "Exists")), None),
    "Exists without a key covers everything": ([HARD, EVICTING], tolerating(Toleration("", "Exists")), None),
    "Equal without a key covers every key of that value": ([HARD], tolerating(Toleration("", "Equal", "yes")), None),
    "a toleration for one effect leaves the other": (
        [HARD, EVICTING],
        tolerating(Toleration("gpu", "Exists", effect="NoSchedule")),
        UNTOLERATED,
    ),
    "comparison operators cover nothing while their gate is off": (
        [Taint(key="sla", value="5", effect="NoSchedule")],
        tolerating(Toleration("sla", "Gt", "3"), Toleration("sla", "Lt", "9")),
        UNTOLERATED,
    ),
    "an unknown operator covers nothing": ([HARD], tolerating(Toleration("gpu", "Like", "yes")), UNTOLERATED),
    "one untolerated taint is enough": ([HARD, Taint(key="x", effect="NoSchedule")], tolerating("gpu"), UNTOLERATED),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("taints", "pod", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, taints: list[Taint], pod: Pod, want: Status | None) -> None:
    assert run_filter(TaintToleration(), Rig(make_node("plain"), make_node(taints=taints)), pod, form) == [None, want]


def test_the_reason_names_no_taint() -> None:
    assert Status.unresolvable("node(s) had untolerated taint(s)") == UNTOLERATED


SCORES = {
    "without soft taints every node gets 100": ([[], [HARD], []], make_pod(), [100, 100, 100]),
    "the more soft taints, the less": ([[], [SOFT], [SOFT, OTHER_SOFT]], make_pod(), [100, 50, 0]),
    "tolerated ones do not count": ([[], [SOFT], [SOFT, OTHER_SOFT]], tolerating("old"), [100, 100, 0]),
    "a toleration for NoSchedule does not count for them": (
        [[], [SOFT]],
        tolerating(Toleration("old", "Exists", effect="NoSchedule")),
        [100, 0],
    ),
    "one for PreferNoSchedule does": (
        [[], [SOFT]],
        tolerating(Toleration("old", "Exists", effect="PreferNoSchedule")),
        [100, 100],
    ),
    "duplicates count separately": ([[SOFT], [SOFT, SOFT]], make_pod(), [50, 0]),
    "hard taints do not count": ([[HARD, EVICTING], [SOFT]], make_pod(), [100, 0]),
    "the share is cut, not rounded": ([[SOFT], [SOFT, SOFT, SOFT]], make_pod(), [67, 0]),
}


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize(("taints", "pod", "want"), SCORES.values(), ids=SCORES)
def test_score(form: ScoreForm, taints: list[list[Taint]], pod: Pod, want: list[int]) -> None:
    rig = Rig(*(make_node(f"n{i}", taints=item) for i, item in enumerate(taints)))
    assert run_score(TaintToleration(), rig, pod, form) == want


PLAIN, TAINTED = make_node(), make_node(taints=[HARD])
HINTS = {
    "a new node without taints helps": (None, PLAIN, QueueingHint.QUEUE),
    "a new node with an untolerated taint does not": (None, TAINTED, QueueingHint.SKIP),
    "a removed taint helps": (TAINTED, PLAIN, QueueingHint.QUEUE),
    "a added taint does not": (PLAIN, TAINTED, QueueingHint.SKIP),
    "a node that was fine before does not": (PLAIN, make_node(taints=[SOFT]), QueueingHint.SKIP),
    "a node that remains closed does not": (TAINTED, make_node(taints=[HARD, EVICTING]), QueueingHint.SKIP),
}


def hint(plugin: TaintToleration, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    registered = plugin.events_to_register()[0].hint
    assert registered is not None
    return registered(pod, old, new)


@pytest.mark.parametrize(("old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hint_after_a_node_change(old: Node | None, new: Node, want: QueueingHint) -> None:
    assert hint(TaintToleration(), make_pod(), old, new) is want


def test_events() -> None:
    nodes, tolerations = TaintToleration().events_to_register()
    assert nodes.event == ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
    assert tolerations.event == ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
    assert tolerations.hint is None


# O numbers are rows of the reference.
MOST, LEAST = "9223372036854775807", "-9223372036854775808"
COMPARED = {
    "O1 a smaller value is less": ("5", Toleration("sla", "Lt", "10"), True),
    "O1 it is not greater": ("5", Toleration("sla", "Gt", "10"), False),
    "O1 an equal value is not less": ("5", Toleration("sla", "Lt", "5"), False),
    "nor greater": ("5", Toleration("sla", "Gt", "5"), False),
    "numbers are compared, not texts": ("9", Toleration("sla", "Lt", "10"), True),
    "negative ones, too": ("-9", Toleration("sla", "Gt", "-10"), True),
    "O1 leading zeros are invalid": ("5", Toleration("sla", "Lt", "007"), False),
    "O1 a plus sign does not match": ("5", Toleration("sla", "Gt", "+1"), False),
    "O1 a negative zero does not match": ("-5", Toleration("sla", "Lt", "-0"), False),
    "blanks do not match": ("5", Toleration("sla", "Lt", " 9"), False),
    "a taint without a number is not covered": ("high", Toleration("sla", "Gt", "1"), False),
    "nor one without a value": ("", Toleration("sla", "Gt", "1"), False),
    "O2 the largest number counts": (MOST, Toleration("sla", "Gt", "5"), True),
    "O2 so does the smallest": (LEAST, Toleration("sla", "Lt", MOST), True),
    "O2 a number that is too large does not match": ("5", Toleration("sla", "Lt", "9223372036854775808"), False),
    "nor is one that is far too long": ("5", Toleration("sla", "Lt", "9" * 5000), False),
    "O3 an empty effect is every effect": ("5", Toleration("sla", "Lt", "10", ""), True),
    "another effect does not match": ("5", Toleration("sla", "Lt", "10", "NoExecute"), False),
    "O3 another key does not match": ("5", Toleration("slo", "Lt", "10"), False),
    "no key is every key": ("5", Toleration("", "Lt", "10"), True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("value", "toleration", "is_covered"), COMPARED.values(), ids=COMPARED)
def test_comparisons_with_their_gate_on(form: FilterForm, value: str, toleration: Toleration, is_covered: bool) -> None:
    node = make_node(taints=[Taint("sla", value, "NoSchedule")])
    rig = Rig(node, features=FeatureGates({COMPARING: True}))
    plugin, pod = TaintToleration(handle=rig), tolerating(toleration)
    assert run_filter(plugin, rig, pod, form) == [None if is_covered else UNTOLERATED]
    assert hint(plugin, pod, None, node) is (QueueingHint.QUEUE if is_covered else QueueingHint.SKIP)


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_comparisons_count_in_scores(form: ScoreForm) -> None:
    nodes = [make_node(f"n{number}", taints=[Taint("sla", str(number), "PreferNoSchedule")]) for number in (1, 9)]
    rig = Rig(*nodes, features=FeatureGates({COMPARING: True}))
    assert run_score(TaintToleration(handle=rig), rig, tolerating(Toleration("sla", "Lt", "5")), form) == [100, 0]
