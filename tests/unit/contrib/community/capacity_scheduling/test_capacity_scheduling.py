"""CapacityScheduling: quotas, permitted victims, and messages."""

import pytest
from msgspec.structs import replace

from moorage.contrib.community.capacity_scheduling.making_room import QUOTAS, BorrowerRules
from moorage.contrib.community.capacity_scheduling.plugin import CapacityScheduling
from moorage.contrib.community.capacity_scheduling.quotas import (
    ElasticQuota,
    ElasticQuotaSpec,
    Quota,
    QuotaBook,
    Usage,
)
from moorage.contrib.community.capacity_scheduling.reporting import written
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.framework.status import Code, Status
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, nominations_of


def quota(namespace: str, least: str | None = "4", most: str | None = "6", name: str = "q") -> ElasticQuota:
    spec = ElasticQuotaSpec({"cpu": least} if least else {}, {"cpu": most} if most else {})
    return ElasticQuota(metadata=ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}-{name}"), spec=spec)


def pod(name: str, namespace: str, cpu: str = "2", *, node: str = "", priority: int = 0) -> Pod:
    return make_pod(
        name,
        namespace=namespace,
        requests={"cpu": cpu, "memory": "1Gi"},
        node=node,
        priority=priority,
        uid=f"uid-{name}",
    )


def nominated(name: str, namespace: str, cpu: str, *, priority: int = 0) -> Pod:
    there = pod(name, namespace, cpu, priority=priority)
    return replace(there, status=replace(there.status, nominated_node_name="n"))


def rig_with(*objects: object, used: dict[str, int] | None = None) -> Rig:
    """Return a cluster of 20 CPUs with the given usage per namespace."""
    rig = Rig(make_node("n", allocatable={"cpu": "20", "memory": "99Gi", "pods": "110"}), *objects)  # type: ignore[arg-type]
    for namespace, cpu in (used or {}).items():
        if cpu:
            rig.add(pod(f"{namespace}-runs", namespace, str(cpu), node="n"))
    return rig


MAX = "Pod {pod} is rejected in PreFilter because ElasticQuota q is more than Max"
MIN = "Pod {pod} is rejected in PreFilter because total ElasticQuota used is more than min"
CASES: dict[str, tuple[list[ElasticQuota], dict[str, int], str]] = {
    "within what is guaranteed": ([quota("a"), quota("b")], {"a": 2}, ""),
    "borrowing what another leaves idle": ([quota("a"), quota("b")], {"a": 4}, ""),
    "not beyond the limit": ([quota("a"), quota("b")], {"a": 5}, MAX),
    "not what another has taken": ([quota("a"), quota("b")], {"a": 4, "b": 3}, MIN),
    "a quota without a limit": ([quota("a", "4", None), quota("b")], {"a": 6}, ""),
    "but not beyond what all are guaranteed": ([quota("a", "4", None), quota("b")], {"a": 7}, MIN),
    "a quota without a guarantee borrows": ([quota("a", None, "6"), quota("b")], {"a": 2}, ""),
    "a quota without anything": ([quota("a", None, None)], {"a": 9}, ""),
    "nobody has a quota": ([], {"a": 9}, "skip"),
    "only others have one": ([quota("b")], {"a": 9, "b": 9}, "skip"),
    "of two quotas the first by name counts": (
        [quota("a", "9", "9", "z"), quota("a", "4", "4"), quota("b")],
        {"a": 4},
        MAX,
    ),
    "one that cannot be read": (
        [quota("a", "lots")],
        {},
        "ElasticQuota q cannot be read: 'lots' is not a quantity; write a number with an optional suffix, "
        "like 500m, 2, 1.5Gi or 1e3",
    ),
    "one of another namespace that cannot be read": ([quota("a"), quota("b", "lots")], {}, ""),
}


@pytest.mark.parametrize(("quotas", "used", "text"), CASES.values(), ids=CASES)
def test_permitted_placements(quotas: list[ElasticQuota], used: dict[str, int], text: str) -> None:
    rig = rig_with(*quotas, used=used)
    asking = pod("new", "a")
    status = CapacityScheduling(handle=rig).pre_filter(CycleState(), asking, rig.nodes)
    if text == "skip":
        assert status is not None
        assert status.code is Code.SKIP
    else:
        assert ("" if status is None else status.message) == text.format(pod=asking.key)


def test_nominated_pods_of_higher_priority_count() -> None:
    rig = rig_with(quota("a"), quota("b"), used={"a": 2})
    plugin = CapacityScheduling(handle=rig)
    rig.nominator = nominations_of(nominated("first", "a", "2", priority=5))
    assert plugin.pre_filter(CycleState(), pod("same", "a", "3", priority=5), rig.nodes) is not None
    assert plugin.pre_filter(CycleState(), pod("higher", "a", "3", priority=6), rig.nodes) is None
    rig.nominator = nominations_of(nominated("theirs", "b", "4"))
    assert plugin.pre_filter(CycleState(), pod("mine", "a", "3"), rig.nodes) is not None, "b is promised its guarantee"


def test_pre_filter_extensions_update_quotas() -> None:
    rig = rig_with(quota("a"), quota("b"), used={"a": 6})
    plugin, cycle, asking = CapacityScheduling(handle=rig), CycleState(), pod("new", "a")
    assert plugin.pre_filter(cycle, asking, rig.nodes) is not None
    runs, what_if = rig.cache.pod("uid-a-runs"), cycle.clone()
    assert runs is not None
    plugin.remove_pod(what_if, asking, runs, rig.nodes[0])
    assert what_if[QUOTAS].problem_with(asking) == ""
    plugin.add_pod(what_if, asking, runs, rig.nodes[0])
    assert what_if[QUOTAS].problem_with(asking) != ""
    assert cycle[QUOTAS].problem_with(asking) != "", "the original does not follow"


def test_usage_follows_pods_that_come_and_go() -> None:
    rig = rig_with(quota("a"), used={"a": 2})
    usage = Usage(rig.nodes)
    assert usage.of("a")["cpu"] == 2000
    second = pod("second", "a", "1", node="n")
    rig.add(second)
    assert (usage.of("a")["cpu"], usage.of("a")["pods"]) == (3000, 2)
    rig.cache.remove_pod(second)
    assert usage.of("a")["cpu"] == 2000
    rig.cache.remove_node("n")
    assert usage.of("a").get("cpu", 0) == 0


def at_work(**used: int) -> dict[str, Quota]:
    return {name: Quota(name, "q", {"cpu": 4000}, {"cpu": 9000}, {"cpu": 1000 * cpu}) for name, cpu in used.items()}


VICTIMS: dict[str, tuple[dict[str, Quota], Pod, Pod, bool]] = {
    "within the guarantee a borrower goes": (at_work(a=0, b=5), pod("p", "a"), pod("v", "b"), True),
    "however important it is": (at_work(a=0, b=5), pod("p", "a"), pod("v", "b", priority=99), True),
    "who does not borrow stays": (at_work(a=0, b=4), pod("p", "a", priority=99), pod("v", "b"), False),
    "who has no quota stays": (at_work(a=0), pod("p", "a", priority=99), pod("v", "c"), False),
    "within the guarantee one's own stay": (at_work(a=2), pod("p", "a", priority=99), pod("v", "a"), False),
    "who would borrow may evict its own": (at_work(a=4, b=5), pod("p", "a", priority=1), pod("v", "a"), True),
    "if they are less important": (at_work(a=4, b=5), pod("p", "a"), pod("v", "a"), False),
    "but no other borrowers": (at_work(a=4, b=5), pod("p", "a", priority=99), pod("v", "b"), False),
    "without a quota it is as ever": (at_work(b=5), pod("p", "c", priority=1), pod("v", "d"), True),
    "but not at the cost of a quota": (at_work(b=5), pod("p", "c", priority=99), pod("v", "b"), False),
}


@pytest.mark.parametrize(("quotas", "preemptor", "victim", "may"), VICTIMS.values(), ids=VICTIMS)
def test_permitted_victims(quotas: dict[str, Quota], preemptor: Pod, victim: Pod, may: bool) -> None:
    rules = BorrowerRules()
    rules.turn_to((preemptor,), quotas)
    assert rules.may_evict(preemptor, victim, victim.priority) is may


def test_a_group_borrows_by_all_of_its_pods() -> None:
    rules, pods = BorrowerRules(), [pod(f"p{number}", "a") for number in range(3)]
    rules.turn_to(pods, at_work(a=0, b=5))
    assert not rules.may_evict(pods[0], pod("v", "b"), 0), "six CPUs are more than the guarantee of four"
    rules.turn_to(pods[:2], at_work(a=0, b=5))
    assert rules.may_evict(pods[0], pod("v", "b"), 0)


def test_changes_of_quotas_are_seen() -> None:
    rig = rig_with(quota("a"))
    book, usage = QuotaBook(rig.objects[ElasticQuota]), Usage(rig.nodes)
    assert book.at_work(usage)["a"].max == {"cpu": 6000}
    rig.add(quota("a", "4", "8"))
    assert book.at_work(usage)["a"].max == {"cpu": 8000}
    rig.objects[ElasticQuota].drop(quota("a"))
    assert book.at_work(usage) == {}


def test_pods_of_quotas_that_leave_help() -> None:
    plugin = CapacityScheduling(handle=rig_with(quota("a")))
    assert plugin.after_pod_gone(pod("waits", "b"), pod("left", "a"), None) is QueueingHint.QUEUE
    assert plugin.after_pod_gone(pod("waits", "b"), pod("left", "c"), None) is QueueingHint.SKIP
    assert {registration.event.resource for registration in plugin.events_to_register()} == {
        "AssignedPod",
        "elasticquotas.v1alpha1.scheduling.x-k8s.io",
    }


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**30, "1Gi"),
        ("pods", 3, "3"),
        ("example.com/gpu", 0, "0"),
    ],
)
def test_usage_is_written_as_users_write_it(resource: str, amount: int, text: str) -> None:
    assert written(resource, amount) == text


def test_a_rejection_may_be_lifted_by_preemption() -> None:
    rig = rig_with(quota("a"), used={"a": 5})
    status = CapacityScheduling(handle=rig).pre_filter(CycleState(), pod("new", "a"), rig.nodes)
    assert isinstance(status, Status)
    assert status.code is Code.UNSCHEDULABLE
