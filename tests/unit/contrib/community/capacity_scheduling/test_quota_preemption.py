"""Victims of preemption with quotas."""

import pytest
from tests.unit.contrib.community.capacity_scheduling.quota_builders import pod

from moorage.contrib.community.capacity_scheduling.quota_preemption import BorrowerRules
from moorage.contrib.community.capacity_scheduling.quotas import (
    Quota,
)
from moorage.kube.api.pod import Pod


def with_usage(**used: int) -> dict[str, Quota]:
    return {name: Quota(name, "q", {"cpu": 4000}, {"cpu": 9000}, {"cpu": 1000 * cpu}) for name, cpu in used.items()}


VICTIMS: dict[str, tuple[dict[str, Quota], Pod, Pod, bool]] = {
    "within the guarantee a borrower goes": (with_usage(a=0, b=5), pod("p", "a"), pod("v", "b"), True),
    "however important it is": (with_usage(a=0, b=5), pod("p", "a"), pod("v", "b", priority=99), True),
    "who does not borrow stays": (with_usage(a=0, b=4), pod("p", "a", priority=99), pod("v", "b"), False),
    "a pod without a quota stays": (with_usage(a=0), pod("p", "a", priority=99), pod("v", "c"), False),
    "within the guarantee one's own stay": (with_usage(a=2), pod("p", "a", priority=99), pod("v", "a"), False),
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
