"""A provisioner for generated claims: volumes of every driver, of the requested size, reachable from all nodes."""

from typing import Any

import msgspec

from moorage.kube.api.claims import SELECTED_NODE
from moorage.kube.api.storage import PersistentVolumeClaim
from tests.live.storage import PROVISIONER_OF_CLAIM, Provisioner


class GeneralProvisioner(Provisioner):
    """Serves all classes; its volumes have no node affinity, because generated nodes may lack a hostname."""

    def _is_ours(self, claim: PersistentVolumeClaim) -> bool:
        wanted = PROVISIONER_OF_CLAIM in claim.annotations and SELECTED_NODE in claim.annotations
        return wanted and not claim.spec.volume_name and not claim.is_terminating

    def _volume(self, claim: PersistentVolumeClaim) -> dict[str, Any]:
        made = super()._volume(claim)
        wanted = msgspec.to_builtins(claim.spec)
        made["spec"]["capacity"] = {"storage": wanted["resources"]["requests"]["storage"]}
        made["spec"]["accessModes"] = wanted["accessModes"]
        made["spec"]["volumeMode"] = wanted.get("volumeMode") or "Filesystem"
        del made["spec"]["nodeAffinity"]
        return made
