"""A provisioner for generated claims: volumes of every driver, of the requested size, reachable from all nodes."""

from typing import Any

import msgspec

from moorage.kube.api.claims import SELECTED_NODE
from moorage.kube.api.storage import PersistentVolumeClaim
from tests.live.storage import PROVISIONER_OF_CLAIM, Provisioner


class GeneralProvisioner(Provisioner):
    """Serves all classes; its volumes have no node affinity, because generated nodes may lack a hostname."""

    def _is_ours(self, claim: PersistentVolumeClaim) -> bool:
        requested = PROVISIONER_OF_CLAIM in claim.annotations and SELECTED_NODE in claim.annotations
        return requested and not claim.spec.volume_name and not claim.is_terminating

    def _volume(self, claim: PersistentVolumeClaim) -> dict[str, Any]:
        created = super()._volume(claim)
        requested = msgspec.to_builtins(claim.spec)
        created["spec"]["capacity"] = {"storage": requested["resources"]["requests"]["storage"]}
        created["spec"]["accessModes"] = requested["accessModes"]
        created["spec"]["volumeMode"] = requested.get("volumeMode") or "Filesystem"
        del created["spec"]["nodeAffinity"]
        return created
