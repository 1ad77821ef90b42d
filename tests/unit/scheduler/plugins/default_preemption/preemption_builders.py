"""Pods, budgets and clusters for the tests of preemption."""

import asyncio
from collections.abc import Sequence
from typing import Any

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.plugin import FilterPlugin, PostFilterResult
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.node_ports import NodePorts
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.scheduler.plugins.taint_toleration import TaintToleration
from moorage.testing import make_pod
from moorage.testing.rig import Rig, attempt


def running(name: str, node: str, *, cpu: int = 1, priority: int = 1, minute: int | None = 0, **fields: Any) -> Pod:
    started = None if minute is None else f"2025-12-31T12:{minute:02}:00Z"
    status = fields.pop("status", PodStatus(start_time=started))
    return make_pod(name, node=node, priority=priority, requests={"cpu": cpu}, status=status, **fields)


def waiting(*, cpu: int = 4, priority: int | None = 10, nominated: str = "", **fields: Any) -> Pod:
    status = PodStatus(nominated_node_name=nominated)
    return make_pod("big", priority=priority, requests={"cpu": cpu}, status=status, uid="big", **fields)


def make_rig(*objects: KubeObject, filters: Sequence[FilterPlugin] = ()) -> Rig:
    rig = Rig(*objects)
    rig.filters = [TaintToleration(), NodePorts(), NodeResourcesFit(handle=rig), *filters]
    return rig


def preempt(rig: Rig, pod: Pod, **options: Any) -> PostFilterResult:
    rig.add(pod)
    return rescue(rig, pod, **options)


def rescue(
    rig: Rig, pod: Pod, *, args: DefaultPreemptionArgs | None = None, statuses: NodeStatuses | None = None
) -> PostFilterResult:
    cycle, filter_statuses = attempt(rig, pod)
    result = asyncio.run(DefaultPreemption(args=args, handle=rig).post_filter(cycle, pod, statuses or filter_statuses))
    for work in rig.background:
        work.close()
    return result


NEVER = "preemption: not eligible due to preemptionPolicy=Never."
