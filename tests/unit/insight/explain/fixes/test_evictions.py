"""Fixes that delete or preempt pods."""

from tests.unit.insight.explain.clusters import node, pod, session

from moorage.insight.explain.pods import explain_pod


def test_pods_protected_by_a_budget_are_not_deleted() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 0},
    }
    full = pod("a", on="n1", labels={"app": "a"}, requests={"cpu": "4"})
    with session(node("n1"), full, pod("p"), budget) as opened:
        kinds = [change.kind for change in explain_pod(opened, "default/p").changes]
    assert "delete-pod" not in kinds


def test_pod_with_policy_never_gets_a_class_of_equal_priority() -> None:
    priority_class = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "held"},
        "value": 50,
    }
    objects = (node("n1"), pod("a", on="n1", requests={"cpu": "4"}), pod("p", priorityClassName="held"))
    with session({**priority_class, "preemptionPolicy": "Never"}, *objects) as opened:
        (change,) = [
            explanation for explanation in explain_pod(opened, "default/p").changes if explanation.kind == "priority"
        ]
    assert change.edits[0]["create"]["value"] == 50
    assert change.victims == ("default/a",)


def test_terminating_pods_are_not_preempted() -> None:
    leaving = pod("a", on="n1", requests={"cpu": "4"}, priority=5)
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
    with session(node("n1"), leaving, pod("p")) as opened:
        kinds = [change.kind for change in explain_pod(opened, "default/p").changes]
    assert kinds == ["delete-pod", "add-node", "node-capacity", "request"]
