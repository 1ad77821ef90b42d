"""Disruption budgets: how many of the pods they protect are healthy, and how many may go now."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, RequeueAfter, status_actions
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_ready, scaled, with_condition
from moorage.common.clock import Clock
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import label_matcher
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Deployment, ReplicaSet, ReplicationController, StatefulSet

Maker: TypeAlias = ReplicaSet | StatefulSet | ReplicationController | Deployment
_MAKERS: Final[tuple[type[Maker], ...]] = (ReplicaSet, StatefulSet, ReplicationController, Deployment)
EVICTION_SECONDS: Final = 120.0
"""An eviction that was granted and not carried out by then is forgotten."""


class DisruptionController:
    """Updates the status of disruption budgets."""

    name = "disruption budgets"
    kinds = (PodDisruptionBudget, Pod, ReplicaSet, StatefulSet, ReplicationController, Deployment)
    pause = 0.1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the budgets that a changed budget, pod or workload affects."""
        if isinstance(obj, PodDisruptionBudget):
            return (obj.key,)
        budgets = cache[PodDisruptionBudget].in_namespace(obj.namespace)
        if isinstance(obj, Pod):
            return [budget.key for budget in budgets if protects(budget, obj)]
        return [budget.key for budget in budgets]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Count the healthy pods of a budget, and how many of them may be disrupted."""
        budget = cache[PodDisruptionBudget].get(key)
        if budget is None or budget.is_terminating:
            return ()
        pods = [pod for pod in cache[Pod].in_namespace(budget.namespace) if protects(budget, pod)]
        return reconcile(budget, pods, expected_pods(budget, pods, cache), self._clock.now())


def protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a pod counts for a budget; one without a selector protects nothing."""
    if budget.spec.selector is None or pod.is_finished:
        return False
    return label_matcher(budget.spec.selector).matches(pod.labels)


def expected_pods(budget: PodDisruptionBudget, pods: Iterable[Pod], cache: InformerCache) -> int:
    """Return the expected number of pods: the replicas of their controllers, or the current number.

    An absolute minimum needs no controllers, so it can also protect bare pods.
    """
    pods = list(pods)
    if isinstance(budget.spec.min_available, int):
        return len(pods)
    makers = {maker.uid: maker for pod in pods if (maker := maker_of(pod, cache)) is not None}
    return sum(maker.spec.replicas for maker in makers.values())


def maker_of(obj: KubeObject, cache: InformerCache) -> Maker | None:
    """Return the controller that owns the number of replicas: the deployment instead of its replica set."""
    owner = obj.metadata.controller
    for kind in _MAKERS:
        maker = cache[kind].get(f"{obj.namespace}/{owner.name}") if owner is not None else None
        if maker is not None and owner is not None and maker.uid == owner.uid:
            return maker_of(maker, cache) or maker
    return None


def reconcile(budget: PodDisruptionBudget, pods: list[Pod], expected: int, now: float) -> Iterator[ControllerAction]:
    """Decide what a budget's status should be."""
    granted = _granted(budget, pods, now)
    healthy = sum(1 for pod in pods if is_ready(pod) and not pod.is_terminating and pod.name not in granted)
    desired = _desired(budget, expected)
    allowed_disruptions = max(0, healthy - desired) if expected > 0 else 0
    status: Data = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed_disruptions,
        "observedGeneration": budget.metadata.generation,
        "conditions": _conditions(budget, allowed_disruptions > 0, now),
    }
    recorded = budget.status.disrupted_pods
    if granted != recorded:
        # A merge patch removes a key only if its value is null.
        status["disruptedPods"] = {**dict.fromkeys(recorded), **granted}
    yield from status_actions(budget, msgspec.to_builtins(budget.status), status, if_unchanged=True)
    if granted:
        yield RequeueAfter(min(parse_time(since) for since in granted.values()) + EVICTION_SECONDS - now + 1.0)


def _granted(budget: PodDisruptionBudget, pods: list[Pod], now: float) -> dict[str, str]:
    """Return the evictions that were granted and have not begun."""
    waiting = {pod.name for pod in pods if not pod.is_terminating}
    return {
        name: since
        for name, since in budget.status.disrupted_pods.items()
        if name in waiting and since is not None and parse_time(since) + EVICTION_SECONDS > now
    }


def _desired(budget: PodDisruptionBudget, expected: int) -> int:
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(0, expected - scaled(spec.max_unavailable, expected, round_up=True))
    return scaled(spec.min_available, expected, round_up=True)


def _conditions(budget: PodDisruptionBudget, is_allowed: bool, now: float) -> list[Data]:
    reason = "SufficientPods" if is_allowed else "InsufficientPods"
    status = "True" if is_allowed else "False"
    existing = list(budget.status.conditions)
    disruption_allowed = {"type": "DisruptionAllowed", "status": status, "reason": reason, "message": ""}
    conditions = with_condition(existing, format_time(now), **disruption_allowed)
    for condition in conditions:
        if condition["type"] == "DisruptionAllowed":
            condition["observedGeneration"] = budget.metadata.generation
    return conditions
