"""Disruption budgets during a plan: how many pods a step may evict.

A step ends when the replacements are ready, so a pod with a new node uses its budget only during the step. Pods that
remain pending or are not recreated use their budget until the end of the plan.
"""

from collections.abc import Iterable, Mapping, Sequence

from moorage.cluster import scaled
from moorage.common.errors import InputError, SelectorError
from moorage.insight.plan.plan_model import BudgetUse
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelMatcher, label_matcher


class DisruptionLedger:
    """The budgets of the cluster, and the disruptions that each still allows."""

    def __init__(self, session: Session, pods: Sequence[Pod]) -> None:
        self._matchers: dict[str, list[tuple[PodDisruptionBudget, LabelMatcher]]] = {}
        self.allowed: dict[str, int] = {}
        for target in session.objects.known("PodDisruptionBudget"):
            budget = session.objects.find(target)
            assert isinstance(budget, PodDisruptionBudget)
            try:
                matcher = label_matcher(budget.spec.selector)
            except SelectorError:
                continue  # as in the eviction API, an invalid selector matches no pods
            if budget.spec.selector is None:
                continue
            self._matchers.setdefault(target.namespace, []).append((budget, matcher))
            covered = [pod for pod in pods if pod.namespace == target.namespace and matcher.matches(pod.labels)]
            self.allowed[target.key] = _count_allowed(session, budget, covered)
        self._exhausted = {key for key, count in self.allowed.items() if count <= 0}

    def find_budgets(self, pod: Pod) -> list[str]:
        """Return the names of the budgets that cover a pod."""
        return [budget.key for budget, matcher in self._matchers.get(pod.namespace, ()) if matcher.matches(pod.labels)]

    def find_limits(self, pod: Pod) -> list[str]:
        """Return the names of the budgets that the eviction of a pod uses.

        The eviction API needs no disruption for a pod that has not started, and often none for a pod that is not ready.
        Such pods may become ready before their step, so they still count for a budget that allows disruptions.
        """
        return [
            budget.key
            for budget, matcher in self._matchers.get(pod.namespace, ())
            if matcher.matches(pod.labels) and not (budget.key in self._exhausted and _is_exempt(pod, budget))
        ]

    def count(self, pods: Iterable[Pod]) -> dict[str, int]:
        """Return how many disruptions the eviction of pods uses, by budget."""
        counts: dict[str, int] = {}
        for key in (key for pod in pods for key in self.find_limits(pod)):
            counts[key] = counts.get(key, 0) + 1
        return counts

    def exceeded(self, counts: Mapping[str, int]) -> list[str]:
        """Return the budgets that allow fewer disruptions."""
        return [key for key, count in counts.items() if count > self.allowed[key]]

    def uses(self, pods: Iterable[Pod]) -> tuple[BudgetUse, ...]:
        """Return the use of the budgets in a step."""
        return tuple(BudgetUse(key, self.allowed[key], count) for key, count in sorted(self.count(pods).items()))

    def change(self, pods: Iterable[Pod], sign: int) -> None:
        """Reduce the budgets of pods without a new node (``sign`` -1) until the end of the plan; 1 restores them."""
        for key, count in self.count(pods).items():
            self.allowed[key] += sign * count


def _is_exempt(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Return whether the eviction API deletes a pod although its budget allows no disruption.

    Pods in files often have no conditions. They are treated as ready.
    """
    if pod.status.phase == "Pending":
        return True
    ready = pod.condition("Ready")
    if ready is None or ready.status == "True":
        return False
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return 0 < budget.status.desired_healthy <= budget.status.current_healthy


def _count_allowed(session: Session, budget: PodDisruptionBudget, pods: Sequence[Pod]) -> int:
    """Return the allowed disruptions of the status. Without a status, compute them as the disruption controller does.

    Pods in files often have no conditions. A pod on a node without the condition Ready is treated as healthy there.
    """
    status = session.objects.content(ObjectId("PodDisruptionBudget", budget.namespace, budget.name)).get("status") or {}
    if "disruptionsAllowed" in status or "observedGeneration" in status:
        return budget.status.disruptions_allowed
    expected = len(pods)
    conditions = ((pod.condition("Ready"), pod) for pod in pods)
    healthy = sum(bool(pod.node_name) and (ready is None or ready.status == "True") for ready, pod in conditions)
    try:
        desired = scaled(budget.spec.min_available, expected, round_up=True)
        if budget.spec.max_unavailable is not None:
            desired = max(0, expected - scaled(budget.spec.max_unavailable, expected, round_up=True))
    except InputError:
        return 0
    return max(0, healthy - desired)
