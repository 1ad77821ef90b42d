"""Statistics of a cluster: nodes, utilization, pods by phase, and the scheduling rate."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from moorage.cluster import ControllerAction, InformerCache
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod

WINDOW: Final = 5.0
"""Window of the scheduling rate, in seconds."""
MAX_REASONS: Final = 8
RESOURCES: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why pods are pending, and one of these pods."""

    text: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Summary:
    """State of a cluster. ``used`` is a fraction per resource, ``reasons`` are sorted by frequency."""

    nodes: int
    ready: int
    phases: dict[str, int]
    placed: int
    rate: float
    used: dict[str, float]
    reasons: tuple[Reason, ...] = ()

    @property
    def line(self) -> str:
        """The state and the current rate as one line."""
        return f"{self.state} · {self.rate:.1f} pods scheduled/s"

    @property
    def state(self) -> str:
        """Nodes, pods and requested resources as one line."""
        phases = ", ".join(f"{count} {phase.lower()}" for phase, count in self.phases.items() if count)
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.used.items())
        nodes = f"nodes {self.ready}/{self.nodes} ready"
        return f"{nodes} · pods: {phases or 'none'} · requested: {shares}"


@dataclass
class Tally:
    """Counts scheduled pods; a controller that never acts."""

    name = "tally"
    kinds = (Pod,)
    pause = 0.0
    placed: int = 0
    _counted: set[str] = field(default_factory=set)
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Count a pod at its first event with a node."""
        if isinstance(obj, Pod) and obj.node_name:
            if cache[Pod].get(obj.key) is None:
                self._counted.discard(obj.uid)
            elif obj.uid not in self._counted:
                self._counted.add(obj.uid)
                self.placed += 1
        return ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Do nothing."""
        return ()

    def summary(self, cache: InformerCache, now: float) -> Summary:
        """Summarize the cluster."""
        self._marks.append((now, self.placed))
        while now - self._marks[0][0] > WINDOW:
            self._marks.popleft()
        start, placed_before = self._marks[0]
        rate = (self.placed - placed_before) / (now - start) if now > start else 0.0
        phases = Counter(_phase(pod) for pod in cache[Pod])
        order = ("Running", "Pending", "Starting", "Stopping", "Succeeded", "Failed")
        return Summary(
            nodes=len(cache[Node]),
            ready=sum(
                any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
                for node in cache[Node]
            ),
            phases={phase: phases[phase] for phase in order if phases[phase]},
            placed=self.placed,
            rate=rate,
            used=_sum_usage(cache),
            reasons=_reasons(cache),
        )


def _phase(pod: Pod) -> str:
    if pod.is_finished:
        return pod.status.phase
    if pod.is_terminating:
        return "Stopping"
    if pod.status.phase == "Running":
        return "Running"
    return "Starting" if pod.node_name else "Pending"


def _sum_usage(cache: InformerCache) -> dict[str, float]:
    """Return the requested fraction of each resource."""
    capacity: Counter[str] = Counter()
    for node in cache[Node]:
        capacity.update({name: node.allocatable.get(name, 0) for name in RESOURCES})
    requested: Counter[str] = Counter()
    for pod in cache[Pod]:
        if pod.node_name and not pod.is_finished:
            requested.update({"pods": 1, **{name: pod.requests.get(name, 0) for name in ("cpu", "memory")}})
    return {name: requested[name] / capacity[name] if capacity[name] else 0.0 for name in RESOURCES}


def _reasons(cache: InformerCache) -> tuple[Reason, ...]:
    """Return the scheduler's messages about pending pods, the most frequent first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for pod in cache[Pod]:
        if _phase(pod) == "Pending":
            condition = pod.condition("PodScheduled")
            text = condition.message if condition is not None and condition.message else "no scheduling result yet"
            counts[text] += 1
            examples.setdefault(text, pod.key)
    return tuple(Reason(text, count, examples[text]) for text, count in counts.most_common(MAX_REASONS))
