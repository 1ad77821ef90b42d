"""The hint index of plugins that wait for PersistentVolumeClaims."""

from typing import Final

from moorage.kube.api.claims import claim_uses
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim


class PodsByVolumeClaim:
    """Finds the pending pods that use a changed claim."""

    def keys(self, pod: Pod) -> list[str]:
        """Return the claims of a pod, by namespace and name."""
        return [f"{pod.namespace}/{use.name}" for use in claim_uses(pod)]

    def affected(self, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> list[str]:
        """Return the changed claim."""
        return [new.key]


BY_VOLUME_CLAIM: Final = PodsByVolumeClaim()
