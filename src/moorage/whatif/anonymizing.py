"""A cluster under other names: the same name always becomes the same other one, so that everything still fits together.

Names, namespaces, labels, taints, images and everything else that somebody chose are renamed. What Kubernetes itself
means something by stays: kinds, operators, effects, amounts, times, numbers, and keys of its own.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

KEPT_FIELDS: Final = frozenset(
    (
        *("apiVersion", "kind", "operator", "effect", "phase", "type", "status", "protocol", "whenUnsatisfiable"),
        *("restartPolicy", "preemptionPolicy", "volumeMode", "volumeBindingMode", "accessModes", "reclaimPolicy"),
        *("persistentVolumeReclaimPolicy", "creationTimestamp", "deletionTimestamp", "startTime", "hostIP"),
        *("lastTransitionTime", "lastProbeTime", "lastHeartbeatTime", "nodeAffinityPolicy", "nodeTaintsPolicy"),
        *("resourceVersion", "uid", "expression", "allocationMode", "schedulerName", "podManagementPolicy"),
        *(
            "driver",
            "attacher",
            "provisioner",
            "fieldPath",
            "clusterIP",
            "declaredFeatures",
            "reason",
            "completionMode",
        ),
        *("timeAdded", "concurrencyPolicy", "unhealthyPodEvictionPolicy", "adminAccess"),
    )
)
"""Fields whose values mean something to Kubernetes."""
AMOUNTS: Final = frozenset(
    (
        *("capacity", "allocatable", "requests", "limits", "overhead", "allocatedResources", "attributes"),
        *("maximumVolumeSize", "minAvailable", "maxUnavailable", "consumedCapacity", "counters"),
    )
)
"""Fields of amounts by resource: their values stay, and so do the names of Kubernetes' own resources."""
IMAGES: Final = frozenset(("image", "names", "imageID"))
OWN_KEYS: Final = re.compile(r"(?:[a-z0-9.-]+\.)?(?:kubernetes\.io|k8s\.io|x-k8s\.io|moorage\.io)/.*")
OWN_RESOURCES: Final = re.compile(r"cpu|memory|pods|storage|ephemeral-storage|(?:hugepages|attachable-volumes)-.*")
OWN_NAMES: Final = frozenset(
    (
        *("default", "kube-system", "kube-public", "kube-node-lease", "metadata.name", "default-scheduler", ""),
        *("system-cluster-critical", "system-node-critical", "true", "false"),
    )
)
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?")


class Anonymizer:
    """Gives out other names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def anonymized(self, contents: Iterable[Any]) -> list[Any]:
        """Rename everything in some objects."""
        listed = list(contents)
        for content in listed:
            self._know_claims(content)
        return [self._walk(content, "") for content in listed]

    def name(self, text: str) -> str:
        """Return the other name of a name.

        >>> names = Anonymizer()
        >>> names.name("shop"), names.name("db"), names.name("shop"), names.name("8080"), names.name("kube-system")
        ('x1', 'x2', 'x1', '8080', 'kube-system')
        """
        if text in OWN_NAMES or _NUMBER.fullmatch(text) or OWN_KEYS.fullmatch(text):
            return text
        if text not in self._names:
            self._names[text] = f"x{len(self._names) + 1}"
        return self._names[text]

    def _key(self, text: str) -> str:
        if OWN_RESOURCES.fullmatch(text) or OWN_KEYS.fullmatch(text):
            return text
        prefix, slash, local = text.rpartition("/")
        return f"{self.name(prefix)}.example/{self.name(local)}" if slash else self.name(text)

    def _image(self, text: str) -> str:
        """Rename an image, and leave its tag: one without any means the same as one with `latest`."""
        repository, colon, tag = text.rpartition(":")
        if not colon or "/" in tag:
            return self.name(text)
        return f"{self.name(repository)}:{tag if tag == 'latest' else self.name(tag)}"

    def _know_claims(self, content: Any) -> None:
        """Have the claim of an ephemeral volume be named after its pod and volume, as Kubernetes names it."""
        if content.get("kind") == "Pod":
            pod = content["metadata"]["name"]
            for volume in content["spec"].get("volumes") or ():
                if "ephemeral" in volume:
                    own = f"{self.name(pod)}-{self.name(volume['name'])}"
                    self._names.setdefault(f"{pod}-{volume['name']}", own)

    def _walk(self, content: Any, field: str) -> Any:
        if isinstance(content, dict):
            if field in AMOUNTS:
                return {self._key(key): item for key, item in content.items()}
            renames = field in ("labels", "matchLabels", "nodeSelector", "annotations", "selector") and all(
                isinstance(item, str) for item in content.values()
            )
            return {
                (self._key(key) if renames else key): self._walk(item, "" if renames else key)
                for key, item in content.items()
            }
        if isinstance(content, list):
            return [self._walk(item, field) for item in content]
        if not isinstance(content, str) or field in KEPT_FIELDS or field in AMOUNTS:
            return content
        if field in IMAGES:
            return self._image(content)
        return self._key(content) if field in ("key", "topologyKey", "matchLabelKeys") else self.name(content)
