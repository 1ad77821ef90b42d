"""Pods that start together, with the feature gates of groups enabled."""

from typing import Any

from tests.live.scenarios.scene import Data, Scene

GROUPS = "scheduling.k8s.io/v1beta1/podgroups"
TREES = "scheduling.k8s.io/v1alpha3/compositepodgroups"
CLASSES = "scheduling.k8s.io/v1/priorityclasses"
JOBS = "batch/v1/jobs"
#: The word before "placement status", and the reason of an invalid group, in releases that differ from the default.
WORDS = {"1.38": ("reported", "PodGroupError")}
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def _words(scene: Scene) -> tuple[str, str]:
    return WORDS.get(scene.release, ("first", "SchedulerError"))


async def _group(scene: Scene, name: str, least: int = 0, *, by: str = "", parent: str = "", **spec: Any) -> None:
    policy: Data = {"gang": {"minCount": least}} if least else {"basic": {}}
    spec |= _place(name, by, parent)
    await scene.create(GROUPS, name, spec={"schedulingPolicy": policy, **spec})


async def _tree(scene: Scene, name: str, least: int, *, by: str = "") -> None:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, **_place(name, by, "")}
    spec["workloadRef"] = {"workloadName": "work", "templateName": name}
    await scene.create(TREES, name, spec=spec)


def _place(name: str, by: str, parent: str) -> Data:
    spec: Data = {}
    if by:
        spec["schedulingConstraints"] = {"topology": [{"key": by}]}
    if parent:
        spec |= {"parentCompositePodGroupName": parent, "workloadRef": {"workloadName": "work", "templateName": name}}
    return spec


async def _members(scene: Scene, group: str, *names: str, cpu: str = "1", **spec: Any) -> None:
    for name in names:
        await scene.pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": group}, **spec)


async def _condition(scene: Scene, group: str, status: str, reason: str, saying: str = "") -> str:
    """Wait until a group has a message; return it."""

    async def told() -> str | None:
        conditions = (await scene.get(GROUPS, group)).get("status", {}).get("conditions", ())
        for condition in conditions:
            if (condition["type"], condition["status"], condition["reason"]) == (
                "PodGroupInitiallyScheduled",
                status,
                reason,
            ):
                return f" {condition['message']}" if saying in condition["message"] else None
        return None

    return (await scene.until(f"{group} is told {status}, {reason}, {saying!r}", told)).strip()


async def _waits(scene: Scene, *names: str) -> None:
    """Check that pods have no message and no node, although a later pod has a node."""
    await scene.pod("meanwhile")
    await scene.node_of("meanwhile")
    pods = await scene.pods()
    assert {name: pods[name].node_name for name in names} == dict.fromkeys(names, "")


async def complete_gang_starts(scene: Scene) -> None:
    await scene.node("a")
    await _group(scene, "gang", 3)
    await _members(scene, "gang", "one", "two")
    await _waits(scene, "one", "two")
    await _members(scene, "gang", "three")
    assert await scene.nodes_of("one", "two", "three") == ["a"] * 3
    assert await _condition(scene, "gang", "True", "Scheduled") == ""


async def infeasible_gang_starts_no_pods(scene: Scene) -> None:
    await scene.node("a", resources={"cpu": "2"})
    await _group(scene, "gang", 3)
    await _members(scene, "gang", "one", "two", "three")
    short = f"0/1 placements are available, {_words(scene)[0]} placement status: minCount (3) cannot be satisfied"
    text = f"pod group is unschedulable, {short}: 2 scheduled, 0 remaining, {NO_VICTIMS}"
    assert await scene.rejection("one", "2 scheduled") == f"pod group is unschedulable, {text}"
    assert await scene.rejection("three", "Insufficient") == "0/1 nodes are available: 1 Insufficient cpu."
    assert await _condition(scene, "gang", "False", "Unschedulable", "2 scheduled") == text
    await scene.node("b", resources={"cpu": "1"})
    assert sorted(await scene.nodes_of("one", "two", "three")) == ["a", "a", "b"]
    await _condition(scene, "gang", "True", "Scheduled")


async def members_wait_for_their_group(scene: Scene) -> None:
    await scene.node("a")
    await _members(scene, "gang", "one", "two")
    await _waits(scene, "one", "two")
    await _group(scene, "gang", 2)
    await scene.nodes_of("one", "two")


async def basic_group_uses_the_free_capacity(scene: Scene) -> None:
    await scene.node("a", resources={"cpu": "2"})
    await _members(scene, "some", "one", "two", "three")
    await _group(scene, "some")
    # The final message of the group is a race upstream: other pods are retried before the first response arrives.

    async def settled() -> list[str]:
        pods = await scene.pods()
        waiting = [pod for pod in pods.values() if not pod.node_name]
        is_told = len(waiting) == 1 and waiting[0].condition("PodScheduled") is not None
        return [pod.name for pod in waiting] if is_told else []

    (remaining,) = await scene.until("two of three are bound", settled)
    assert await scene.rejection(remaining, "Insufficient") == "0/1 nodes are available: 1 Insufficient cpu."


async def reduced_minimum_starts_the_gang(scene: Scene) -> None:
    await scene.node("a")
    await _group(scene, "gang", 4)
    await _members(scene, "gang", "one", "two", "three")
    await _waits(scene, "one", "two", "three")
    await scene.patch(GROUPS, "gang", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    await scene.nodes_of("one", "two", "three")


async def late_member_is_bound_alone(scene: Scene) -> None:
    await scene.node("a")
    await _group(scene, "gang", 2)
    await _members(scene, "gang", "one", "two")
    await scene.nodes_of("one", "two")
    await _members(scene, "gang", "three")
    assert await scene.node_of("three") == "a"


async def members_with_two_priorities_are_reported(scene: Scene) -> None:
    await scene.node("a")
    await scene.create(CLASSES, f"{scene.namespace}-high", value=1000)
    await _group(scene, "gang", 2)
    await _members(scene, "gang", "one")
    await _members(scene, "gang", "two", priorityClassName=f"{scene.namespace}-high")
    same = "all pods in a single pod group should have the same priority as the pod group's priority, got 1000 and 0"
    for name in ("one", "two"):
        assert await scene.rejection(name, reason="SchedulerError") == same
    assert await _condition(scene, "gang", "False", _words(scene)[1]) == same


async def gang_evicts_as_many_pods_as_it_needs(scene: Scene) -> None:
    important = f"{scene.namespace}-important"
    await scene.create(CLASSES, important, value=1000)
    await scene.node("a", resources={"cpu": "3"})
    for name in ("low-1", "low-2", "low-3"):
        await scene.pod(name, requests={"cpu": "1"})
    await scene.running("low-1", "low-2", "low-3")
    await _group(scene, "gang", 2, priorityClassName=important)
    await _members(scene, "gang", "one", "two", priorityClassName=important)
    assert await scene.nodes_of("one", "two") == ["a", "a"]
    remaining = {name for name in await scene.pods() if name.startswith("low")}
    assert len(remaining) == 1
    (deleted, *_) = {"low-1", "low-2", "low-3"} - remaining
    uid = (await scene.get(GROUPS, "gang"))["metadata"]["uid"]
    event = await scene.event("Preempted", deleted)
    assert event.note == f"Preempted by podgroup {uid} on node cluster"


async def group_with_disruption_mode_all_is_evicted_together(scene: Scene) -> None:
    important = f"{scene.namespace}-important"
    await scene.create(CLASSES, important, value=1000)
    await scene.node("a", resources={"cpu": "3"})
    await _group(scene, "victims", 3, disruptionMode={"all": {}})
    await _members(scene, "victims", "low-1", "low-2", "low-3")
    await scene.running("low-1", "low-2", "low-3")
    await _group(scene, "gang", 1, priorityClassName=important)
    await _members(scene, "gang", "one", priorityClassName=important)
    for name in ("low-1", "low-2", "low-3"):
        await scene.gone(name)
    assert await scene.node_of("one") == "a"


async def gang_stays_within_a_rack(scene: Scene) -> None:
    await scene.nodes({"a1": {"rack": "a"}, "a2": {"rack": "a"}, "b1": {"rack": "b"}, "b2": {"rack": "b"}})
    await scene.seen("a1", "a2", "b1", "b2")
    await scene.pod("outsider", requests={"cpu": "3"}, nodeSelector={"kubernetes.io/hostname": "a1"})
    await scene.node_of("outsider")
    await _group(scene, "gang", 4, by="rack")
    await _members(scene, "gang", "one", "two", "three", "four", cpu="2")
    nodes = await scene.nodes_of("one", "two", "three", "four")
    assert {node[0] for node in nodes} == {"b"}


async def no_rack_is_large_enough(scene: Scene) -> None:
    await scene.nodes({"a1": {"rack": "a"}, "b1": {"rack": "b"}})
    await scene.seen("a1", "b1")
    await _group(scene, "gang", 3, by="rack")
    await _members(scene, "gang", "one", "two", "three", cpu="2")
    message = await _condition(scene, "gang", "False", "Unschedulable", "0/2 placements are available")
    short = f"{_words(scene)[0]} placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert message == f"pod group is unschedulable, 0/2 placements are available, {short}, {NO_VICTIMS}"
    await scene.node("a2", metadata={"labels": {"rack": "a"}})
    assert {node[0] for node in await scene.nodes_of("one", "two", "three")} == {"a"}


async def tree_of_groups_starts_together(scene: Scene) -> None:
    await scene.node("a")
    await _tree(scene, "tree", 2)
    await _group(scene, "left", 2, parent="tree")
    await _group(scene, "right", 2, parent="tree")
    await _members(scene, "left", "left-1", "left-2")
    await _members(scene, "right", "right-1")
    await _waits(scene, "left-1", "left-2", "right-1")
    await _members(scene, "right", "right-2")
    await scene.nodes_of("left-1", "left-2", "right-1", "right-2")
    for group in ("left", "right"):
        await _condition(scene, group, "True", "Scheduled")


async def job_becomes_a_gang(scene: Scene) -> None:
    await scene.node("a", resources={"cpu": "2"})
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    scheduling: Data = {"schedulingPolicy": {"gang": {}}}
    spec = {"parallelism": 3, "completions": 3, "scheduling": scheduling, "template": template}
    await scene.create(JOBS, "training", spec=spec)

    async def made() -> Data | None:
        return next(iter(await scene.all(GROUPS)), None)

    group = await scene.until("the job has a group", made)
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    await _condition(scene, group["metadata"]["name"], "False", "Unschedulable", "2 scheduled, 0 remaining")
    assert not [pod.name for pod in (await scene.pods()).values() if pod.node_name]
    await scene.node("b", resources={"cpu": "1"})

    async def together() -> bool:
        pods = (await scene.pods()).values()
        return len(pods) == 3 and all(pod.node_name for pod in pods)

    await scene.until("all three workers are bound", together)
