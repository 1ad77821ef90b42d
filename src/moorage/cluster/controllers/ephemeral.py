"""Generic ephemeral volumes: claims that are made for a pod and go with it."""

from collections.abc import Iterable, Iterator

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import owner_reference
from moorage.kube.api.claims import claim_use
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim


class EphemeralVolumeController:
    """Makes the claims of pods' ephemeral volumes; garbage collection takes them away."""

    name = "ephemeral volumes"
    kinds = (Pod, PersistentVolumeClaim)
    pause = 0.0

    def affected(self, thing: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a pod that has such volumes, and at the pod of a claim that is gone."""
        if isinstance(thing, Pod):
            return (thing.key,) if any(volume.ephemeral for volume in thing.spec.volumes) else ()
        owner = thing.metadata.controller
        return (f"{thing.namespace}/{owner.name}",) if owner is not None and owner.kind == "Pod" else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Make the claims a pod lacks."""
        pod = cache[Pod].get(key)
        if pod is None or pod.is_terminating or pod.is_finished:
            return ()
        known = {claim.name for claim in cache[PersistentVolumeClaim].in_namespace(pod.namespace)}
        return claims_for(pod, known)


def claims_for(pod: Pod, known: set[str]) -> Iterator[ControllerAction]:
    """Decide which claims to make for a pod; one of that name that is another's is left alone, and the pod waits."""
    for volume in pod.spec.volumes:
        use, template = claim_use(pod, volume), volume.ephemeral and volume.ephemeral.volume_claim_template
        if not template or use is None or use.name in known:
            continue
        metadata = {
            "name": use.name,
            "namespace": pod.namespace,
            "labels": dict(template.metadata.labels),
            "annotations": dict(template.metadata.annotations),
            "ownerReferences": [owner_reference(pod)],
        }
        yield Create(PersistentVolumeClaim, {"metadata": metadata, "spec": msgspec.to_builtins(template.spec)})
