"""Pods that are eligible to preempt."""

import pytest
from tests.unit.scheduler.plugins.default_preemption.preemption_builders import (
    NEVER,
    make_rig,
    preempt,
    running,
    waiting,
)

from moorage.kube.api.affinity import Taint
from moorage.kube.api.meta import Condition
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.framework.plugin import PostFilterResult
from moorage.scheduler.framework.status import Status
from moorage.testing import make_node

LEAVING = PodStatus(conditions=(Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler"),))


OTHER_REASON = PodStatus(
    conditions=(Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI"),)
)


UNTRUE = PodStatus(conditions=(Condition(type="DisruptionTarget", status="False", reason="PreemptionByScheduler"),))


WAITS = "preemption: not eligible due to a terminating pod on the nominated node."


ELIGIBILITY = {
    "a pod with the policy Never preempts no pod": (waiting(preemption_policy="Never"), {}, NEVER),
    "PreemptLowerPriority is the usual policy": (waiting(preemption_policy="PreemptLowerPriority"), {}, ""),
    "a pod waits for the victims on its nominated node": (
        waiting(nominated="n"),
        {"terminating": True, "status": LEAVING},
        WAITS,
    ),
    "it does not wait for pods that leave for another reason": (
        waiting(nominated="n"),
        {"terminating": True, "status": OTHER_REASON},
        "",
    ),
    "it does not wait if the condition does not hold": (
        waiting(nominated="n"),
        {"terminating": True, "status": UNTRUE},
        "",
    ),
    "it does not wait for victims that were not evicted": (waiting(nominated="n"), {"status": LEAVING}, ""),
    "it does not wait on a node that is deleted": (
        waiting(nominated="gone"),
        {"terminating": True, "status": LEAVING},
        "",
    ),
    "it does not wait for pods as important as itself": (
        waiting(nominated="n", priority=10),
        {"terminating": True, "status": LEAVING, "priority": 10},
        "",
    ),
}


@pytest.mark.parametrize(("pod", "other", "problem"), ELIGIBILITY.values(), ids=ELIGIBILITY)
def test_eligibility(pod: Pod, other: dict[str, object], problem: str) -> None:
    rig = make_rig(
        make_node("n"), make_node("m"), running("x", "n", **other), running("y", "m", cpu=4), running("z", "n", cpu=3)
    )
    result = preempt(rig, pod)
    if problem:
        assert result == PostFilterResult(Status.unschedulable(problem), nominated_node=None)
    else:
        assert result.status is None


def test_pod_preempts_on_another_node_if_the_nominated_node_is_unresolvable() -> None:
    tainted = make_node("n", taints=[Taint(key="k", effect="NoSchedule")])
    rig = make_rig(
        tainted, make_node("m"), running("x", "n", terminating=True, status=LEAVING), running("y", "m", cpu=4)
    )
    assert preempt(rig, waiting(nominated="n")).nominated_node == "m"
