"""CapacityScheduling: permitted placements, hints and reported usage."""

import pytest
from msgspec.structs import replace
from tests.unit.contrib.community.capacity_scheduling.quota_builders import pod, quota, rig_with

from moorage.contrib.community.capacity_scheduling.plugin import (
    QUOTAS,
    BorrowerRules,
    CapacityScheduling,
    ElasticQuota,
    Quota,
    QuotaBook,
    Usage,
    format_amount,
)
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.framework.status import Code, Status
from moorage.testing.rig import make_nominator


def nominated(name: str, namespace: str, cpu: str, *, priority: int = 0) -> Pod:
    there = pod(name, namespace, cpu, priority=priority)
    return replace(there, status=replace(there.status, nominated_node_name="n"))


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
    "no quota exists": ([], {"a": 9}, "skip"),
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
    rig.nominator = make_nominator(nominated("first", "a", "2", priority=5))
    assert plugin.pre_filter(CycleState(), pod("same", "a", "3", priority=5), rig.nodes) is not None
    assert plugin.pre_filter(CycleState(), pod("higher", "a", "3", priority=6), rig.nodes) is None
    rig.nominator = make_nominator(nominated("theirs", "b", "4"))
    assert plugin.pre_filter(CycleState(), pod("mine", "a", "3"), rig.nodes) is not None, "b is promised its guarantee"


def test_pre_filter_extensions_update_quotas() -> None:
    rig = rig_with(quota("a"), quota("b"), used={"a": 6})
    plugin, cycle, asking = CapacityScheduling(handle=rig), CycleState(), pod("new", "a")
    assert plugin.pre_filter(cycle, asking, rig.nodes) is not None
    runs, what_if = rig.cache.pod("uid-a-runs"), cycle.clone()
    assert runs is not None
    plugin.remove_pod(what_if, asking, runs, rig.nodes[0])
    assert what_if[QUOTAS].find_problem(asking) == ""
    plugin.add_pod(what_if, asking, runs, rig.nodes[0])
    assert what_if[QUOTAS].find_problem(asking) != ""
    assert cycle[QUOTAS].find_problem(asking) != "", "the original does not follow"


def test_pods_of_quotas_that_leave_help() -> None:
    plugin = CapacityScheduling(handle=rig_with(quota("a")))
    assert plugin.after_pod_deletion(pod("waits", "b"), pod("left", "a"), None) is QueueingHint.QUEUE
    assert plugin.after_pod_deletion(pod("waits", "b"), pod("left", "c"), None) is QueueingHint.SKIP
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
    assert format_amount(resource, amount) == text


def test_a_rejection_may_be_lifted_by_preemption() -> None:
    rig = rig_with(quota("a"), used={"a": 5})
    status = CapacityScheduling(handle=rig).pre_filter(CycleState(), pod("new", "a"), rig.nodes)
    assert isinstance(status, Status)
    assert status.code is Code.UNSCHEDULABLE


def with_usage(**used: int) -> dict[str, Quota]:
    return {name: Quota(name, "q", {"cpu": 4000}, {"cpu": 9000}, {"cpu": 1000 * cpu}) for name, cpu in used.items()}


VICTIMS: dict[str, tuple[dict[str, Quota], Pod, Pod, bool]] = {
    "within the guarantee a borrower is evicted": (with_usage(a=0, b=5), pod("p", "a"), pod("v", "b"), True),
    "however important it is": (with_usage(a=0, b=5), pod("p", "a"), pod("v", "b", priority=99), True),
    "a pod that does not borrow is kept": (with_usage(a=0, b=4), pod("p", "a", priority=99), pod("v", "b"), False),
    "a pod without a quota remains": (with_usage(a=0), pod("p", "a", priority=99), pod("v", "c"), False),
    "within the guarantee, pods of the same quota are kept": (
        with_usage(a=2),
        pod("p", "a", priority=99),
        pod("v", "a"),
        False,
    ),
    "who would borrow may evict its own": (with_usage(a=4, b=5), pod("p", "a", priority=1), pod("v", "a"), True),
    "if they are less important": (with_usage(a=4, b=5), pod("p", "a"), pod("v", "a"), False),
    "but no other borrowers": (with_usage(a=4, b=5), pod("p", "a", priority=99), pod("v", "b"), False),
    "without a quota it is as ever": (with_usage(b=5), pod("p", "c", priority=1), pod("v", "d"), True),
    "but not at the cost of a quota": (with_usage(b=5), pod("p", "c", priority=99), pod("v", "b"), False),
}


@pytest.mark.parametrize(("quotas", "preemptor", "victim", "may"), VICTIMS.values(), ids=VICTIMS)
def test_permitted_victims(quotas: dict[str, Quota], preemptor: Pod, victim: Pod, may: bool) -> None:
    rules = BorrowerRules()
    rules.read((preemptor,), quotas)
    assert rules.may_evict(preemptor, victim, victim.priority) is may


def test_a_group_borrows_by_all_of_its_pods() -> None:
    rules, pods = BorrowerRules(), [pod(f"p{number}", "a") for number in range(3)]
    rules.read(pods, with_usage(a=0, b=5))
    assert not rules.may_evict(pods[0], pod("v", "b"), 0), "six CPUs are more than the guarantee of four"
    rules.read(pods[:2], with_usage(a=0, b=5))
    assert rules.may_evict(pods[0], pod("v", "b"), 0)


def test_usage_follows_added_and_removed_pods() -> None:
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


def test_changes_of_quotas_are_seen() -> None:
    rig = rig_with(quota("a"))
    book, usage = QuotaBook(rig.objects[ElasticQuota]), Usage(rig.nodes)
    assert book.with_usage(usage)["a"].max == {"cpu": 6000}
    rig.add(quota("a", "4", "8"))
    assert book.with_usage(usage)["a"].max == {"cpu": 8000}
    rig.objects[ElasticQuota].drop(quota("a"))
    assert book.with_usage(usage) == {}
