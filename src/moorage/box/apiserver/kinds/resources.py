"""What the server serves: every resource with its names, scope and subresources, and the custom ones defined later."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from moorage.api.kinds import KINDS
from moorage.api.meta import KubeObject

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY: Final = ("create",)


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one API version.

    ``storage`` is where its objects are kept: events are kept once and served in two groups.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage: str = ""
    struct: type[KubeObject] | None = None
    is_custom: bool = False
    converts: bool = False

    @property
    def api_version(self) -> str:
        """Return what stands in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """Return the resource with its group, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Return the name of a single one."""
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        """Whether the status is written through a subresource of its own."""
        return "status" in self.subresources

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the store."""
        return f"{namespace}/{name}" if self.namespaced else name


STATUS: Final = ("status",)
SCALABLE: Final = ("status", "scale")
APPS: Final = "apps"
SCALING: Final = "autoscaling"
STORAGE: Final = "storage.k8s.io"
DEVICES: Final = "resource.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
SCHEDULING: Final = "scheduling.k8s.io"
REVIEWS: Final = "authorization.k8s.io"
EXTENSIONS: Final = "apiextensions.k8s.io"
POD_PARTS: Final = ("status", "binding", "eviction", "ephemeralcontainers", "resize")

BUILT_IN: Final[tuple[Resource, ...]] = (
    Resource("", "v1", "bindings", "Binding", verbs=CREATE_ONLY),
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    Resource("", "v1", "events", "Event", short_names=("ev",)),
    Resource("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Resource("", "v1", "namespaces", "Namespace", False, ("ns",), subresources=("status", "finalize")),
    Resource("", "v1", "nodes", "Node", False, ("no",), subresources=STATUS),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=STATUS),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), subresources=STATUS),
    Resource("", "v1", "pods", "Pod", True, ("po",), ("all",), POD_PARTS),
    Resource("", "v1", "podtemplates", "PodTemplate"),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", True, ("rc",), ("all",), SCALABLE),
    Resource("", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=STATUS),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Resource("", "v1", "services", "Service", True, ("svc",), ("all",), STATUS),
    Resource(APPS, "v1", "controllerrevisions", "ControllerRevision"),
    Resource(APPS, "v1", "daemonsets", "DaemonSet", True, ("ds",), ("all",), STATUS),
    Resource(APPS, "v1", "deployments", "Deployment", True, ("deploy",), ("all",), SCALABLE),
    Resource(APPS, "v1", "replicasets", "ReplicaSet", True, ("rs",), ("all",), SCALABLE),
    Resource(APPS, "v1", "statefulsets", "StatefulSet", True, ("sts",), ("all",), SCALABLE),
    Resource(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",), ("all",), STATUS
    ),
    Resource("batch", "v1", "cronjobs", "CronJob", True, ("cj",), ("all",), STATUS),
    Resource("batch", "v1", "jobs", "Job", True, (), ("all",), STATUS),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), subresources=STATUS),
    Resource(STORAGE, "v1", "csidrivers", "CSIDriver", False),
    Resource(STORAGE, "v1", "csinodes", "CSINode", False),
    Resource(STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity"),
    Resource(STORAGE, "v1", "storageclasses", "StorageClass", False, ("sc",)),
    Resource(STORAGE, "v1", "volumeattachments", "VolumeAttachment", False, subresources=STATUS),
    Resource(STORAGE, "v1", "volumeattributesclasses", "VolumeAttributesClass", False, ("vac",)),
    Resource(SCHEDULING, "v1", "priorityclasses", "PriorityClass", False, ("pc",)),
    Resource(SCHEDULING, "v1beta1", "podgroups", "PodGroup", subresources=STATUS),
    Resource(SCHEDULING, "v1beta1", "workloads", "Workload"),
    Resource(DEVICES, "v1", "deviceclasses", "DeviceClass", False),
    Resource(DEVICES, "v1", "devicetaintrules", "DeviceTaintRule", False, subresources=STATUS),
    Resource(DEVICES, "v1", "resourceclaims", "ResourceClaim", subresources=STATUS),
    Resource(DEVICES, "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource(DEVICES, "v1", "resourceslices", "ResourceSlice", False),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False),
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress", True, ("ing",), subresources=STATUS),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True, ("netpol",)),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Resource("events.k8s.io", "v1", "events", "Event", short_names=("ev",), storage="events"),
    Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Resource(RBAC, "v1", "clusterroles", "ClusterRole", False),
    Resource(RBAC, "v1", "rolebindings", "RoleBinding"),
    Resource(RBAC, "v1", "roles", "Role"),
    Resource(EXTENSIONS, "v1", "customresourcedefinitions", "CustomResourceDefinition", False, ("crd", "crds")),
    Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=CREATE_ONLY),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=CREATE_ONLY),
    Resource(REVIEWS, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE_ONLY),
    Resource(REVIEWS, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=CREATE_ONLY),
    Resource(REVIEWS, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, verbs=CREATE_ONLY),
    Resource(REVIEWS, "v1", "subjectaccessreviews", "SubjectAccessReview", False, verbs=CREATE_ONLY),
)

_TYPES: Final = {(kind.group, kind.version, kind.plural): kind.type for kind in KINDS}


class Resources:
    """The resources there are now, by where they are asked for; custom ones come and go."""

    def __init__(self, built_in: Iterable[Resource] = BUILT_IN) -> None:
        self._known: dict[tuple[str, str, str], Resource] = {}
        self._custom: dict[str, tuple[Resource, ...]] = {}
        for resource in built_in:
            kind = _TYPES.get((resource.group, resource.version, resource.plural))
            stored = replace(resource, storage=resource.storage or resource.full_name, struct=kind)
            self._known[resource.group, resource.version, resource.plural] = stored
        self.changes = 0

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource served under a path, if there is one."""
        return self._known.get((group, version, plural))

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._known.values())

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource whose objects are of a kind."""
        found = (item for item in self if item.kind == kind and item.api_version == api_version)
        return next(found, None)

    def define(self, definition: str, resources: Iterable[Resource]) -> None:
        """Serve the versions of a custom resource definition instead of those it had before."""
        self.withdraw(definition)
        added = tuple(resources)
        self._custom[definition] = added
        self._known.update({(item.group, item.version, item.plural): item for item in added})
        self.changes += 1

    def withdraw(self, definition: str) -> None:
        """Serve a custom resource no more."""
        for item in self._custom.pop(definition, ()):
            del self._known[item.group, item.version, item.plural]
        self.changes += 1

    def groups(self) -> dict[str, list[str]]:
        """Return the API groups and their versions, the core group first."""
        groups: dict[str, list[str]] = {}
        for item in self:
            versions = groups.setdefault(item.group, [])
            if item.version not in versions:
                versions.append(item.version)
        return groups
