"""Which struct stands for which kind: the one table of kinds, their API groups and their plural names."""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from moorage.api import cluster, devices, records, storage
from moorage.api.meta import KubeObject
from moorage.api.node import Node
from moorage.api.pod import Pod

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._~-]+").fullmatch


@lru_cache(maxsize=1024)
def _collection(group: str, version: str, namespace: str, plural: str) -> str:
    root = _root(group, version)
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


class Kind(Struct, frozen=True):
    """A kind of object: how it is called, where it lives in the API, and the struct it decodes into."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool
    type: type[KubeObject]

    @property
    def api_version(self) -> str:
        """Return what stands in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def event_resource(self) -> str:
        """Return the name under which a plugin registers for events of a kind of its own."""
        return f"{self.plural}.{self.version}.{self.group}"

    @property
    def root(self) -> str:
        """Return where the API of this kind's group begins."""
        return _root(self.group, self.version)

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return where one object lives, or all of a namespace, or all.

        >>> BY_NAME["Pod"].path("web", "shop", "binding")
        '/api/v1/namespaces/shop/pods/web/binding'
        """
        place = _collection(self.group, self.version, namespace, self.plural)
        if name:
            # A pod costs two requests, and its name never needs quoting.
            place = f"{place}/{name if _PLAIN_NAME(name) else quote(name, safe='')}"
        return f"{place}/{subresource}" if subresource else place


_STORAGE: Final = "storage.k8s.io"
_DEVICES: Final = "resource.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"

KINDS: Final[tuple[Kind, ...]] = (
    Kind("Pod", "", "v1", "pods", True, Pod),
    Kind("Node", "", "v1", "nodes", False, Node),
    Kind("Namespace", "", "v1", "namespaces", False, cluster.Namespace),
    Kind("Service", "", "v1", "services", True, cluster.Service),
    Kind("ReplicationController", "", "v1", "replicationcontrollers", True, cluster.ReplicationController),
    Kind("ReplicaSet", "apps", "v1", "replicasets", True, cluster.ReplicaSet),
    Kind("StatefulSet", "apps", "v1", "statefulsets", True, cluster.StatefulSet),
    Kind("PriorityClass", _SCHEDULING, "v1", "priorityclasses", False, cluster.PriorityClass),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True, cluster.PodDisruptionBudget),
    Kind("PersistentVolume", "", "v1", "persistentvolumes", False, storage.PersistentVolume),
    Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", True, storage.PersistentVolumeClaim),
    Kind("StorageClass", _STORAGE, "v1", "storageclasses", False, storage.StorageClass),
    Kind("CSINode", _STORAGE, "v1", "csinodes", False, storage.CSINode),
    Kind("CSIDriver", _STORAGE, "v1", "csidrivers", False, storage.CSIDriver),
    Kind("CSIStorageCapacity", _STORAGE, "v1", "csistoragecapacities", True, storage.CSIStorageCapacity),
    Kind("VolumeAttachment", _STORAGE, "v1", "volumeattachments", False, storage.VolumeAttachment),
    Kind("ResourceClaim", _DEVICES, "v1", "resourceclaims", True, devices.ResourceClaim),
    Kind("ResourceClaimTemplate", _DEVICES, "v1", "resourceclaimtemplates", True, devices.ResourceClaimTemplate),
    Kind("ResourceSlice", _DEVICES, "v1", "resourceslices", False, devices.ResourceSlice),
    Kind("DeviceClass", _DEVICES, "v1", "deviceclasses", False, devices.DeviceClass),
    Kind("DeviceTaintRule", _DEVICES, "v1", "devicetaintrules", False, devices.DeviceTaintRule),
    Kind("PodGroup", _SCHEDULING, "v1beta1", "podgroups", True, cluster.PodGroup),
    Kind("Workload", _SCHEDULING, "v1beta1", "workloads", True, cluster.Workload),
    Kind("Lease", "coordination.k8s.io", "v1", "leases", True, records.Lease),
    Kind("Event", "events.k8s.io", "v1", "events", True, records.Event),
)

BY_NAME: Final[dict[str, Kind]] = {kind.name: kind for kind in KINDS}
BY_TYPE: Final[dict[type[KubeObject], Kind]] = {kind.type: kind for kind in KINDS}


def add_kind(kind: Kind) -> None:
    """Make a kind of a plugin's own known, so that the scheduler can list and watch it.

    ValueError if its struct stands for another kind already.
    """
    known = BY_TYPE.setdefault(kind.type, kind)
    if known != kind:
        raise ValueError(f"{kind.type.__name__} stands for {known.plural} in {known.api_version} already")
