"""Group histories for gangs of Coscheduling, by label or by annotation, with all gates disabled."""

import pytest
from msgspec.structs import replace
from tests.property.test_group_histories import HIGH, LOW, History
from tests.support.gangs import annotated, coscheduling_bench, labeled, pod_group
from tests.support.groups import GroupBench, gang

from moorage.contrib.community.coscheduling.gangs import GANG, GROUP_LABEL
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import GangPolicy, PodGroup, PodGroupPolicy
from moorage.testing import in_virtual_time

HISTORIES = 20


class GangHistory(History):
    """A history with groups of scheduler-plugins, or annotations only."""

    def make_bench(self) -> GroupBench:
        self.by_label: dict[str, bool] = {}
        self.wanted: dict[str, PodGroup] = {}
        return coscheduling_bench(self.chance.choice(["{}", "{podGroupBackoffSeconds: 7}"]))

    def groups(self) -> list[PodGroup]:
        return list(self.wanted.values())

    def get_group(self, pod: Pod) -> str:
        return pod.metadata.labels.get(GROUP_LABEL, "") or (pod.metadata.annotations or {}).get(GANG, "")

    def new_group(self) -> None:
        self.number += 1
        name, count = f"g{self.number}", self.chance.randint(1, 5)
        minimum = self.chance.choice([count, count, max(1, count - 1), count + 1])
        group = self.wanted[name] = gang(name, minimum, priority=self.chance.choice([LOW, HIGH]))
        self.sizes[name] = self.chance.randint(1, 2)
        self.by_label[name] = self.chance.random() < 0.5
        objects: list[KubeObject] = [self._member(name, group) for _ in range(count)]
        if self.by_label[name]:
            objects.append(pod_group(name, minimum))
        self.chance.shuffle(objects)
        self.bench.add(*objects)

    def _member(self, name: str, group: PodGroup) -> Pod:
        self.number += 1
        cpu, priority = str(self.sizes[name]), group.priority
        if self.by_label[name]:
            return labeled(f"{name}-{self.number}", name, cpu=cpu, priority=priority)
        return annotated(f"{name}-{self.number}", name, str(group.min_count), cpu=cpu, priority=priority)

    def lower_minimum(self) -> None:
        group = self._some_group()
        if group is None or group.min_count is None or group.min_count < 2 or not self.by_label[group.name]:
            return
        self.disturbed.add(group.name)
        minimum = group.min_count - 1
        policy = PodGroupPolicy(gang=GangPolicy(min_count=minimum))
        self.wanted[group.name] = replace(group, spec=replace(group.spec, scheduling_policy=policy))
        self.bench.change(pod_group(group.name, minimum))

    def lose_group(self) -> None:
        group = self._some_group()
        if group is None or not self.by_label[group.name] or self.chance.random() < 0.7:
            return
        self.disturbed.add(group.name)
        del self.wanted[group.name]
        self.bench.remove(pod_group(group.name))


@pytest.mark.parametrize("number", range(HISTORIES))
def test_gangs_are_placed_completely(number: int) -> None:
    @in_virtual_time
    async def history() -> None:
        await GangHistory(number, with_faults=False).run()

    history()


@pytest.mark.parametrize("number", range(HISTORIES))
def test_gangs_survive_failing_writes_and_kills(number: int) -> None:
    @in_virtual_time
    async def history() -> None:
        await GangHistory(1_000 + number, with_faults=True).run()

    history()
