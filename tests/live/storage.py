"""Storage for live tests: classes, claims and volumes, a provisioner, and invariants of bindings."""

import asyncio
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from moorage.common.errors import Conflict, NotFound
from moorage.kube.api.claims import SELECTED_NODE
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from tests.live.cluster import HOSTNAME, NAMESPACE, PATIENCE, LiveCluster, patiently

PROVISIONER: Final = "stand-in.example.com"
PROVISIONED: Final = "provisioned"
LOCAL: Final = "local"
PROVISIONER_OF_CLAIM: Final = "volume.kubernetes.io/storage-provisioner"


async def add_classes(cluster: LiveCluster) -> None:
    """Create a class with provisioned volumes and a class with existing volumes; both wait for the first consumer."""
    for name, provisioner in ((PROVISIONED, PROVISIONER), (LOCAL, "kubernetes.io/no-provisioner")):
        content = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await cluster.create("/apis/storage.k8s.io/v1/storageclasses", content)


def claim_spec(storage_class: str) -> dict[str, Any]:
    requests = {"requests": {"storage": "1Gi"}}
    return {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], "resources": requests}


async def add_claims(cluster: LiveCluster, *names: str, storage_class: str) -> None:
    """Create claims."""
    for name in names:
        content = {"metadata": {"name": name}, "spec": claim_spec(storage_class)}
        await cluster.create(BY_TYPE[PersistentVolumeClaim].path(namespace=NAMESPACE), content)


def claim_volume(claim: str) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def ephemeral_volume(storage_class: str) -> dict[str, Any]:
    template = {"spec": claim_spec(storage_class)}
    return {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}


async def add_local_volumes(cluster: LiveCluster, node: str, count: int) -> None:
    """Create volumes that are reachable from one node only."""
    contents = [
        {
            "metadata": {"name": f"{node}-disk-{number}"},
            "spec": volume_spec(node) | {"local": {"path": f"/disks/{number}"}, "storageClassName": LOCAL},
        }
        for number in range(count)
    ]
    await asyncio.gather(*(cluster.create(BY_TYPE[PersistentVolume].path(), content) for content in contents))


def volume_spec(node: str) -> dict[str, Any]:
    here = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }


def node_of(volume: PersistentVolume) -> str:
    """Return the only node from which a provisioned volume is reachable."""
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    ((term,),) = (volume.spec.node_affinity.required.node_selector_terms,)
    ((value,),) = (requirement.values for requirement in term.match_expressions)
    return value


class Provisioner:
    """Acts as a provisioner: provisions a volume on the selected node, or makes the scheduler select another node.

    It takes a while, as real ones do; pods wait for it in PreBind.
    """

    def __init__(
        self, client: ApiClient, *, refusals: int = 0, slowest: float = 0.0, chance: Random | None = None
    ) -> None:
        self.refusals = refusals
        self._slowest = slowest
        self._chance = chance or Random(1)
        self._client = client
        self._informer: Informer[PersistentVolumeClaim] = Informer(client, BY_TYPE[PersistentVolumeClaim], self._see)
        self._work: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Provision volumes until cancelled."""
        await self._informer.run()

    def _see(self, _kind: Kind, changes: Sequence[Change[PersistentVolumeClaim]]) -> None:
        for change in changes:
            claim = change.after
            if claim is not None and self._is_ours(claim) and claim.uid not in self._work:
                task = asyncio.get_running_loop().create_task(self._serve(claim))
                self._work[claim.uid] = task
                task.add_done_callback(lambda _, uid=claim.uid: self._work.pop(uid))  # type: ignore[misc]

    def _is_ours(self, claim: PersistentVolumeClaim) -> bool:
        requested = claim.annotations.get(PROVISIONER_OF_CLAIM) == PROVISIONER and SELECTED_NODE in claim.annotations
        return requested and not claim.spec.volume_name and not claim.is_terminating

    async def _serve(self, claim: PersistentVolumeClaim) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, self._slowest))
        if self.refusals:
            self.refusals -= 1
            await self._refuse(claim)
            return
        # The volume is named after the claim: an existing volume, for any node, remains the only one.
        await patiently(lambda: LiveCluster(self._client).create(BY_TYPE[PersistentVolume].path(), self._volume(claim)))

    def _volume(self, claim: PersistentVolumeClaim) -> dict[str, Any]:
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace}
        own = {
            "csi": {"driver": claim.annotations[PROVISIONER_OF_CLAIM], "volumeHandle": claim.uid},
            "storageClassName": claim.spec.storage_class_name,
            "claimRef": reference | {"name": claim.name, "uid": claim.uid},
        }
        annotations = {"pv.kubernetes.io/provisioned-by": claim.annotations[PROVISIONER_OF_CLAIM]}
        metadata = {"name": f"pvc-{claim.uid}", "annotations": annotations}
        return {"metadata": metadata, "spec": volume_spec(claim.annotations[SELECTED_NODE]) | own}

    async def _refuse(self, claim: PersistentVolumeClaim) -> None:
        version = claim.metadata.resource_version
        metadata = {"annotations": {SELECTED_NODE: None}, "resourceVersion": version}
        path = BY_TYPE[PersistentVolumeClaim].path(claim.name, claim.namespace)
        body = msgspec.json.encode({"metadata": metadata})
        try:
            await patiently(lambda: self._client.request("PATCH", path, body, MERGE_PATCH))
        except (Conflict, NotFound):
            self.refusals += 1


class Storage:
    """Claims and volumes at one moment."""

    def __init__(self, claims: Sequence[PersistentVolumeClaim], volumes: Sequence[PersistentVolume]) -> None:
        self.claims = {claim.name: claim for claim in claims}
        self.volumes = {volume.name: volume for volume in volumes}

    def problems(self, pods: dict[str, Pod]) -> list[str]:
        """Return bindings that are partial, doubled, or unreachable for their pod."""
        return [*self._half_bound(), *self._claimed_by_others(), *self.out_of_reach(pods)]

    def out_of_reach(self, pods: dict[str, Pod]) -> list[str]:
        """Return bound pods with missing volumes, which is always wrong."""
        return [
            f"{pod.name} is on {pod.node_name}, {name} is on {self.node_of_claim(name)!r}"
            for pod in pods.values()
            for name in list_claim_names(pod)
            if pod.node_name and self.node_of_claim(name) != pod.node_name
        ]

    def node_of_claim(self, name: str) -> str:
        """Return the node of a claim's volume; empty if the claim is not bound."""
        claim = self.claims.get(name)
        volume = self.volumes.get(claim.spec.volume_name) if claim is not None else None
        return "" if volume is None else node_of(volume)

    def _half_bound(self) -> list[str]:
        results = []
        for name, claim in self.claims.items():
            volume = self.volumes.get(claim.spec.volume_name)
            reference = None if volume is None else volume.spec.claim_ref
            is_named = reference is not None and reference.uid == claim.uid
            if (claim.status.phase == "Bound") != is_named:
                results.append(
                    f"{name} is {claim.status.phase}, its volume {claim.spec.volume_name!r} is for {reference}"
                )
        return results

    def _claimed_by_others(self) -> list[str]:
        holders = {claim.uid: claim for claim in self.claims.values()}
        results = []
        for name, volume in self.volumes.items():
            holder = holders.get(volume.spec.claim_ref.uid) if volume.spec.claim_ref is not None else None
            if holder is not None and holder.spec.volume_name != name:
                results.append(f"{name} is for {holder.name}, which has {holder.spec.volume_name!r}")
        return results


def list_claim_names(pod: Pod) -> list[str]:
    """Return the claims of a pod's volumes."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.name}-{volume.name}")
    return names


async def storage(cluster: LiveCluster) -> Storage:
    """Read all claims and volumes."""
    claims = await cluster.client.list(PersistentVolumeClaim, NAMESPACE)
    return Storage(claims, await cluster.client.list(PersistentVolume))


async def settled_storage(cluster: LiveCluster, seconds: float = PATIENCE) -> Storage:
    """Wait until the PV controller has finished all bindings; fail with the partial ones."""
    deadline = time.monotonic() + seconds
    while problems := (now := await storage(cluster)).problems(await cluster.pods()):
        assert time.monotonic() < deadline, f"invariants still violated: {problems}"
        await asyncio.sleep(0.5)
    return now


async def clear_storage(cluster: LiveCluster) -> None:
    """Delete stateful sets, claims, volumes and classes; wait until volumes and claims are deleted."""
    await cluster.client.request("DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets")
    await cluster.client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
    for kind, namespace in ((PersistentVolumeClaim, NAMESPACE), (PersistentVolume, "")):
        await cluster.remove_all(BY_TYPE[kind].path(namespace=namespace))
    for name in (PROVISIONED, LOCAL):
        try:
            await cluster.client.request("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{name}")
        except NotFound:
            continue
