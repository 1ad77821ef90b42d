"""Counting a cluster: nodes, what is used of them, pods by phase, and how fast they find their nodes."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from moorage.cluster import ControllerAction, InformerCache
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod

WINDOW: Final = 5.0
"""Over how many seconds the rate of placements is taken."""
MAX_REASONS: Final = 8
SHOWN: Final = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some pods wait, and one of them."""

    text: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A cluster at a glance; ``used`` is a share for each resource, ``reasons`` the most common ones first."""

    nodes: int
    ready: int
    phases: dict[str, int]
    placed: int
    rate: float
    used: dict[str, float]
    reasons: tuple[Reason, ...] = ()

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return sum(self.phases.values())

    @property
    def line(self) -> str:
        """The summary as one line, for logs."""
        phases = ", ".join(f"{count} {phase.lower()}" for phase, count in self.phases.items() if count)
        used = ", ".join(f"{name} {share:.0%}" for name, share in self.used.items())
        return (
            f"nodes {self.ready}/{self.nodes} ready · pods: {phases or 'none'} · used: {used} · {self.rate:.1f} pods/s"
        )


@dataclass
class Tally:
    """Follows the placements of pods; a controller that never has anything to do."""

    name = "tally"
    kinds = (Pod,)
    pause = 0.0
    placed: int = 0
    _seen: set[str] = field(default_factory=set)
    _marks: deque[tuple[float, int]] = field(default_factory=deque)

    def affected(self, thing: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Count a pod when it is first seen with a node."""
        if isinstance(thing, Pod) and thing.node_name:
            if cache[Pod].get(thing.key) is None:
                self._seen.discard(thing.uid)
            elif thing.uid not in self._seen:
                self._seen.add(thing.uid)
                self.placed += 1
        return ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Do nothing."""
        return ()

    def summary(self, cache: InformerCache, now: float) -> Summary:
        """Count everything there is."""
        self._marks.append((now, self.placed))
        while now - self._marks[0][0] > WINDOW:
            self._marks.popleft()
        began, before = self._marks[0]
        rate = (self.placed - before) / (now - began) if now > began else 0.0
        phases = Counter(_phase(pod) for pod in cache[Pod])
        order = ("Running", "Pending", "Starting", "Stopping", "Succeeded", "Failed")
        return Summary(
            nodes=len(cache[Node]),
            ready=sum(map(_is_ready, cache[Node])),
            phases={phase: phases[phase] for phase in order if phases[phase]},
            placed=self.placed,
            rate=rate,
            used=_used(cache),
            reasons=_reasons(cache),
        )


def _is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def _phase(pod: Pod) -> str:
    if pod.is_finished:
        return pod.status.phase
    if pod.is_terminating:
        return "Stopping"
    if pod.status.phase == "Running":
        return "Running"
    return "Starting" if pod.node_name else "Pending"


def _used(cache: InformerCache) -> dict[str, float]:
    """Return the share of each resource that placed pods ask for."""
    capacity: Counter[str] = Counter()
    for node in cache[Node]:
        capacity.update({name: node.allocatable.get(name, 0) for name in SHOWN})
    taken: Counter[str] = Counter()
    for pod in cache[Pod]:
        if pod.node_name and not pod.is_finished:
            taken.update({"pods": 1, **{name: pod.requests.get(name, 0) for name in ("cpu", "memory")}})
    return {name: taken[name] / capacity[name] if capacity[name] else 0.0 for name in SHOWN}


def _reasons(cache: InformerCache) -> tuple[Reason, ...]:
    """Return why pods wait, in the scheduler's words, the most common reasons first."""
    counted: Counter[str] = Counter()
    example: dict[str, str] = {}
    for pod in cache[Pod]:
        if _phase(pod) == "Pending":
            condition = pod.condition("PodScheduled")
            text = condition.message if condition is not None and condition.message else "waits for its turn"
            counted[text] += 1
            example.setdefault(text, pod.key)
    return tuple(Reason(text, count, example[text]) for text, count in counted.most_common(MAX_REASONS))
