"""Disruption budgets: the number of healthy pods, and how many of them may be disrupted."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, RequeueAfter, status_actions
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_ready, scaled, with_condition
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.meta import KubeObject, format_time, parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import label_matcher
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Deployment, ReplicaSet, ReplicationController, StatefulSet

Maker: TypeAlias = ReplicaSet | StatefulSet | ReplicationController | Deployment
_MAKERS: Final[tuple[type[Maker], ...]] = (ReplicaSet, StatefulSet, ReplicationController, Deployment)
EVICTION_SECONDS: Final = 120.0
"""A granted eviction that has not begun after this time expires."""


class DisruptionController(BaseController):
    """Updates the status of disruption budgets."""

    name = "disruption budgets"
    kinds = (PodDisruptionBudget, Pod, *_MAKERS)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, PodDisruptionBudget):
            return (obj.key,)
        budgets = cache[PodDisruptionBudget].in_namespace(obj.namespace)
        return [budget.key for budget in budgets if not isinstance(obj, Pod) or protects(budget, obj)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Count the healthy pods of a budget, and how many of them may be disrupted."""
        budget = cache[PodDisruptionBudget].get(key)
        if budget is None or budget.is_terminating:
            return
        pods = [pod for pod in cache[Pod].in_namespace(budget.namespace) if protects(budget, pod)]
        expected, now = expected_pods(budget, pods, cache), self._clock.now()
        granted = _grant(budget, pods, now)
        healthy = sum(1 for pod in pods if is_ready(pod) and not pod.is_terminating and pod.name not in granted)
        desired = scaled(budget.spec.min_available, expected, round_up=True)
        if budget.spec.max_unavailable is not None:
            desired = max(0, expected - scaled(budget.spec.max_unavailable, expected, round_up=True))
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
            yield RequeueAfter(
                min(parse_time(granted_at) for granted_at in granted.values()) + EVICTION_SECONDS - now + 1.0
            )


def protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a pod counts for a budget; one without a selector protects nothing."""
    if budget.spec.selector is None or pod.is_finished:
        return False
    return label_matcher(budget.spec.selector).matches(pod.labels)


def expected_pods(budget: PodDisruptionBudget, pods: Sequence[Pod], cache: InformerCache) -> int:
    """Return the expected number of pods: the replicas of their controllers, or the current number.

    An absolute minimum needs no controllers, so it can also protect bare pods.
    """
    if isinstance(budget.spec.min_available, int):
        return len(pods)
    makers = {maker.uid: maker for pod in pods if (maker := find_maker(pod, cache)) is not None}
    return sum(maker.spec.replicas for maker in makers.values())


def find_maker(obj: KubeObject, cache: InformerCache) -> Maker | None:
    """Return the controller that owns the number of replicas: the deployment instead of its replica set."""
    owner = obj.metadata.controller
    for kind in _MAKERS:
        maker = cache[kind].get(f"{obj.namespace}/{owner.name}") if owner is not None else None
        if maker is not None and owner is not None and maker.uid == owner.uid:
            return find_maker(maker, cache) or maker
    return None


def _grant(budget: PodDisruptionBudget, pods: list[Pod], now: float) -> dict[str, str]:
    """Return the evictions that were granted and have not begun."""
    active_names = {pod.name for pod in pods if not pod.is_terminating}
    return {
        name: granted_at
        for name, granted_at in budget.status.disrupted_pods.items()
        if name in active_names and granted_at is not None and parse_time(granted_at) + EVICTION_SECONDS > now
    }


def _conditions(budget: PodDisruptionBudget, is_allowed: bool, now: float) -> list[Data]:
    desired = {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "reason": "SufficientPods" if is_allowed else "InsufficientPods",
        "message": "",
    }
    conditions = with_condition(budget.status.conditions, format_time(now), **desired)
    for condition in conditions:
        if condition["type"] == "DisruptionAllowed":
            condition["observedGeneration"] = budget.metadata.generation
    return conditions
