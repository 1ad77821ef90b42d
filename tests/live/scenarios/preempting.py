"""Important pods preempt others: as few and as unimportant ones as possible."""

from moorage.cluster.controllers.kubelet import STOP_DELAY
from moorage.kube.api.pod import Pod
from tests.live.scenarios.scene import Scene

CLASSES = "scheduling.k8s.io/v1/priorityclasses"
LINGERS = {STOP_DELAY: "2s"}
"""Annotations of pods that are observed while they terminate."""


async def victim_is_evicted_for_the_preemptor(scene: Scene) -> None:
    """A terminating victim has the reason in its status, and the node is nominated for the preemptor."""
    await _classes(scene, high=1000)
    await scene.node("only")
    await scene.pod("low", requests={"cpu": "3"}, annotations=LINGERS)
    await scene.running("low")
    await scene.pod("important", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high")
    victim = await scene.until("the victim is told", lambda: _told_to_stop(scene, "low"))
    condition = victim.condition("DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    await scene.until("the node is promised", lambda: _is_nominated(scene, "important", "only"))
    assert await scene.node_of("important") == "only"
    await scene.gone("low")
    assert not (await scene.pods())["important"].status.nominated_node_name


async def victim_has_an_event(scene: Scene) -> None:
    await _classes(scene, high=1000)
    await scene.node("only")
    await scene.pod("low", requests={"cpu": "3"})
    await scene.running("low")
    await scene.pod("important", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high")
    event = await scene.event("Preempted", "low")
    uid = (await scene.pods())["important"].uid
    assert event.note == f"Preempted by pod {uid} on node only"
    assert (event.type, event.action) == ("Normal", "Preempting")
    await scene.event("FailedScheduling", "important")
    assert await scene.node_of("important") == "only"


async def fewest_possible_pods_are_evicted(scene: Scene) -> None:
    await _classes(scene, low=10, middle=20, high=1000)
    await scene.node("only")
    await scene.pod("big", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-low")
    await scene.pod("small", requests={"cpu": "1"}, priorityClassName=f"{scene.namespace}-middle")
    await scene.running("big", "small")
    await scene.pod("important", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high")
    assert await scene.node_of("important") == "only"
    assert set(await scene.pods()) == {"small", "important"}


async def victims_with_the_lowest_priority_are_chosen(scene: Scene) -> None:
    await _classes(scene, low=10, middle=20, high=1000)
    await scene.nodes({"a": {"n": "a"}, "b": {"n": "b"}})
    for node, priority in (("a", "middle"), ("b", "low")):
        await scene.pod(
            f"on-{node}",
            requests={"cpu": "3"},
            nodeSelector={"n": node},
            priorityClassName=f"{scene.namespace}-{priority}",
        )
    await scene.running("on-a", "on-b")
    await scene.pod("important", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high")
    assert await scene.node_of("important") == "b"
    assert set(await scene.pods()) == {"on-a", "important"}


async def disruption_budget_is_respected(scene: Scene) -> None:
    """The pod with the higher priority is evicted, because the other one is protected."""
    await _classes(scene, low=10, middle=20, high=1000)
    await scene.nodes({"a": {"n": "a"}, "b": {"n": "b"}})
    selector = {"matchLabels": {"app": "protected"}}
    budgets = "policy/v1/poddisruptionbudgets"
    await scene.create(budgets, "keep", spec={"minAvailable": 1, "selector": selector})
    for node, priority in (("a", "low"), ("b", "middle")):
        await scene.pod(
            f"on-{node}",
            labels={"app": "protected"} if node == "a" else {},
            requests={"cpu": "3"},
            nodeSelector={"n": node},
            priorityClassName=f"{scene.namespace}-{priority}",
        )
    await scene.running("on-a", "on-b")

    async def counted() -> bool:
        status = (await scene.get(budgets, "keep"))["status"]
        return bool(status.get("currentHealthy") == 1 and status["disruptionsAllowed"] == 0)

    await scene.until("the budget is counted", counted)
    await scene.pod("important", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high")
    assert await scene.node_of("important") == "b"
    assert set(await scene.pods()) == {"on-a", "important"}


async def budget_is_violated_if_necessary(scene: Scene) -> None:
    await _classes(scene, high=1000)
    await scene.node("only")
    selector = {"matchLabels": {"app": "protected"}}
    await scene.create("policy/v1/poddisruptionbudgets", "keep", spec={"minAvailable": 1, "selector": selector})
    await scene.pod("low", labels={"app": "protected"}, requests={"cpu": "3"})
    await scene.running("low")
    await scene.pod("important", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high")
    assert await scene.node_of("important") == "only"
    await scene.gone("low")


async def pods_that_never_preempt_wait(scene: Scene) -> None:
    name = f"{scene.namespace}-patient"
    await scene.create(CLASSES, name, value=1000, preemptionPolicy="Never")
    await scene.node("only")
    await scene.pod("low", requests={"cpu": "3"})
    await scene.running("low")
    await scene.pod("patient", requests={"cpu": "2"}, priorityClassName=name)
    message = await scene.rejection("patient")
    assert (
        message
        == "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )
    assert (await scene.pods())["low"].node_name == "only"
    await scene.delete("v1/pods", "low")
    assert await scene.node_of("patient") == "only"


async def no_pod_is_evicted_unnecessarily(scene: Scene) -> None:
    await _classes(scene, high=1000)
    await scene.node("only")
    await scene.pod("low", requests={"cpu": "3"})
    await scene.running("low")
    picky = {"disk": "ssd"}
    await scene.pod("picky", requests={"cpu": "2"}, priorityClassName=f"{scene.namespace}-high", nodeSelector=picky)
    vain = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    await scene.rejection("picky", vain)
    low = (await scene.pods())["low"]
    assert not low.is_terminating


async def _classes(scene: Scene, **values: int) -> None:
    for name, value in values.items():
        await scene.create(CLASSES, f"{scene.namespace}-{name}", value=value)


async def _told_to_stop(scene: Scene, name: str) -> Pod | None:
    pod = (await scene.pods())[name]
    return pod if pod.is_terminating else None


async def _is_nominated(scene: Scene, name: str, node: str) -> bool:
    return (await scene.pods())[name].status.nominated_node_name == node
