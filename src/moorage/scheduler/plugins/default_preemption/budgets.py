"""Pods protected from eviction by disruption budgets."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moorage.common.errors import SelectorError
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelMatcher, label_matcher
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.handle import Lister


class Protection(NamedTuple):
    """A disruption budget: the covered pods, the allowed disruptions, and pods that are already being disrupted."""

    matcher: LabelMatcher
    allowed: int
    disrupted: Mapping[str, str | None]


class Budgets:
    """The disruption budgets of the cluster, reparsed after a change."""

    def __init__(self, lister: Lister[PodDisruptionBudget], features: FeatureGates) -> None:
        self._lister = lister
        # Until 1.37, upstream ignores budgets of all pods (`{}`), and all budgets of pods without labels.
        self._covers_all = features.since(1, 38)
        self._version = -1
        self._by_namespace: dict[str, list[Protection]] = {}

    @property
    def version(self) -> int:
        """The version of the budgets. It grows with every change."""
        return self._lister.version

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Split pods, sorted by importance, into pods with an eviction that violates a budget, and other pods.

        Every pod counts against its budgets, even if it is reprieved later.
        """
        if self._version != self._lister.version:
            self._version = self._lister.version
            self._by_namespace = {}
            for budget in self._lister.list():
                self._parse(budget)
        if not self._by_namespace:
            return [], list(pods)
        disruptions: dict[int, int] = {}
        protected: list[Pod] = []
        unprotected: list[Pod] = []
        for pod in pods:
            (protected if self._violates(pod, disruptions) else unprotected).append(pod)
        return protected, unprotected

    def _violates(self, pod: Pod, disruptions: dict[int, int]) -> bool:
        if not pod.labels and not self._covers_all:
            return False
        for protection in self._by_namespace.get(pod.namespace, ()):
            if pod.name in protection.disrupted or not protection.matcher.matches(pod.labels):
                continue
            count = disruptions[id(protection)] = disruptions.get(id(protection), 0) + 1
            if count > protection.allowed:
                # Later budgets are not charged: upstream stops at the first exceeded budget.
                return True
        return False

    def _parse(self, budget: PodDisruptionBudget) -> None:
        try:
            matcher = label_matcher(budget.spec.selector)
        except SelectorError:
            return  # as upstream, invalid selectors match nothing
        if not matcher.is_nothing and (self._covers_all or not matcher.is_everything):
            protection = Protection(matcher, budget.status.disruptions_allowed, budget.status.disrupted_pods)
            self._by_namespace.setdefault(budget.namespace, []).append(protection)
