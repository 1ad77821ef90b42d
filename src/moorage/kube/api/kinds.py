"""The one table of kinds: how each is called, where it lives in the API, what can be done with it, and its struct."""

import re
from typing import Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from moorage.kube.api.cluster import (
    ConfigMap,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    Service,
    ServiceAccount,
)
from moorage.kube.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup, Workload
from moorage.kube.api.records import Event, Lease, LeaseCandidate
from moorage.kube.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from moorage.kube.api.workloads import (
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._~-]+").fullmatch


def _collection(group: str, version: str, namespace: str, plural: str) -> str:
    root = _root(group, version)
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


_StructType: TypeAlias = type[KubeObject]  # inside the class, `type` is the field
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY: Final = ("create",)


class Kind(Struct, frozen=True):
    """A kind of object in one version of its group.

    ``type`` is the struct it decodes into. It is :class:`KubeObject` for kinds of which only metadata is read and for
    versions that are not decoded. ``gate`` is the feature gate that enables the kind.
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
        """Return where the API of this kind's group begins."""
        return _root(self.group, self.version)

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """Return where one object lives, or all of a namespace, or all.

        >>> BY_NAME["Pod"].path("web", "shop", "binding")
        '/api/v1/namespaces/shop/pods/web/binding'
        """
        path = _collection(self.group, self.version, namespace, self.plural)
        if name:
            # A pod costs two requests, and its name never needs quoting.
            path = f"{path}/{name if _PLAIN_NAME(name) else quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


_STORAGE: Final = "storage.k8s.io"
_DEVICES: Final = "resource.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"
_REVIEWS: Final = "authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_FAIRNESS: Final = "flowcontrol.apiserver.k8s.io"
_EXTENSIONS: Final = "apiextensions.k8s.io"
_LOGINS: Final = "authentication.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
_ALL: Final = ("all",)
_STATUS: Final = ("status",)
_SCALABLE: Final = ("status", "scale")
_GROUPS: Final = "GenericWorkload"
_POD_PARTS: Final = ("status", "binding", "eviction", "ephemeralcontainers", "resize")

KINDS: Final[tuple[Kind, ...]] = (
    Kind("Binding", "", "v1", "bindings", verbs=CREATE_ONLY),
    Kind("ConfigMap", "", "v1", "configmaps", True, ConfigMap, ("cm",)),
    Kind("Endpoints", "", "v1", "endpoints", short_names=("ep",)),
    Kind("Event", "", "v1", "events", short_names=("ev",)),
    Kind("LimitRange", "", "v1", "limitranges", short_names=("limits",)),
    Kind("Namespace", "", "v1", "namespaces", False, Namespace, ("ns",), subresources=("status", "finalize")),
    Kind("Node", "", "v1", "nodes", False, Node, ("no",), subresources=_STATUS),
    Kind(
        "PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim, ("pvc",), (), _STATUS
    ),
    Kind("PersistentVolume", "", "v1", "persistentvolumes", False, PersistentVolume, ("pv",), subresources=_STATUS),
    Kind("Pod", "", "v1", "pods", True, Pod, ("po",), _ALL, _POD_PARTS),
    Kind("PodTemplate", "", "v1", "podtemplates"),
    Kind(
        "ReplicationController",
        "",
        "v1",
        "replicationcontrollers",
        True,
        ReplicationController,
        ("rc",),
        _ALL,
        _SCALABLE,
    ),
    Kind("ResourceQuota", "", "v1", "resourcequotas", short_names=("quota",), subresources=_STATUS),
    Kind("Secret", "", "v1", "secrets"),
    Kind("ServiceAccount", "", "v1", "serviceaccounts", True, ServiceAccount, ("sa",)),
    Kind("Service", "", "v1", "services", True, Service, ("svc",), _ALL, _STATUS),
    Kind("ControllerRevision", "apps", "v1", "controllerrevisions", True, ControllerRevision),
    Kind("DaemonSet", "apps", "v1", "daemonsets", True, DaemonSet, ("ds",), _ALL, _STATUS),
    Kind("Deployment", "apps", "v1", "deployments", True, Deployment, ("deploy",), _ALL, _SCALABLE),
    Kind("ReplicaSet", "apps", "v1", "replicasets", True, ReplicaSet, ("rs",), _ALL, _SCALABLE),
    Kind("StatefulSet", "apps", "v1", "statefulsets", True, StatefulSet, ("sts",), _ALL, _SCALABLE),
    Kind(
        "HorizontalPodAutoscaler",
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
    ),
    Kind("CronJob", "batch", "v1", "cronjobs", True, CronJob, ("cj",), _ALL, _STATUS),
    Kind("Job", "batch", "v1", "jobs", True, Job, categories=_ALL, subresources=_STATUS),
    Kind(
        "PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", True, PodDisruptionBudget, ("pdb",), (), _STATUS
    ),
    Kind("CSIDriver", _STORAGE, "v1", "csidrivers", False, CSIDriver),
    Kind("CSINode", _STORAGE, "v1", "csinodes", False, CSINode),
    Kind("CSIStorageCapacity", _STORAGE, "v1", "csistoragecapacities", True, CSIStorageCapacity),
    Kind("StorageClass", _STORAGE, "v1", "storageclasses", False, StorageClass, ("sc",)),
    Kind("VolumeAttachment", _STORAGE, "v1", "volumeattachments", False, VolumeAttachment, subresources=_STATUS),
    Kind("VolumeAttributesClass", _STORAGE, "v1", "volumeattributesclasses", False, short_names=("vac",)),
    Kind("PriorityClass", _SCHEDULING, "v1", "priorityclasses", False, PriorityClass, ("pc",)),
    Kind("PodGroup", _SCHEDULING, "v1beta1", "podgroups", True, PodGroup, subresources=_STATUS, gate=_GROUPS),
    Kind("Workload", _SCHEDULING, "v1beta1", "workloads", True, Workload, gate=_GROUPS),
    Kind(
        "CompositePodGroup",
        _SCHEDULING,
        "v1alpha3",
        "compositepodgroups",
        True,
        CompositePodGroup,
        subresources=_STATUS,
        gate="CompositePodGroup",
    ),
    Kind("PodGroup", _SCHEDULING, "v1alpha3", "podgroups", subresources=_STATUS, gate=_GROUPS),
    Kind("Workload", _SCHEDULING, "v1alpha3", "workloads", gate=_GROUPS),
    Kind("DeviceClass", _DEVICES, "v1", "deviceclasses", False, DeviceClass),
    Kind("DeviceTaintRule", _DEVICES, "v1", "devicetaintrules", False, DeviceTaintRule, subresources=_STATUS),
    Kind("ResourceClaim", _DEVICES, "v1", "resourceclaims", True, ResourceClaim, subresources=_STATUS),
    Kind("ResourceClaimTemplate", _DEVICES, "v1", "resourceclaimtemplates", True, ResourceClaimTemplate),
    Kind("ResourceSlice", _DEVICES, "v1", "resourceslices", False, ResourceSlice),
    Kind("Lease", "coordination.k8s.io", "v1", "leases", True, Lease),
    Kind(
        "LeaseCandidate",
        "coordination.k8s.io",
        "v1beta1",
        "leasecandidates",
        True,
        LeaseCandidate,
        gate="CoordinatedLeaderElection",
    ),
    Kind("EndpointSlice", "discovery.k8s.io", "v1", "endpointslices"),
    Kind("IPAddress", "networking.k8s.io", "v1", "ipaddresses", False, short_names=("ip",)),
    Kind("IngressClass", "networking.k8s.io", "v1", "ingressclasses", False),
    Kind("Ingress", "networking.k8s.io", "v1", "ingresses", short_names=("ing",), subresources=_STATUS),
    Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", short_names=("netpol",)),
    Kind("ServiceCIDR", "networking.k8s.io", "v1", "servicecidrs", False, subresources=_STATUS),
    Kind("RuntimeClass", "node.k8s.io", "v1", "runtimeclasses", False),
    Kind("Event", "events.k8s.io", "v1", "events", True, Event, ("ev",)),
    Kind("ClusterRoleBinding", RBAC, "v1", "clusterrolebindings", False),
    Kind("ClusterRole", RBAC, "v1", "clusterroles", False),
    Kind("RoleBinding", RBAC, "v1", "rolebindings"),
    Kind("Role", RBAC, "v1", "roles"),
    Kind(
        "CustomResourceDefinition",
        _EXTENSIONS,
        "v1",
        "customresourcedefinitions",
        False,
        short_names=("crd", "crds"),
        subresources=_STATUS,
    ),
    Kind("MutatingAdmissionPolicyBinding", _ADMISSION, "v1", "mutatingadmissionpolicybindings", False),
    Kind("MutatingAdmissionPolicy", _ADMISSION, "v1", "mutatingadmissionpolicies", False),
    Kind("MutatingWebhookConfiguration", _ADMISSION, "v1", "mutatingwebhookconfigurations", False),
    Kind("ValidatingAdmissionPolicyBinding", _ADMISSION, "v1", "validatingadmissionpolicybindings", False),
    Kind("ValidatingAdmissionPolicy", _ADMISSION, "v1", "validatingadmissionpolicies", False, subresources=_STATUS),
    Kind("ValidatingWebhookConfiguration", _ADMISSION, "v1", "validatingwebhookconfigurations", False),
    Kind("APIService", "apiregistration.k8s.io", "v1", "apiservices", False, subresources=_STATUS),
    Kind(
        "CertificateSigningRequest",
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        False,
        short_names=("csr",),
        subresources=("approval", "status"),
    ),
    Kind("FlowSchema", _FAIRNESS, "v1", "flowschemas", False, subresources=_STATUS),
    Kind("PriorityLevelConfiguration", _FAIRNESS, "v1", "prioritylevelconfigurations", False, subresources=_STATUS),
    Kind("SelfSubjectReview", _LOGINS, "v1", "selfsubjectreviews", False, verbs=CREATE_ONLY),
    Kind("TokenReview", _LOGINS, "v1", "tokenreviews", False, verbs=CREATE_ONLY),
    Kind("LocalSubjectAccessReview", _REVIEWS, "v1", "localsubjectaccessreviews", verbs=CREATE_ONLY),
    Kind("SelfSubjectAccessReview", _REVIEWS, "v1", "selfsubjectaccessreviews", False, verbs=CREATE_ONLY),
    Kind("SelfSubjectRulesReview", _REVIEWS, "v1", "selfsubjectrulesreviews", False, verbs=CREATE_ONLY),
    Kind("SubjectAccessReview", _REVIEWS, "v1", "subjectaccessreviews", False, verbs=CREATE_ONLY),
)

BY_NAME: Final[dict[str, Kind]] = {kind.name: kind for kind in KINDS if kind.has_struct}
BY_TYPE: Final[dict[type[KubeObject], Kind]] = {kind.type: kind for kind in BY_NAME.values()}

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
        raise ValueError(f"{kind.type.__name__} stands for {registered.plural} in {registered.api_version} already")


def kind_of(kind: type[KubeObject]) -> Kind:
    """Return the kind of a struct; raise TypeError with a hint if it is not registered."""
    registered = BY_TYPE.get(kind)
    if registered is None:
        if isinstance(kind, Kind):
            raise TypeError(f"{kind.name} is given as a Kind: write its `.type`")
        name = getattr(kind, "__name__", repr(kind))
        raise TypeError(f"{name} is not registered for a kind: register it with custom_kind({name!r}, …, type={name})")
    return registered
