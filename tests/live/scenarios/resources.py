"""Pods with all forms of resource requests are scheduled only on nodes with enough free resources."""

from tests.live.scenarios.scene import Data, Scene


async def plain_pod_is_bound_and_runs(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("web")
    assert await scene.node_of("web") == "only"
    await scene.running("web")


async def bound_pod_has_an_event(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("web")
    event = await scene.event("Scheduled", "web")
    assert event.note == f"Successfully assigned {scene.namespace}/web to only"
    assert (event.type, event.action) == ("Normal", "Binding")
    assert event.reporting_controller == "default-scheduler"
    assert event.reporting_instance.startswith("default-scheduler-")
    assert event.regarding.kind == "Pod"


async def all_resources_are_counted(scene: Scene) -> None:
    """Each resource is scarce on all nodes but one."""
    plenty = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "50Gi", "example.com/gpu": "2", "hugepages-2Mi": "64Mi"}
    scarce = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "0", "hugepages-2Mi": "0"}
    spec = {"cpu": "3", "memory": "6Gi", "ephemeral-storage": "20Gi", "example.com/gpu": "1", "hugepages-2Mi": "32Mi"}
    for number, resource in enumerate(spec):
        await scene.node(f"node-{number}", resources=scarce | {resource: plenty[resource]})
    for number, (resource, amount) in enumerate(spec.items()):
        # Extended resources and huge pages cannot be overcommitted, and huge pages also need CPU or memory.
        limits = {"limits": {resource: amount}, "requests": {"cpu": "100m", resource: amount}}
        await scene.pod(f"pod-{number}", container={"resources": limits})
    for number in range(len(spec)):
        assert await scene.node_of(f"pod-{number}") == f"node-{number}"


async def insufficient_resources_are_named(scene: Scene) -> None:
    await scene.node("only", resources={"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"})
    limits = {"example.com/gpu": "2"}
    await scene.pod("big", container={"resources": {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": limits}})
    short = ", ".join(f"1 Insufficient {resource}" for resource in ("cpu", "example.com/gpu", "memory"))
    await scene.rejection("big", f"0/1 nodes are available: {short}.")


async def pod_limit_of_a_node_applies(scene: Scene) -> None:
    await scene.node("only", resources={"pods": "2"})
    await scene.pod("first")
    await scene.pod("second")
    await scene.nodes_of("first", "second")
    await scene.pod("third")
    await scene.rejection("third", "0/1 nodes are available: 1 Too many pods.")


async def pod_level_resources_count(scene: Scene) -> None:
    await scene.node("only")
    complete = {"requests": {"cpu": "3"}}
    await scene.pod("first", requests={"cpu": "100m"}, resources=complete)
    assert await scene.node_of("first") == "only"
    await scene.pod("second", requests={"cpu": "100m"}, resources=complete)
    await scene.rejection("second", "1 Insufficient cpu")


async def largest_init_container_counts(scene: Scene) -> None:
    await scene.node("only")
    await scene.pod("heavy", initContainers=[_container("prepare", cpu="3")], requests={"cpu": "100m"})
    assert await scene.node_of("heavy") == "only"
    await scene.pod("light", requests={"cpu": "2"})
    await scene.rejection("light", "1 Insufficient cpu")


async def sidecar_is_added_to_the_containers(scene: Scene) -> None:
    await scene.node("only")
    sidecar = _container("proxy", cpu="2") | {"restartPolicy": "Always"}
    await scene.pod("too-big", initContainers=[sidecar], requests={"cpu": "2500m"})
    await scene.rejection("too-big", "1 Insufficient cpu")
    await scene.pod("fits", initContainers=[sidecar], requests={"cpu": "1500m"})
    assert await scene.node_of("fits") == "only"


async def overhead_of_a_runtime_class_counts(scene: Scene) -> None:
    await scene.nodes({"plain": {}, "sandbox": {"runtime": "sandbox"}})
    overhead = {"podFixed": {"cpu": "2"}}
    scheduling = {"nodeSelector": {"runtime": "sandbox"}}
    await scene.create(
        "node.k8s.io/v1/runtimeclasses", "sandbox", handler="s", overhead=overhead, scheduling=scheduling
    )
    await scene.pod("first", requests={"cpu": "1"}, runtimeClassName="sandbox")
    assert await scene.node_of("first") == "sandbox"
    await scene.pod("second", requests={"cpu": "1"}, runtimeClassName="sandbox")
    await scene.rejection("second", "1 Insufficient cpu")


async def emptier_node_is_chosen(scene: Scene) -> None:
    await scene.node("busy")
    await scene.pod("there", requests={"cpu": "2", "memory": "4Gi"})
    assert await scene.node_of("there") == "busy"
    await scene.node("idle")
    await scene.seen("idle")
    await scene.pod("web", requests={"cpu": "1", "memory": "2Gi"})
    assert await scene.node_of("web") == "idle"


async def packing_profile_chooses_the_fuller_node(scene: Scene) -> None:
    """The second profile of the same scheduler; its events contain its name."""
    await scene.node("busy")
    await scene.pod("there", requests={"cpu": "2", "memory": "4Gi"})
    assert await scene.node_of("there") == "busy"
    await scene.node("idle")
    await scene.seen("idle")
    await scene.pod("packed", requests={"cpu": "1", "memory": "2Gi"}, schedulerName="default-scheduler-packing")
    assert await scene.node_of("packed") == "busy"
    event = await scene.event("Scheduled", "packed")
    assert event.reporting_controller == "default-scheduler-packing"


async def node_with_the_image_is_preferred(scene: Scene) -> None:
    await scene.node("without")
    await scene.node("with", images=[{"names": ["example.com/model:1"], "sizeBytes": 900_000_000}])
    await scene.seen("with", "without")
    await scene.pod("web", container={"image": "example.com/model:1"})
    assert await scene.node_of("web") == "with"


def _container(name: str, **requests: str) -> Data:
    return {"name": name, "image": "app:1", "resources": {"requests": requests}}
