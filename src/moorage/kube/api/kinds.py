"""The table of kinds: names, API paths, verbs and structs."""

import re
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from moorage.kube.api import cluster, devices, node, pod, pod_groups, records, storage, workloads
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._~-]+").fullmatch
_StructType: TypeAlias = type[KubeObject]  # inside the class, `type` is the field
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY: Final = ("create",)


class Kind(Struct, frozen=True):
    """A kind of object in one version of its group.

    ``type`` is its struct: :class:`KubeObject` if only the metadata is read, or if the version is not decoded.
    ``gate`` is the feature gate that enables the kind, ``since`` the first release that serves it, ``until`` the first
    that no longer does.
    """

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool = True
    type: _StructType = KubeObject
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    gate: str = ""
    since: tuple[int, int] = (1, 0)
    until: tuple[int, int] | None = None

    def is_served(self, features: FeatureGates) -> bool:
        """Return whether a release with these feature gates serves the kind."""
        if not features.since(*self.since) or (self.until is not None and features.since(*self.until)):
            return False
        return not self.gate or features.enabled(self.gate)

    @property
    def api_version(self) -> str:
        """Return the value of ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Return the plural with its group, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_struct(self) -> bool:
        """Whether more than the metadata is decoded."""
        return self.type is not KubeObject

    @property
    def event_resource(self) -> str:
        """Return the resource name in event registrations for a custom kind."""
        return f"{self.plural}.{self.version}.{self.group}"

    @property
    def root(self) -> str:
        """Return the path of this kind's group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return the path of an object, of all objects in a namespace, or of all objects.

        >>> BY_NAME["Pod"].path("web", "shop", "binding")
        '/api/v1/namespaces/shop/pods/web/binding'
        """
        path = f"{self.root}/namespaces/{namespace}/{self.plural}" if namespace else f"{self.root}/{self.plural}"
        if name:
            # A pod costs two requests, and its name never needs quoting.
            path = f"{path}/{name if _PLAIN_NAME(name) else quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


_STORAGE: Final = "storage.k8s.io/v1"
_DEVICES: Final = "resource.k8s.io/v1"
_SCHEDULING: Final = "scheduling.k8s.io/v1"
_REVIEWS: Final = "authorization.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_FAIRNESS: Final = "flowcontrol.apiserver.k8s.io/v1"
_EXTENSIONS: Final = "apiextensions.k8s.io/v1"
_LOGINS: Final = "authentication.k8s.io/v1"
RBAC: Final = "rbac.authorization.k8s.io"
_STATUS: Final = ("status",)
_SCALABLE: Final = ("status", "scale")
_GROUPS: Final = "GenericWorkload"
_POD_PARTS: Final = ("status", "binding", "eviction", "ephemeralcontainers", "resize")


def _kind(
    name: str,
    api_version: str,
    struct: _StructType = KubeObject,
    *,
    plural: str = "",
    short: str = "",
    in_all: bool = False,
    parts: tuple[str, ...] = (),
    **more: Any,
) -> Kind:
    """Describe a built-in kind: ``short`` names, whether it is in the category ``all``, and its subresources."""
    group, _, version = api_version.rpartition("/")
    stem = name.lower()
    regular = f"{stem[:-1]}ies" if stem.endswith("y") else f"{stem}es" if stem.endswith("s") else f"{stem}s"
    names, categories = tuple(short.split()), ("all",) if in_all else ()
    more |= {"short_names": names, "categories": categories, "subresources": parts}
    return Kind(name, group, version, plural or regular, type=struct, **more)


KINDS: Final[tuple[Kind, ...]] = (
    _kind("Binding", "v1", verbs=CREATE_ONLY),
    _kind("ConfigMap", "v1", cluster.ConfigMap, short="cm"),
    _kind("Endpoints", "v1", cluster.Endpoints, plural="endpoints", short="ep"),
    _kind("Event", "v1", short="ev"),
    _kind("LimitRange", "v1", short="limits"),
    _kind("Namespace", "v1", cluster.Namespace, namespaced=False, short="ns", parts=("status", "finalize")),
    _kind("Node", "v1", node.Node, namespaced=False, short="no", parts=_STATUS),
    _kind("PersistentVolumeClaim", "v1", storage.PersistentVolumeClaim, short="pvc", parts=_STATUS),
    _kind("PersistentVolume", "v1", storage.PersistentVolume, namespaced=False, short="pv", parts=_STATUS),
    _kind("Pod", "v1", pod.Pod, short="po", in_all=True, parts=_POD_PARTS),
    _kind("PodTemplate", "v1"),
    _kind("ReplicationController", "v1", workloads.ReplicationController, short="rc", in_all=True, parts=_SCALABLE),
    _kind("ResourceQuota", "v1", short="quota", parts=_STATUS),
    _kind("Secret", "v1"),
    _kind("ServiceAccount", "v1", cluster.ServiceAccount, short="sa", parts=("token",)),
    _kind("Service", "v1", cluster.Service, short="svc", in_all=True, parts=_STATUS),
    _kind("ControllerRevision", "apps/v1", workloads.ControllerRevision),
    _kind("DaemonSet", "apps/v1", workloads.DaemonSet, short="ds", in_all=True, parts=_STATUS),
    _kind("Deployment", "apps/v1", workloads.Deployment, short="deploy", in_all=True, parts=_SCALABLE),
    _kind("ReplicaSet", "apps/v1", workloads.ReplicaSet, short="rs", in_all=True, parts=_SCALABLE),
    _kind("StatefulSet", "apps/v1", workloads.StatefulSet, short="sts", in_all=True, parts=_SCALABLE),
    _kind("HorizontalPodAutoscaler", "autoscaling/v2", short="hpa", in_all=True, parts=_STATUS),
    _kind("HorizontalPodAutoscaler", "autoscaling/v1", short="hpa", in_all=True, parts=_STATUS),
    _kind("CronJob", "batch/v1", workloads.CronJob, short="cj", in_all=True, parts=_STATUS),
    _kind("Job", "batch/v1", workloads.Job, in_all=True, parts=_STATUS),
    _kind("PodDisruptionBudget", "policy/v1", cluster.PodDisruptionBudget, short="pdb", parts=_STATUS),
    _kind("CSIDriver", _STORAGE, storage.CSIDriver, namespaced=False),
    _kind("CSINode", _STORAGE, storage.CSINode, namespaced=False),
    _kind("CSIStorageCapacity", _STORAGE, storage.CSIStorageCapacity),
    _kind("StorageClass", _STORAGE, storage.StorageClass, namespaced=False, short="sc"),
    _kind("VolumeAttachment", _STORAGE, storage.VolumeAttachment, namespaced=False, parts=_STATUS),
    _kind("VolumeAttributesClass", _STORAGE, storage.VolumeAttributesClass, namespaced=False, short="vac"),
    _kind("PriorityClass", _SCHEDULING, cluster.PriorityClass, namespaced=False, short="pc"),
    _kind("PodGroup", _SCHEDULING, parts=_STATUS, gate=_GROUPS, since=(1, 38)),
    _kind("Workload", _SCHEDULING, gate=_GROUPS, since=(1, 38)),
    _kind("PodGroup", "scheduling.k8s.io/v1beta1", pod_groups.PodGroup, parts=_STATUS, gate=_GROUPS),
    _kind("Workload", "scheduling.k8s.io/v1beta1", pod_groups.Workload, gate=_GROUPS),
    _kind(
        "CompositePodGroup",
        "scheduling.k8s.io/v1alpha3",
        pod_groups.CompositePodGroup,
        parts=_STATUS,
        gate="CompositePodGroup",
    ),
    # The version of the beta API is not known yet: v1beta1 is an assumption.
    _kind("CompositePodGroup", "scheduling.k8s.io/v1beta1", parts=_STATUS, gate="CompositePodGroup", since=(1, 38)),
    _kind("PodGroup", "scheduling.k8s.io/v1alpha3", parts=_STATUS, gate=_GROUPS),
    _kind("Workload", "scheduling.k8s.io/v1alpha3", gate=_GROUPS),
    _kind("DeviceClass", _DEVICES, devices.DeviceClass, namespaced=False),
    _kind("DeviceTaintRule", _DEVICES, devices.DeviceTaintRule, namespaced=False, parts=_STATUS),
    _kind("ResourceClaim", _DEVICES, devices.ResourceClaim, parts=_STATUS),
    _kind("ResourceClaimTemplate", _DEVICES, devices.ResourceClaimTemplate),
    _kind("ResourceSlice", _DEVICES, devices.ResourceSlice, namespaced=False),
    _kind("Lease", "coordination.k8s.io/v1", records.Lease),
    _kind("LeaseCandidate", "coordination.k8s.io/v1beta1", records.LeaseCandidate, gate="CoordinatedLeaderElection"),
    _kind("EndpointSlice", "discovery.k8s.io/v1", cluster.EndpointSlice),
    _kind("IPAddress", "networking.k8s.io/v1", namespaced=False, short="ip"),
    _kind("IngressClass", "networking.k8s.io/v1", namespaced=False),
    _kind("Ingress", "networking.k8s.io/v1", short="ing", parts=_STATUS),
    _kind("NetworkPolicy", "networking.k8s.io/v1", short="netpol"),
    _kind("ServiceCIDR", "networking.k8s.io/v1", namespaced=False, parts=_STATUS),
    _kind("RuntimeClass", "node.k8s.io/v1", namespaced=False),
    _kind("Event", "events.k8s.io/v1", records.Event, short="ev"),
    _kind("ClusterRoleBinding", f"{RBAC}/v1", namespaced=False),
    _kind("ClusterRole", f"{RBAC}/v1", namespaced=False),
    _kind("RoleBinding", f"{RBAC}/v1"),
    _kind("Role", f"{RBAC}/v1"),
    _kind("CustomResourceDefinition", _EXTENSIONS, namespaced=False, short="crd crds", parts=_STATUS),
    _kind("MutatingAdmissionPolicyBinding", _ADMISSION, namespaced=False),
    _kind("MutatingAdmissionPolicy", _ADMISSION, namespaced=False),
    _kind("MutatingWebhookConfiguration", _ADMISSION, namespaced=False),
    _kind("ValidatingAdmissionPolicyBinding", _ADMISSION, namespaced=False),
    _kind("ValidatingAdmissionPolicy", _ADMISSION, namespaced=False, parts=_STATUS),
    _kind("ValidatingWebhookConfiguration", _ADMISSION, namespaced=False),
    _kind("APIService", "apiregistration.k8s.io/v1", namespaced=False, parts=_STATUS),
    _kind(
        "CertificateSigningRequest",
        "certificates.k8s.io/v1",
        namespaced=False,
        short="csr",
        parts=("approval", "status"),
    ),
    _kind("FlowSchema", _FAIRNESS, namespaced=False, parts=_STATUS),
    _kind("PriorityLevelConfiguration", _FAIRNESS, namespaced=False, parts=_STATUS),
    _kind("SelfSubjectReview", _LOGINS, namespaced=False, verbs=CREATE_ONLY),
    _kind("TokenReview", _LOGINS, namespaced=False, verbs=CREATE_ONLY),
    _kind("LocalSubjectAccessReview", _REVIEWS, verbs=CREATE_ONLY),
    _kind("SelfSubjectAccessReview", _REVIEWS, namespaced=False, verbs=CREATE_ONLY),
    _kind("SelfSubjectRulesReview", _REVIEWS, namespaced=False, verbs=CREATE_ONLY),
    _kind("SubjectAccessReview", _REVIEWS, namespaced=False, verbs=CREATE_ONLY),
)

BY_NAME: Final[dict[str, Kind]] = {kind.name: kind for kind in KINDS if kind.has_struct}
BY_TYPE: Final[dict[type[KubeObject], Kind]] = {kind.type: kind for kind in BY_NAME.values()}

_STABILITY: Final = ("alpha", "beta")


def _stability(kind: Kind) -> int:
    """Return how stable a version is. All versions of a group are treated as one generation."""
    return next((rank for rank, word in enumerate(_STABILITY) if word in kind.version), len(_STABILITY))


def _versions(decoded: Kind) -> tuple[Kind, ...]:
    all_versions = (kind for kind in KINDS if (kind.group, kind.name) == (decoded.group, decoded.name))
    newer = [replace(kind, type=decoded.type) for kind in all_versions if _stability(kind) > _stability(decoded)]
    return (*sorted(newer, key=_stability, reverse=True), decoded) if newer else ()


VERSIONS: Final[dict[Kind, tuple[Kind, ...]]] = {kind: found for kind in BY_NAME.values() if (found := _versions(kind))}
"""The versions of a kind that are read, for kinds that have several: the most stable first, the decoded one last.

A kind keeps its fields when it becomes more stable, so one struct is sufficient. Older versions are not read.
"""

BUILT_IN: Final = frozenset(BY_TYPE)
"""The structs of built-in kinds; structs added by plugins represent custom resources."""


def add_kind(kind: Kind) -> None:
    """Register a kind of a plugin, so that the scheduler can list and watch it.

    Raise ValueError if its struct is already registered for another kind.
    """
    if not kind.has_struct:
        raise ValueError(f"{kind.name} needs its own type: create it with custom_kind, or pass a struct")
    registered = BY_TYPE.setdefault(kind.type, kind)
    if registered != kind:
        raise ValueError(
            f"{kind.type.__name__} is already registered for {registered.plural} in {registered.api_version}"
        )


def find_kind(kind: type[KubeObject]) -> Kind:
    """Return the kind of a struct. Raise TypeError with a hint if it is not registered."""
    registered = BY_TYPE.get(kind)
    if registered is None:
        if isinstance(kind, Kind):
            raise TypeError(f"{kind.name} is a Kind: pass its `.type`")
        name = getattr(kind, "__name__", repr(kind))
        raise TypeError(f"{name} is not registered for a kind: register it with custom_kind({name!r}, …, type={name})")
    return registered
