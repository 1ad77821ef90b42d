"""Pods with volumes: claims are bound on feasible nodes, and pods are scheduled on the nodes of their volumes."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from tests.live.scenarios.scene import PODS, Data, Scene
from tests.live.storage import PROVISIONER

CLAIMS: Final = "v1/persistentvolumeclaims"
VOLUMES: Final = "v1/persistentvolumes"
CLASSES: Final = "storage.k8s.io/v1/storageclasses"
BY_HAND: Final = "kubernetes.io/no-provisioner"
LATE: Final = "WaitForFirstConsumer"
EARLY: Final = "Immediate"


async def pod_goes_to_the_node_of_its_bound_volume(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, EARLY)
    await _volume(scene, "disk", node="b")
    await _claim(scene, "data")
    await scene.until("the claim is bound", _is_bound(scene, "data"))
    await scene.pod("db", volumes=[_mounted("data")])
    assert await scene.node_of("db") == "b"


async def waiting_claim_is_bound_on_a_feasible_node(scene: Scene) -> None:
    """The volume on the full node is not used."""
    await scene.nodes({"a": {}, "b": {}})
    await scene.pod("ballast", requests={"cpu": "4"}, nodeSelector={HOSTNAME_LABEL: "a"})
    await scene.node_of("ballast")
    await _class(scene, LATE)
    await _volume(scene, "disk-a", node="a")
    await _volume(scene, "disk-b", node="b")
    await _claim(scene, "data")
    await scene.pod("db", requests={"cpu": "1"}, volumes=[_mounted("data")])
    assert await scene.node_of("db") == "b"
    await scene.until("the claim is bound", _is_bound(scene, "data"))
    assert (await scene.get(CLAIMS, "data"))["spec"]["volumeName"] == f"{scene.namespace}-disk-b"


async def volume_is_provisioned_on_the_node_of_the_pod(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, LATE, PROVISIONER)
    await _claim(scene, "data")
    await scene.pod("db", volumes=[_mounted("data")], nodeSelector={HOSTNAME_LABEL: "b"})
    assert await scene.node_of("db") == "b"
    await scene.until("the claim is bound", _is_bound(scene, "data"))
    annotations = (await scene.get(CLAIMS, "data"))["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/selected-node"] == "b"
    assert annotations["volume.kubernetes.io/storage-provisioner"] == PROVISIONER


async def pod_waits_for_a_missing_volume(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, LATE)
    await _claim(scene, "data")
    await scene.pod("db", volumes=[_mounted("data")])
    why = "2 node(s) didn't find available persistent volumes to bind."
    await scene.rejection("db", f"0/2 nodes are available: {why}")
    await _volume(scene, "disk", node="a")
    assert await scene.node_of("db") == "a"


async def pod_waits_for_a_missing_claim(scene: Scene) -> None:
    await scene.node("a")
    await _class(scene, EARLY)
    await scene.pod("db", volumes=[_mounted("data")])
    await scene.rejection("db", '0/1 nodes are available: persistentvolumeclaim "data" not found.')
    await _volume(scene, "disk", node="a")
    await _claim(scene, "data")
    assert await scene.node_of("db") == "a"


async def pod_waits_for_an_immediate_claim(scene: Scene) -> None:
    await scene.node("a")
    await _class(scene, EARLY)
    await _claim(scene, "data")
    await scene.pod("db", volumes=[_mounted("data")])
    why = "pod has unbound immediate PersistentVolumeClaims."
    await scene.rejection("db", f"0/1 nodes are available: {why}")
    await _volume(scene, "disk", node="a")
    assert await scene.node_of("db") == "a"


async def unreachable_volume_is_named(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, EARLY)
    await _volume(scene, "disk", node="b")
    await _claim(scene, "data")
    await scene.until("the claim is bound", _is_bound(scene, "data"))
    await scene.pod("db", volumes=[_mounted("data")], nodeSelector={HOSTNAME_LABEL: "a"})
    await scene.rejection("db", "1 node(s) didn't match PersistentVolume's node affinity")


async def volume_restricts_its_pod_to_its_zone(scene: Scene) -> None:
    await scene.nodes({"east": {ZONE_LABEL: "east"}, "west": {ZONE_LABEL: "west"}})
    await _class(scene, EARLY)
    await _volume(scene, "disk", labels={ZONE_LABEL: "west"})
    await _claim(scene, "data")
    await scene.until("the claim is bound", _is_bound(scene, "data"))
    await scene.pod("db", volumes=[_mounted("data")])
    assert await scene.node_of("db") == "west"


async def read_write_once_pod_volume_has_one_pod(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, EARLY)
    await _volume(scene, "disk", accessModes=["ReadWriteOncePod"])
    await _claim(scene, "data", accessModes=["ReadWriteOncePod"])
    await scene.until("the claim is bound", _is_bound(scene, "data"))
    await scene.pod("first", volumes=[_mounted("data")])
    await scene.node_of("first")
    await scene.pod("second", volumes=[_mounted("data")])
    why = "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    await scene.rejection("second", f"0/2 nodes are available: 2 node(s) {why}.")
    await scene.delete(PODS, "first")
    await scene.node_of("second")


async def volume_limit_of_a_node_applies(scene: Scene) -> None:
    await scene.node("a")
    drivers = [{"name": PROVISIONER, "nodeID": "a", "topologyKeys": [], "allocatable": {"count": 1}}]
    await scene.create("storage.k8s.io/v1/csinodes", "a", spec={"drivers": drivers})
    await _class(scene, EARLY)
    for number in range(2):
        await _volume(scene, f"disk-{number}", source={"csi": {"driver": PROVISIONER, "volumeHandle": f"{number}"}})
        await _claim(scene, f"data-{number}")
    for number in range(2):
        await scene.until("the claim is bound", _is_bound(scene, f"data-{number}"))
    await scene.pod("first", volumes=[_mounted("data-0")])
    await scene.node_of("first")
    await scene.pod("second", volumes=[_mounted("data-1")])
    await scene.rejection("second", "0/1 nodes are available: 1 node(s) exceed max volume count.")
    await scene.pod("sharing", volumes=[_mounted("data-0")])
    await scene.node_of("sharing")
    await scene.delete(PODS, "first")
    await scene.delete(PODS, "sharing")
    await scene.node_of("second")


async def ephemeral_volumes_are_provisioned_for_their_pods(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    await _class(scene, LATE)
    await _volume(scene, "disk", node="b")
    template = {"spec": _claim_spec(scene)}
    await scene.pod("db", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    assert await scene.node_of("db") == "b"
    claim = await scene.get(CLAIMS, "db-scratch")
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "db", True)
    await scene.delete(PODS, "db")
    await scene.gone("db-scratch", CLAIMS)


async def volumes_without_claims_are_accepted(scene: Scene) -> None:
    await scene.node("a")
    config = {"name": "settings", "configMap": {"name": "settings"}}
    path = {"name": "path", "hostPath": {"path": "/tmp"}}
    await scene.pod("web", volumes=[{"name": "scratch", "emptyDir": {}}, config, path])
    assert await scene.node_of("web") == "a"


async def _class(scene: Scene, mode: str, provisioner: str = BY_HAND) -> None:
    """Create the storage class of the scene."""
    await scene.create(CLASSES, scene.namespace, provisioner=provisioner, volumeBindingMode=mode)


async def _volume(
    scene: Scene,
    name: str,
    *,
    node: str = "",
    labels: Data | None = None,
    source: Data | None = None,
    **spec: Any,
) -> None:
    """Create a volume of the scene's class that is reachable from one node only."""
    here = {"key": HOSTNAME_LABEL, "operator": "In", "values": [node]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}} if node else {}
    content = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": scene.namespace,
        **(source or {"local": {"path": "/disk"}} if node else source or {"hostPath": {"path": "/disk"}}),
        **affinity,
        **spec,
    }
    await scene.create(VOLUMES, f"{scene.namespace}-{name}", metadata={"labels": labels or {}}, spec=content)


def _claim_spec(scene: Scene, **spec: Any) -> Data:
    requests = {"requests": {"storage": "1Gi"}}
    own = {"storageClassName": scene.namespace, "accessModes": ["ReadWriteOnce"], "resources": requests}
    return {**own, **spec}


async def _claim(scene: Scene, name: str, **spec: Any) -> None:
    """Create a claim to a volume of the scene's class."""
    await scene.create(CLAIMS, name, spec=_claim_spec(scene, **spec))


def _mounted(claim: str) -> Data:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def _is_bound(scene: Scene, claim: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool((await scene.get(CLAIMS, claim))["status"].get("phase") == "Bound")

    return look
