"""PreemptionToleration: protected pods, possible preemptors, and toleration times."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.groups import a_node, alone

from moorage.contrib.community.preemption_toleration import MIN_PRIORITY, SECONDS, Tolerations
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.meta import Condition, ObjectMeta, format_time
from moorage.kube.api.pod import Pod
from moorage.testing import Cluster, in_virtual_time, make_pod
from moorage.testing.rig import Rig

AGO = 100.0


def victim(rig: Rig, priority: int = 10, *, is_bound: bool = True) -> Pod:
    pod = make_pod("victim", node="n", priority=priority, priority_class_name="batch")
    scheduled = Condition("PodScheduled", "True", last_transition_time=format_time(rig.clock.wall() - AGO))
    return replace(pod, status=replace(pod.status, conditions=(scheduled,))) if is_bound else pod


CASES: dict[str, tuple[dict[str, str], int, bool]] = {
    "a class without annotations protects no pod": ({}, 11, True),
    "the less important never preempts": ({}, 10, False),
    "within the time": ({MIN_PRIORITY: "100", SECONDS: "3600"}, 99, False),
    "a preemptor of sufficient priority does not wait": ({MIN_PRIORITY: "100", SECONDS: "3600"}, 100, True),
    "the time is over": ({MIN_PRIORITY: "100", SECONDS: "99"}, 99, True),
    "the time is just not over": ({MIN_PRIORITY: "100", SECONDS: "100"}, 99, False),
    "for ever": ({MIN_PRIORITY: "100", SECONDS: "-1"}, 99, False),
    "but not from preemptors of sufficient priority": ({MIN_PRIORITY: "100", SECONDS: "-1"}, 100, True),
    "without a time there is no protection": ({MIN_PRIORITY: "100"}, 99, True),
    "and neither is it with a zero": ({MIN_PRIORITY: "100", SECONDS: "0"}, 99, True),
    "without a minimum any preemptor above the class may": ({SECONDS: "-1"}, 11, True),
    "an invalid priority protects no pod": ({MIN_PRIORITY: "lots", SECONDS: "-1"}, 99, True),
    "an invalid duration protects no pod": ({MIN_PRIORITY: "100", SECONDS: "1h"}, 99, True),
    "an endless number is invalid": ({MIN_PRIORITY: "9" * 5000, SECONDS: "-1"}, 99, True),
}


@pytest.mark.parametrize(("annotations", "priority", "may"), CASES.values(), ids=CASES)
def test_permitted_victims(annotations: dict[str, str], priority: int, may: bool) -> None:
    rig = Rig(PriorityClass(metadata=ObjectMeta(name="batch", annotations=annotations), value=10))
    there = victim(rig)
    assert Tolerations(rig).may_evict(make_pod("preemptor", priority=priority), there, there.priority) is may


def test_a_pod_that_is_not_bound_yet_has_all_of_its_time() -> None:
    annotations = {MIN_PRIORITY: "100", SECONDS: "1"}
    rig = Rig(PriorityClass(metadata=ObjectMeta(name="batch", annotations=annotations), value=10))
    there = victim(rig, is_bound=False)
    assert not Tolerations(rig).may_evict(make_pod("preemptor", priority=50), there, there.priority)


def test_missing_priority_class_protects_no_pod() -> None:
    rig = Rig(a_node("n"))
    assert Tolerations(rig).may_evict(alone("preemptor", priority=50), victim(rig), 10)


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    postFilter: {enabled: [{name: PreemptionToleration}], disabled: [{name: DefaultPreemption}]}
"""


def priority_class(name: str, value: int, **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "annotations": annotations}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def pod(name: str, priority_class: str) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    spec = {"priorityClassName": priority_class, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@in_virtual_time
async def test_a_preemptor_waits_out_the_toleration() -> None:
    async with Cluster(nodes=1, shape="cpu=1", config=CONFIG) as cluster:
        await cluster.apply(priority_class("batch", 10, **{MIN_PRIORITY: "100", SECONDS: "120"}))
        await cluster.apply(priority_class("normal", 50))
        await cluster.apply(priority_class("urgent", 100))
        await cluster.apply(pod("first", "batch"))
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        await cluster.apply(pod("patient", "normal"))
        await cluster.sleep(100)
        assert [running_pod.name for running_pod in cluster.running()] == ["first"]
        await cluster.sleep(40)
        assert [running_pod.name for running_pod in cluster.running()] == ["patient"], "the toleration has ended"

        await cluster.apply(pod("important", "urgent"))
        await cluster.sleep(10)
        assert [running_pod.name for running_pod in cluster.running()] == ["important"]
