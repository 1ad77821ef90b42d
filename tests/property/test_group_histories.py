"""Random group histories in virtual time: members and nodes change, writes fail, the scheduler is killed.

Invariants: a group below its minimum holds nothing, competing groups do not block each other, a group with priority
gets its resources, and a partially bound group is completed or has a reason.
"""

import random
from collections import defaultdict
from typing import Final, TypeVar

import pytest
from msgspec.structs import replace
from tests.support.groups import COMPOSITE, GATE, TOPOLOGY, GroupBench, a_node, alone, gang, member

from moorage.common.errors import ServerError
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import GangPolicy, PodGroup, PodGroupPolicy
from moorage.testing import in_virtual_time

HISTORIES: Final = 30
STEPS: Final = 30
LOW, HIGH = 10, 100


K = TypeVar("K", bound=KubeObject)


class History:
    """One history, by its number."""

    def __init__(self, number: int, *, with_faults: bool) -> None:
        self.chance = random.Random(number)
        self.with_faults = with_faults
        self.bench = self.make_bench()
        self.bench.refuse = self._refuse
        self.is_failing = False
        self.crash_after = -1
        self.number = 0
        self.sizes: dict[str, int] = {}
        self.disturbed: set[str] = set()
        """Groups with lost members or a changed minimum: they may be partially bound for a while."""

    def make_bench(self) -> GroupBench:
        return GroupBench(gates=self.chance.choice([GATE, GATE, TOPOLOGY, COMPOSITE]))

    def groups(self) -> list[PodGroup]:
        """Return the desired groups."""
        return self._all(PodGroup)

    def get_group(self, pod: Pod) -> str:
        """Return the group of a pod, if it has one."""
        group = pod.spec.scheduling_group
        return "" if group is None else group.pod_group_name or ""

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        for node in range(self.chance.randint(1, 4)):
            self.bench.add(a_node(f"n{node}", self.chance.randint(1, 6)))
        verbs = [self.new_group] * 4 + [self.new_member, self.lose_member] * 2
        verbs += [self.new_pod, self.lose_pod, self.new_node, self.lose_node, self.lower_minimum, self.lose_group]
        if self.with_faults:
            verbs += [self.fail, self.crash] * 2
        for _ in range(STEPS):
            self.chance.choice(verbs)()
            if self.chance.random() < 0.6:
                await self.bench.wait(self.chance.choice([0, 0.5, 3, 20]), cycles=30)
            self.check_now()
        self.is_failing, self.crash_after = False, -1
        await self.bench.wait(700, cycles=60)
        self.check_end()

    def new_group(self) -> None:
        self.number += 1
        name, count = f"g{self.number}", self.chance.randint(1, 5)
        minimum = self.chance.choice([None, count, count, max(1, count - 1), count + 1])
        priority = self.chance.choice([LOW, HIGH])
        self.sizes[name] = self.chance.randint(1, 2)
        group = gang(name, minimum, priority=priority, whole=self.chance.random() < 0.3)
        pods = [self._member(name, group) for _ in range(count)]
        objects: list[KubeObject] = [group, *pods]
        if self.chance.random() < 0.4:
            self.chance.shuffle(objects)
        self.bench.add(*objects)

    def _member(self, name: str, group: PodGroup) -> Pod:
        self.number += 1
        return member(f"{name}-{self.number}", name, cpu=str(self.sizes[name]), priority=group.priority)

    def new_member(self) -> None:
        if group := self._some_group():
            self.bench.add(self._member(group.name, group))

    def lose_member(self) -> None:
        if pods := [pod for pod in self._all(Pod) if self.get_group(pod)]:
            pod = self.chance.choice(pods)
            self.disturbed.add(self.get_group(pod))
            self.bench.remove(pod)

    def lose_group(self) -> None:
        if (group := self._some(PodGroup)) and self.chance.random() < 0.3:
            self.disturbed.add(group.name)
            self.bench.remove(group)

    def lower_minimum(self) -> None:
        group = self._some(PodGroup)
        if group and group.min_count is not None and group.min_count > 1:
            self.disturbed.add(group.name)
            policy = PodGroupPolicy(gang=GangPolicy(min_count=group.min_count - 1))
            self.bench.change(replace(group, spec=replace(group.spec, scheduling_policy=policy)))

    def new_pod(self) -> None:
        self.number += 1
        self.bench.add(alone(f"p{self.number}", priority=self.chance.choice([LOW, HIGH])))

    def lose_pod(self) -> None:
        if pods := [pod for pod in self._all(Pod) if not self.get_group(pod)]:
            self.bench.remove(self.chance.choice(pods))

    def new_node(self) -> None:
        self.number += 1
        self.bench.add(a_node(f"n{self.number}", self.chance.randint(1, 6)))

    def lose_node(self) -> None:
        if (node := self._some(Node)) and self.chance.random() < 0.3:
            there = [pod for pod in self._all(Pod) if pod.node_name == node.name]
            self.disturbed |= {self.get_group(pod) for pod in there}
            self.bench.remove(node, *there)

    def fail(self) -> None:
        """Let some writes fail from now on, or stop that."""
        self.is_failing = not self.is_failing

    def crash(self) -> None:
        """Kill the scheduler, possibly between the bindings of a group."""
        if self.chance.random() < 0.5:
            self.crash_after = self.chance.randint(0, 4)
        else:
            self.disturbed |= set(self.sizes)
            self.bench.restart()

    def _refuse(self, verb: str, obj: KubeObject) -> None:
        if self.crash_after >= 0 and verb == "bind":
            self.crash_after -= 1
            if self.crash_after < 0:
                self.disturbed |= set(self.sizes)
                self.bench.restart()
                raise ServerError("the scheduler is gone", status=500)
        if self.is_failing and self.chance.random() < 0.4:
            self.disturbed |= set(self.sizes)
            raise ServerError("etcd is busy", status=500)

    def _all(self, kind: type[K]) -> list[K]:
        return [obj for obj in self.bench.objects.values() if isinstance(obj, kind)]

    def _some_group(self) -> PodGroup | None:
        groups = self.groups()
        return self.chance.choice(groups) if groups else None

    def _some(self, kind: type[K]) -> K | None:
        objects = self._all(kind)
        return self.chance.choice(objects) if objects else None

    # ── invariants ───────────────────────────────────────────────────────────────────────────────────────────────────

    def check_now(self) -> None:
        """Check the invariants between two cycles."""
        self.bench.queue.check_invariants()
        waiting = {wait.pod.name for wait in self.bench.scheduler.services.waiting.all()}
        assert set(self.bench.reserved()) <= waiting, "a reserved pod is not being bound"
        bound: defaultdict[str, int] = defaultdict(int)
        for pod in self._all(Pod):
            if pod.node_name:
                bound[self.get_group(pod)] += 1
        for group in self.groups():
            if group.name not in self.disturbed and group.min_count is not None and bound[group.name]:
                expected = group.min_count - self._evicted(group.name)
                assert bound[group.name] >= expected, f"{group.name} is partially bound"

    def _evicted(self, name: str) -> int:
        return sum(evicted.startswith(f"{name}-") for evicted in self.bench.evicted)

    def check_end(self) -> None:
        """Check the invariants of an idle cluster."""
        assert self.bench.reserved() == []
        for node in self._all(Node):
            assert self._free(node, -1) >= 0, f"{node.name} is overcommitted"
        for group in self.groups():
            self.check_group(group)

    def check_group(self, group: PodGroup) -> None:
        pods = [pod for pod in self._all(Pod) if self.get_group(pod) == group.name]
        bound = sum(bool(pod.node_name) for pod in pods)
        missing = max(group.min_count or 1, 1) - bound
        if missing <= 0:
            missing = 1
        if len(pods) < (group.min_count or 1) or bound == len(pods):
            return
        size = self.sizes[group.name]
        # Pods of lower priority could be evicted.
        room = sum(self._free(node, group.priority) // size for node in self._all(Node))
        assert room < missing, (
            f"{group.name} is pending although {room} of its pods would fit, and {missing} are needed"
        )
        report = [pod for pod in pods if not pod.node_name and self.bench.message(pod.name)]
        assert report or bound >= (group.min_count or 1), f"{group.name} is pending without a reason"

    def _free(self, node: Node, priority: int) -> int:
        """Count the CPUs available to a pod that may evict pods of lower priority."""
        there = [pod for pod in self._all(Pod) if pod.node_name == node.name and pod.priority >= priority]
        return (node.allocatable["cpu"] - sum(pod.requests["cpu"] for pod in there)) // 1000


@pytest.mark.parametrize("number", range(HISTORIES))
def test_groups_are_placed_completely(number: int) -> None:
    @in_virtual_time
    async def history() -> None:
        await History(number, with_faults=False).run()

    history()


@pytest.mark.parametrize("number", range(HISTORIES))
def test_groups_survive_failing_writes_and_kills(number: int) -> None:
    @in_virtual_time
    async def history() -> None:
        await History(1_000 + number, with_faults=True).run()

    history()
