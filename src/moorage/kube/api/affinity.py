"""Placement rules of a pod: node and pod affinity, spread constraints, tolerations."""

import re
from typing import Final

import msgspec
import structlog

from moorage.kube.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm
from moorage.kube.api.struct import Int32, Int64, KubeStruct

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
COMPARISONS: Final = ("Lt", "Gt")
MAX_DIGITS: Final = 20
_WHOLE: Final = re.compile("0|-?[1-9][0-9]*").fullmatch

log = structlog.get_logger(__name__)


class Taint(KubeStruct, frozen=True):
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""

    @property
    def text(self) -> str:
        """The taint as kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    @property
    def repels_pods(self) -> bool:
        """Whether the taint forbids scheduling rather than discouraging it."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)


class Toleration(KubeStruct, frozen=True):
    """A pod's statement that it tolerates some taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, taint: Taint, *, by_number: bool = False) -> bool:
        """Return whether this toleration covers the taint. An empty key or effect covers every one.

        ``by_number`` (the gate TaintTolerationComparisonOperators) lets Lt and Gt compare. They cover nothing without.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if by_number and self.operator in COMPARISONS:
            limit, taint_value = whole_number(self.value), whole_number(taint.value)
            if limit is None or taint_value is None:
                source, text = ("toleration", self.value) if limit is None else ("taint", taint.value)
                log.error(f"failed to parse {source} value as int64", key=self.key, value=text)
                return False
            return taint_value < limit if self.operator == "Lt" else taint_value > limit
        return self.operator == "Exists"


def whole_number(text: str) -> int | None:
    """Parse a 64-bit integer in its canonical form: no plus sign and no leading zeros.

    >>> whole_number("-5"), whole_number("007"), whole_number("9223372036854775808")
    (-5, None, None)
    """
    if len(text) > MAX_DIGITS or _WHOLE(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


class PreferredSchedulingTerm(KubeStruct, frozen=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(KubeStruct, frozen=True):
    """Required and preferred nodes of a pod. An absent list and an empty one differ."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(KubeStruct, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(KubeStruct, frozen=True):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(KubeStruct, frozen=True):
    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAntiAffinity(PodAffinity, frozen=True):
    """Required and preferred terms of pod anti-affinity."""


class Affinity(KubeStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(KubeStruct, frozen=True):
    """A limit on the difference between the numbers of pods in the domains of a topology key."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()
