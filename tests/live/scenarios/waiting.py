"""Pending pods: their reason is reported, and they are bound after the required event."""

import asyncio

from tests.live.scenarios.scene import NO_NODES, NODES, PODS, Scene

BACKOFF = 1.5
"""Longer than the schedulers' backoff: rejected pods can be retried immediately."""


async def cluster_without_nodes_is_reported(scene: Scene) -> None:
    await scene.pod("web")
    await scene.rejection("web", NO_NODES)
    await scene.node("only")
    assert await scene.node_of("web") == "only"


async def infeasible_pod_is_reported_and_bound_after_a_node_joins(scene: Scene) -> None:
    await scene.node("small", resources={"cpu": "1"})
    # An event keeps its first text, which would be that there are no nodes.
    await scene.seen("small")
    await scene.pod("big", requests={"cpu": "2"})
    message = await scene.rejection("big", "0/1 nodes")
    assert message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    event = await scene.event("FailedScheduling", "big")
    assert (event.note, event.type, event.action) == (message, "Warning", "Scheduling")
    condition = (await scene.pods())["big"].condition("PodScheduled")
    assert condition is not None
    assert condition.last_transition_time
    await scene.node("large")
    assert await scene.node_of("big") == "large"


async def uncordoned_node_gets_pods(scene: Scene) -> None:
    await scene.node("only", spec={"unschedulable": True})
    await scene.pod("web")
    await scene.rejection("web", "0/1 nodes are available: 1 node(s) were unschedulable.")
    await scene.patch(NODES, "only", {"spec": {"unschedulable": None}})
    assert await scene.node_of("web") == "only"


async def deleted_pod_frees_its_resources(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("first", requests={"cpu": "3"})
    await scene.node_of("first")
    await scene.pod("second", requests={"cpu": "3"})
    await scene.rejection("second")
    await scene.delete(PODS, "first")
    assert await scene.node_of("second") == "only"


async def finished_pod_frees_its_resources(scene: Scene) -> None:
    await scene.node("only")
    short = {"moorage.io/run-for": "500ms"}
    await scene.pod("first", requests={"cpu": "3"}, annotations=short, restartPolicy="Never")
    await scene.node_of("first")
    await scene.pod("second", requests={"cpu": "3"})
    assert await scene.node_of("second") == "only"


async def added_label_makes_a_node_feasible(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("web", nodeSelector={"disk": "ssd"})
    await scene.rejection("web")
    await scene.patch(NODES, "only", {"metadata": {"labels": {"disk": "ssd"}}})
    assert await scene.node_of("web") == "only"


async def removed_taint_makes_a_node_feasible(scene: Scene) -> None:
    await scene.node("only", spec={"taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}]})
    await scene.pod("web")
    await scene.rejection("web")
    await scene.patch(NODES, "only", {"spec": {"taints": None}})
    assert await scene.node_of("web") == "only"


async def grown_node_becomes_feasible(scene: Scene) -> None:
    await scene.node("only", resources={"cpu": "1"})
    await scene.pod("web", requests={"cpu": "2"})
    await scene.rejection("web")
    more = {"cpu": "4"}
    await scene.patch(NODES, "only", {"status": {"allocatable": more, "capacity": more}}, subresource="status")
    assert await scene.node_of("web") == "only"


async def gated_pods_wait_until_all_gates_are_removed(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("web", schedulingGates=[{"name": "example.com/quota"}, {"name": "example.com/approval"}])
    message = await scene.rejection("web", reason="SchedulingGated")
    assert message == "Scheduling is blocked due to non-empty scheduling gates"
    await scene.patch(PODS, "web", {"spec": {"schedulingGates": [{"name": "example.com/quota"}]}})
    await scene.pod("other")
    await scene.node_of("other")
    await scene.rejection("web", reason="SchedulingGated")
    await scene.patch(PODS, "web", {"spec": {"schedulingGates": None}})
    assert await scene.node_of("web") == "only"


async def node_selector_of_a_gated_pod_can_be_narrowed(scene: Scene) -> None:
    await scene.nodes({"a": {"zone": "east"}, "b": {"zone": "west"}})
    await scene.pod("web", schedulingGates=[{"name": "example.com/quota"}])
    await scene.rejection("web", reason="SchedulingGated")
    await scene.patch(PODS, "web", {"spec": {"nodeSelector": {"zone": "west"}}})
    await scene.patch(PODS, "web", {"spec": {"schedulingGates": None}})
    assert await scene.node_of("web") == "b"


async def pods_are_scheduled_by_priority(scene: Scene) -> None:
    """The last pod is scheduled first; no pod may preempt another."""
    policy = "Never"
    for name, value in (("low", 10), ("middle", 20), ("high", 30)):
        await scene.create(
            "scheduling.k8s.io/v1/priorityclasses",
            f"{scene.namespace}-{name}",
            value=value,
            preemptionPolicy=policy,
        )
    for name in ("low", "middle", "high"):
        await scene.pod(name, requests={"cpu": "3"}, priorityClassName=f"{scene.namespace}-{name}")
    for name in ("low", "middle", "high"):
        await scene.rejection(name)
    await asyncio.sleep(BACKOFF)
    await scene.node("only")
    assert await scene.node_of("high") == "only"
    await scene.rejection("middle")
    await scene.rejection("low")


async def pods_of_other_schedulers_are_ignored(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("theirs", schedulerName="nobody")
    await scene.pod("ours")
    await scene.node_of("ours")
    upstream = (await scene.pods())["theirs"]
    assert not upstream.node_name
    assert upstream.condition("PodScheduled") is None
