"""Rename all objects of a cluster consistently, so that their relations remain intact.

Names, namespaces, labels, taints, images and all other user-defined values are renamed. Values with a meaning in
Kubernetes remain: kinds, operators, effects, amounts, times, numbers, well-known keys, and attributes of devices.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

KEPT_FIELDS: Final = frozenset(
    (
        *("apiVersion", "kind", "operator", "effect", "phase", "type", "status", "protocol", "whenUnsatisfiable"),
        *("restartPolicy", "preemptionPolicy", "volumeMode", "volumeBindingMode", "accessModes", "reclaimPolicy"),
        *("persistentVolumeReclaimPolicy", "hostIP", "nodeAffinityPolicy", "nodeTaintsPolicy", "whenDeleted"),
        *("whenScaled", "action", "matchAttribute", "distinctAttribute", "maxSurge"),
        *("resourceVersion", "uid", "expression", "allocationMode", "schedulerName", "podManagementPolicy"),
        *("driver", "attacher", "provisioner", "fieldPath", "clusterIP", "declaredFeatures", "reason"),
        *("completionMode", "concurrencyPolicy", "unhealthyPodEvictionPolicy", "adminAccess", "scopeName", "scopes"),
    )
)
"""Fields whose values have a meaning in Kubernetes."""
AMOUNTS: Final = frozenset(
    (
        *("capacity", "allocatable", "requests", "limits", "overhead", "allocatedResources"),
        *("maximumVolumeSize", "minAvailable", "maxUnavailable", "counters", "hard", "used"),
        *("min", "max", "default", "defaultRequest", "maxLimitRequestRatio", "podFixed"),
    )
)
"""Fields of amounts by resource: their values remain, and so do the names of Kubernetes' own resources."""
WHOLE: Final = frozenset(("attributes", "consumedCapacity"))
"""Fields of devices that remain unchanged: expressions refer to their keys."""
KEYS: Final = frozenset(("key", "topologyKey", "matchLabelKeys", "topologyKeys", "extendedResourceName"))
DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io"
"""Prefix of resource names that request devices of a class."""
ZONES: Final = "__"
"""Separates the zones in the label of a volume in several zones."""
IMAGES: Final = frozenset(("image", "names", "imageID"))
OWN_KEYS: Final = re.compile(r"(?:[a-z0-9.-]+\.)?(?:kubernetes\.io|k8s\.io|x-k8s\.io|moorage\.io)/.*")
OWN_RESOURCES: Final = re.compile(
    r"(?:requests\.|limits\.)?(?:cpu|memory|pods|count|(?:ephemeral-)?storage|(?:hugepages|attachable-volumes)-.*)"
    r"|count/.*|services(?:\..*)?|configmaps|secrets|persistentvolumeclaims|replicationcontrollers|resourcequotas"
)
OWN_NAMES: Final = frozenset(
    (
        *("default", "kube-system", "kube-public", "kube-node-lease", "metadata.name", "default-scheduler", ""),
        *("system-cluster-critical", "system-node-critical", "true", "false"),
        *("pod-template-hash", "controller-revision-hash", "pod-template-generation", "controller-uid", "job-name"),
    )
)
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[munkMGTPE%]|[KMGTPE]i)?")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*")
_MEMBER: Final = re.compile(r"(.+)-(\d+)")


class Anonymizer:
    """Replaces names consistently."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def anonymized(self, contents: Iterable[Any]) -> list[Any]:
        """Return objects with other names."""
        objects = list(contents)
        for content in objects:
            # Keep the names of drivers: claims and classes refer to them.
            drivers = (content.get("spec") or {}).get("drivers") or () if content.get("kind") == "CSINode" else ()
            names = [driver["name"] for driver in drivers]
            names += [content["metadata"]["name"]] if content.get("kind") == "CSIDriver" else []
            self._names.update(zip(names, names, strict=True))
            self._register_members(content)
        for content in objects:
            if content.get("kind") == "Pod":
                # Kubernetes names the claim of an ephemeral volume after the pod and the volume.
                pod = content["metadata"]["name"]
                for volume in content["spec"].get("volumes") or ():
                    if "ephemeral" in volume:
                        own = f"{self.name(pod)}-{self.name(volume['name'])}"
                        self._names.setdefault(f"{pod}-{volume['name']}", own)
        return [self._walk(content, "") for content in objects]

    def name(self, text: str) -> str:
        """Return the other name of a name.

        >>> names = Anonymizer()
        >>> names.name("shop"), names.name("db"), names.name("shop"), names.name("8080"), names.name("kube-system")
        ('x1', 'x2', 'x1', '8080', 'kube-system')
        """
        if text in OWN_NAMES or any(own.fullmatch(text) for own in (_NUMBER, _TIME, OWN_KEYS)):
            return text
        if ZONES in text:
            return ZONES.join(map(self.name, text.split(ZONES)))
        if text not in self._names:
            self._names[text] = f"x{len(self._names) + 1}"
        return self._names[text]

    def _key(self, text: str) -> str:
        prefix, slash, local = text.rpartition("/")
        if prefix == DEVICE_CLASS:
            return f"{prefix}/{self.name(local)}"
        if OWN_RESOURCES.fullmatch(text) or OWN_KEYS.fullmatch(text):
            return text
        return f"{self.name(prefix)}.example/{self.name(local)}" if slash else self.name(text)

    def _register_members(self, content: Any) -> None:
        """Name the pods of a StatefulSet and their claims after it, as Kubernetes does."""
        name = content["metadata"]["name"]
        owners = content["metadata"].get("ownerReferences") or ()
        member = _MEMBER.fullmatch(name)
        if content.get("kind") == "Pod" and member and any(owner["kind"] == "StatefulSet" for owner in owners):
            self._names.setdefault(name, f"{self.name(member[1])}-{member[2]}")
            for volume in content["spec"].get("volumes") or ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if claim == f"{volume['name']}-{name}":
                    self._names.setdefault(claim, f"{self.name(volume['name'])}-{self.name(name)}")

    def _walk(self, content: Any, field: str) -> Any:
        if isinstance(content, dict):
            if field in WHOLE:
                return content
            if field in AMOUNTS:
                return {key if isinstance(item, dict) else self._key(key): item for key, item in content.items()}
            renames = field in ("labels", "matchLabels", "nodeSelector", "annotations", "selector") and all(
                isinstance(item, str) for item in content.values()
            )
            return {
                (self._key(key) if renames else key): self._walk(item, "" if renames else key)
                for key, item in content.items()
            }
        if isinstance(content, list):
            # The requests of a device claim are a list, not amounts.
            return [self._walk(item, "" if field in AMOUNTS else field) for item in content]
        if not isinstance(content, str) or field in KEPT_FIELDS or field in AMOUNTS:
            return content
        if field in IMAGES:
            # The tag `latest` remains, because it equals a missing tag.
            repository, colon, tag = content.rpartition(":")
            if not colon or "/" in tag:
                return self.name(content)
            return f"{self.name(repository)}:{tag if tag == 'latest' else self.name(tag)}"
        return self._key(content) if field in KEYS else self.name(content)
