"""A scheduler with groups, run step by step: every cycle is a step, and the API is a dict that responds immediately."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.common.errors import NotFound
from moorage.common.observers import Observer
from moorage.common.virtual_time import VirtualLoop
from moorage.kube.api.meta import Condition, KubeObject, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, SchedulingGroup
from moorage.kube.api.pod_groups import (
    CompositeGangPolicy,
    CompositePodGroup,
    CompositePodGroupPolicy,
    CompositePodGroupSpec,
    DisruptionMode,
    GangPolicy,
    GroupSchedulingConstraints,
    PodGroup,
    PodGroupPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from moorage.kube.api.records import EventNote
from moorage.kube.features import FeatureGates, assignments
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import make_node, make_pod

PRIORITY = 100
GATE = "GenericWorkload=true"
TOPOLOGY = f"{GATE},TopologyAwareWorkloadScheduling=true"
COMPOSITE = f"{TOPOLOGY},CompositePodGroup=true"


def a_node(name: str, cpu: int = 4, **fields: Any) -> Node:
    """Return a node with the given number of CPUs."""
    return make_node(name, allocatable={"cpu": str(cpu), "memory": "64Gi", "pods": "110"}, **fields)


def member(name: str, group: str = "g", *, cpu: str = "1", priority: int = PRIORITY, **fields: Any) -> Pod:
    """Return a pod of a group."""
    return make_pod(
        name,
        uid=f"uid-{name}",
        requests={"cpu": cpu},
        priority=priority,
        scheduling_group=SchedulingGroup(pod_group_name=group) if group else None,
        **fields,
    )


def alone(name: str, *, cpu: str = "1", priority: int = PRIORITY, **fields: Any) -> Pod:
    """Return a pod that belongs to no group."""
    return member(name, "", cpu=cpu, priority=priority, **fields)


def _disruption(complete: bool) -> DisruptionMode:
    return DisruptionMode(all={}) if complete else DisruptionMode(single={})


def _constraints(topology: str) -> GroupSchedulingConstraints | None:
    return GroupSchedulingConstraints(topology=(TopologyConstraint(key=topology),)) if topology else None


def gang(
    name: str = "g",
    minimum: int | None = 3,
    *,
    priority: int = PRIORITY,
    topology: str = "",
    parent: str | None = None,
    whole: bool = False,
    created: str = "2026-01-01T00:00:00Z",
    **fields: Any,
) -> PodGroup:
    """Return a PodGroup; without a minimum it is basic."""
    policy = PodGroupPolicy(basic={}) if minimum is None else PodGroupPolicy(gang=GangPolicy(min_count=minimum))
    return PodGroup(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=f"uid-{name}", resource_version="1", creation_timestamp=created
        ),
        spec=PodGroupSpec(
            scheduling_policy=policy,
            priority=priority,
            scheduling_constraints=_constraints(topology),
            parent_composite_pod_group_name=parent,
            disruption_mode=_disruption(whole),
            **fields,
        ),
    )


def composite(
    name: str,
    minimum: int | None = None,
    *,
    priority: int = PRIORITY,
    topology: str = "",
    parent: str | None = None,
    whole: bool = False,
    created: str = "2026-01-01T00:00:00Z",
    **fields: Any,
) -> CompositePodGroup:
    """Return a group of groups; without a minimum it is basic."""
    if minimum is None:
        policy = CompositePodGroupPolicy(basic={})
    else:
        policy = CompositePodGroupPolicy(gang=CompositeGangPolicy(min_group_count=minimum))
    return CompositePodGroup(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=f"uid-{name}", resource_version="1", creation_timestamp=created
        ),
        spec=CompositePodGroupSpec(
            scheduling_policy=policy,
            priority=priority,
            scheduling_constraints=_constraints(topology),
            parent_composite_pod_group_name=parent,
            disruption_mode=_disruption(whole),
            **fields,
        ),
    )


class GroupBench:
    """A scheduler over an API of plain objects; writes are delivered after the cycle.

    ``slow`` names the pods whose deletion takes until :meth:`gone`; ``refuse`` may raise for any write.
    """

    def __init__(
        self,
        *,
        gates: str = GATE,
        config: str = "",
        plugins: Iterable[type[Plugin]] = (),
        release: str | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.objects: dict[tuple[type[KubeObject], str], KubeObject] = {}
        self.events: list[EventNote] = []
        self.bound: dict[str, str] = {}
        self.patches: list[tuple[str, Mapping[str, Any]]] = []
        self.evicted: list[str] = []
        self.slow: set[str] = set()
        self.refuse: Callable[[str, KubeObject], None] = lambda _verb, _thing: None
        self._news: list[tuple[KubeObject | None, KubeObject | None]] = []
        self._version = 1
        self._background = TaskBackground()
        overrides, enabled = dict(assignments(gates)), tuple(plugins)
        features = FeatureGates(overrides) if release is None else FeatureGates(overrides, release=release)
        self._policy = load_policy(collect_plugins(enabled), config, features=features, enabled=enabled)
        self._clock = loop.clock
        self._observers = observers
        self.scheduler = self._new_scheduler()

    def _new_scheduler(self) -> Scheduler:
        return Scheduler(
            self._policy.config,
            self._policy.registry,
            cluster=self,
            background=self._background,
            clock=self._clock,
            features=self._policy.features,
            cross_check=True,
            observers=self._observers,
        )

    @property
    def queue(self) -> Any:
        """The queue."""
        return self.scheduler.queue

    def restart(self) -> None:
        """Start a new scheduler over the same API; the memory of the old one is lost."""
        self._background = TaskBackground()
        self._news.clear()
        self.scheduler = self._new_scheduler()
        for obj in self.objects.values():
            self.scheduler.handlers.apply(None, obj)

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, *objects: KubeObject) -> None:
        """Create objects."""
        for obj in objects:
            self._put(obj)
        self.deliver()

    def change(self, obj: KubeObject) -> None:
        """Change an object."""
        self._put(obj)
        self.deliver()

    def remove(self, *objects: KubeObject) -> None:
        """Delete objects."""
        for obj in objects:
            before = self.objects.pop((type(obj), obj.key))
            self._news.append((before, None))
        self.deliver()

    def gone(self, *names: str) -> None:
        """Complete slow deletions."""
        self.remove(*(self.pod(name) for name in names))

    def _put(self, obj: KubeObject) -> None:
        self._version += 1
        meta = replace(obj.metadata, resource_version=str(self._version))
        obj = replace(obj, metadata=meta)
        location = (type(obj), obj.key)
        self._news.append((self.objects.get(location), obj))
        self.objects[location] = obj

    def deliver(self) -> None:
        """Deliver all writes to the scheduler."""
        while self._news:
            news, self._news = self._news, []
            for before, after in news:
                self.scheduler.handlers.apply(before, after)
        if self.scheduler.queue.groups is not None:
            self.scheduler.queue.check_invariants()

    def pod(self, name: str) -> Pod:
        """Return the stored pod."""
        pod = self.objects[Pod, f"default/{name}"]
        assert isinstance(pod, Pod)
        return pod

    def group(self, name: str = "g") -> PodGroup:
        """Return the stored PodGroup."""
        pod = self.objects[PodGroup, f"default/{name}"]
        assert isinstance(pod, PodGroup)
        return pod

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def step(self) -> bool:
        """Run one cycle with its bindings; return whether an entity was tried."""
        self.queue.flush(self._clock.now())
        outcome = await self.scheduler.schedule_next()
        for _ in range(20):
            await asyncio.sleep(0)
        self.deliver()
        return outcome is not None

    async def settle(self, cycles: int = 40) -> int:
        """Run cycles until the queue is empty; return their number."""
        for count in range(cycles):
            if not await self.step():
                return count
        return cycles

    async def wait(self, seconds: float, cycles: int = 200) -> None:
        """Let time pass, and run cycles for all retried entities."""
        end = self._clock.now() + seconds
        while True:
            await self.settle(cycles)
            wakeup = self.queue.next_wakeup()
            if wakeup is None or wakeup > end:
                break
            await asyncio.sleep(max(wakeup - self._clock.now(), 0.001))
        await asyncio.sleep(max(end - self._clock.now(), 0))
        await self.settle(cycles)

    # ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def placed(self, *names: str) -> dict[str, str]:
        """Return the nodes of some pods, or of all bound pods."""
        pods = [obj for obj in self.objects.values() if isinstance(obj, Pod) and obj.node_name]
        return {pod.name: pod.node_name for pod in pods if not names or pod.name in names}

    def where(self, name: str) -> str | None:
        """Return the queue of a pod."""
        result: str | None = self.queue.where(self.pod(name))
        return result

    def condition(
        self, name: str = "g", kind: type[PodGroup] | type[CompositePodGroup] = PodGroup
    ) -> tuple[str, str, str] | None:
        """Return status, reason and message of a group's condition."""
        group = self.objects[kind, f"default/{name}"]
        assert isinstance(group, PodGroup | CompositePodGroup)
        for condition in group.status.conditions:
            if condition.type == f"{kind.__name__}InitiallyScheduled":
                return condition.status, condition.reason, condition.message
        return None

    def message(self, name: str) -> tuple[str, str] | None:
        """Return reason and message of a pod's condition."""
        condition = self.pod(name).condition("PodScheduled")
        return None if condition is None or condition.status == "True" else (condition.reason, condition.message)

    def notes(self, name: str, reason: str = "FailedScheduling") -> list[str]:
        """Return the event messages of a pod."""
        return [event.note for event in self.events if event.regarding.name == name and event.reason == reason]

    def reserved(self) -> list[str]:
        """Return the assumed pods that are not bound."""
        return sorted(pod.name for pod in self.scheduler.cache._pods.values() if self.scheduler.cache.is_assumed(pod))

    # ── the API, as the scheduler writes to it ───────────────────────────────────────────────────────────────────────

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod."""
        self.refuse("bind", pod)
        stored = self.objects.get((Pod, pod.key))
        if not isinstance(stored, Pod) or stored.uid != pod.uid:
            raise NotFound(f'pods "{pod.name}" not found')
        self.bound[pod.name] = node_name
        self._put(stored.on_node(node_name))

    async def get(self, obj: Any) -> Any:
        """Return an object as stored."""
        return self.objects[type(obj), obj.key]

    async def create(self, obj: Any) -> Any:
        """Create an object."""
        self._put(obj)
        return obj

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        """Replace an object."""
        self._put(obj)
        return obj

    async def patch(self, obj: Any, patch: Mapping[str, Any], *, subresource: str = "") -> Any:
        """Reject a patch: groups write no other object."""
        raise AssertionError(f"{obj.key} was patched with {patch} {subresource}")

    async def patch_status(self, obj: Any, patch: Mapping[str, Any]) -> Any:
        """Merge a patch into a status, conditions by type."""
        self.refuse("patch", obj)
        stored: Any = self.objects.get((type(obj), obj.key))
        if stored is None:
            raise NotFound(f"{obj.key} not found")
        self.patches.append((obj.name, patch))
        status = stored.status
        fields: dict[str, Any] = {}
        if "conditions" in patch:
            new = [msgspec.convert(condition, Condition) for condition in patch["conditions"]]
            retained = [
                existing for existing in status.conditions if existing.type not in {condition.type for condition in new}
            ]
            fields["conditions"] = (*retained, *new)
        if "nominatedNodeName" in patch:
            fields["nominated_node_name"] = patch["nominatedNodeName"]
        patched = replace(stored, status=replace(status, **fields))
        self._put(patched)
        return patched

    async def delete(self, obj: KubeObject) -> None:
        """Delete an object; slow ones are only marked."""
        self.refuse("delete", obj)
        stored = self.objects.get((type(obj), obj.key))
        if stored is None:
            raise NotFound(f"{obj.key} not found")
        self.evicted.append(obj.name)
        if obj.name in self.slow:
            self._put(replace(stored, metadata=replace(stored.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
        else:
            self._news.append((self.objects.pop((type(obj), obj.key)), None))

    def record(self, event: EventNote) -> None:
        """Store an event."""
        self.events.append(event)
