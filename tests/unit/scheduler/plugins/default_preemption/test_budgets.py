"""Pods protected by disruption budgets."""

from collections.abc import Sequence

import pytest

from moorage.kube.api.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelSelector, LabelSelectorRequirement
from moorage.kube.features import FeatureGates
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.testing import make_pod
from moorage.testing.rig import Rig


def budget(name: str, allowed: int, selector: LabelSelector | None, **fields: object) -> PodDisruptionBudget:
    status = PodDisruptionBudgetStatus(disruptions_allowed=allowed, **fields)  # type: ignore[arg-type]
    namespace = ObjectMeta(name=name, namespace="default")
    return PodDisruptionBudget(metadata=namespace, spec=PodDisruptionBudgetSpec(selector=selector), status=status)


def app(name: str) -> LabelSelector:
    return LabelSelector(match_labels={"app": name})


def labeled(name: str, namespace: str = "default", **labels: str) -> Pod:
    return make_pod(name, namespace=namespace, labels=labels)


RELEASE_1_37, RELEASE_1_38 = FeatureGates(release="1.37"), FeatureGates(release="1.38")
UNREADABLE = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Like", values=("db",)),))


DB = [labeled("a", app="db"), labeled("b", app="db"), labeled("c", app="db")]


PROTECTED = {
    "without budgets no pod is protected": ([], DB, []),
    "pods beyond what the budget allows are protected, the most important first": (
        [budget("x", 2, app("db"))],
        DB,
        ["c"],
    ),
    "a budget that allows nothing protects all": ([budget("x", 0, app("db"))], DB, ["a", "b", "c"]),
    "pods the budget does not select are not": ([budget("x", 0, app("web"))], DB, []),
    "pods of other namespaces are not": ([budget("x", 0, app("db"))], [labeled("a", "other", app="db")], []),
    "pods without labels are not": (
        [
            budget(
                "x",
                0,
                LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="DoesNotExist"),)),
            )
        ],
        [labeled("a"), labeled("b", tier="1")],
        ["b"],
    ),
    "an empty selector selects no pod": ([budget("x", 0, LabelSelector())], DB, []),
    "neither does none": ([budget("x", 0, None)], DB, []),
    "nor one that cannot be read": ([budget("x", 0, UNREADABLE)], DB, []),
    "terminating pods use no budget": (
        [budget("x", 1, app("db"), disrupted_pods={"a": None})],
        DB,
        ["c"],
    ),
    "one exceeded budget is enough": ([budget("x", 9, app("db")), budget("y", 2, app("db"))], DB, ["c"]),
    "a budget after an exceeded one is not used up": (
        [budget("x", 0, app("db")), budget("y", 1, LabelSelector(match_labels={"tier": "1"}))],
        [labeled("a", app="db", tier="1"), labeled("b", tier="1")],
        ["a"],
    ),
    "a budget before an exceeded one is": (
        [budget("x", 1, LabelSelector(match_labels={"tier": "1"})), budget("y", 0, app("db"))],
        [labeled("a", app="db", tier="1"), labeled("b", tier="1")],
        ["a", "b"],
    ),
}


@pytest.mark.parametrize(("budgets", "pods", "want"), PROTECTED.values(), ids=PROTECTED)
def test_protected_pods(budgets: list[PodDisruptionBudget], pods: Sequence[Pod], want: list[str]) -> None:
    protected, remaining = Budgets(Rig(*budgets).lister(PodDisruptionBudget), RELEASE_1_37).split(pods)
    assert [pod.name for pod in protected] == want
    assert [pod.name for pod in remaining] == [pod.name for pod in pods if pod.name not in want]


def test_budgets_cover_all_pods_from_1_38() -> None:
    without_app = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="DoesNotExist"),))
    pods = [labeled("a"), labeled("b", app="db")]
    for selector, want in ((LabelSelector(), ["a", "b"]), (without_app, ["a"]), (None, []), (UNREADABLE, [])):
        budgets = Budgets(Rig(budget("x", 0, selector)).lister(PodDisruptionBudget), RELEASE_1_38)
        assert [pod.name for pod in budgets.split(pods)[0]] == want, selector


def test_budgets_are_reloaded_when_they_change() -> None:
    rig = Rig(budget("x", 0, app("db")))
    budgets = Budgets(rig.lister(PodDisruptionBudget), RELEASE_1_37)
    assert len(budgets.split(DB)[0]) == 3
    rig.add(budget("x", 3, app("db")))
    assert budgets.split(DB)[0] == []
