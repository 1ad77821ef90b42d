"""Cluster files: typed objects in order of appearance, as an API server would have stored them.

>>> pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
>>> cluster = build_cluster_input([pod])
>>> [obj.key for obj in cluster.objects], cluster.pending[0].uid
(['default/a', 'default'], 'uid-0')
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.cluster.files.custom import CustomInput, added_kinds, custom_object, kind_name
from moorage.cluster.files.workloads import (
    SELECTING,
    WORKLOADS,
    PodSource,
    WorkloadAdmission,
    example_pod,
    keep_as_given,
    makes_pods,
    pods_wanted,
    selecting_only,
)
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError, describe_decode_error, describe_mismatch, did_you_mean
from moorage.kube.admission.defaults import default_namespace, default_pod, with_defaults
from moorage.kube.admission.group_admission import GroupAdmission
from moorage.kube.admission.pod_admission import PodAdmission
from moorage.kube.admission.validation import find_problems
from moorage.kube.api.cluster import Namespace, PriorityClass
from moorage.kube.api.codec import convert
from moorage.kube.api.kinds import BY_NAME, Kind
from moorage.kube.api.meta import KubeObject, ObjectMeta, format_time, parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.originals import pod_adapter
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.kube.api.workloads import AppsWorkload, ReplicationController
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document, to_documents

#: When the first object of an input was created. Each object is a second younger than its predecessor.
EPOCH: Final = VirtualClock().now()
DEFAULT_NAMESPACE: Final = "default"
MAX_NAME: Final = 253

#: Kubernetes' own kinds without effect on scheduling: a dump of a live cluster may contain them.
IGNORED_KINDS: Final = frozenset(
    (
        *("Binding", "ConfigMap", "Endpoints", "EndpointSlice", "Event", "LimitRange", "PodTemplate", "ResourceQuota"),
        *("ControllerRevision", "HorizontalPodAutoscaler", "Lease", "RuntimeClass"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "ServiceAccount"),
        *("Ingress", "IngressClass", "NetworkPolicy", "VolumeAttributesClass"),
    )
)
#: Kinds that change the pods of workloads: they are stored if there are workloads.
SHAPING_KINDS: Final = frozenset(("LimitRange", "ResourceQuota", "RuntimeClass"))
#: The shape of device claims and slices changed after these versions.
_OLD_DEVICE_APIS: Final = tuple(f"resource.k8s.io/{old}" for old in ("v1alpha1", "v1alpha2", "v1alpha3", "v1beta1"))
_OWN_GROUPS: Final = frozenset({kind.group for kind in BY_NAME.values()} | {"", "autoscaling", "extensions"})
_DEFAULT_GATES: Final = FeatureGates()
T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True)
class ClusterInput:
    """A cluster from input files: all objects in order of appearance, followed by namespaces that are only referenced.

    ``custom`` has the custom resources as plain data, and ``definitions`` their definitions. ``shaping`` has the
    objects that change the pods of workloads. ``ignored`` counts the ignored kinds. ``selecting`` explains why some
    workloads create no pods: the scheduler only reads their selectors.
    """

    objects: tuple[KubeObject, ...]
    custom: tuple[Mapping[str, Any], ...] = ()
    definitions: tuple[Mapping[str, Any], ...] = ()
    shaping: tuple[Mapping[str, Any], ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    selecting: Mapping[str, str] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Rejected attempts of controllers to create pods for the workloads, in one pass."""

    def of(self, kind: type[T]) -> tuple[T, ...]:
        """Return the objects of the same kind, in order of appearance."""
        return tuple(obj for obj in self.objects if isinstance(obj, kind))

    def custom_objects(self) -> tuple[KubeObject, ...]:
        """Return the custom resources of the kinds that plugins have added by now."""
        kinds = added_kinds()
        pairs = ((kinds.get(kind_name(content)), content) for content in self.custom)
        return tuple(custom_object(kind, content) for kind, content in pairs if kind is not None)

    @cached_property
    def now(self) -> float:
        """A time after all times in the input; pods without a start time start now, as the last ones."""
        return max((moment for obj in self.objects for moment in _moments(obj)), default=EPOCH) + 1.0

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes."""
        return self.of(Node)

    @cached_property
    def workloads(self) -> tuple[PodSource, ...]:
        """Workloads that create pods. A workload without a template only selects pods."""
        return tuple(obj for obj in self.objects if isinstance(obj, WORKLOADS) and makes_pods(obj))

    @cached_property
    def expected_pods(self) -> int:
        """Approximate number of pods that need a node: pending pods, and the replicas of workloads."""
        return len(self.pending) + sum(pods_wanted(workload, len(self.nodes)) for workload in self.workloads)

    @cached_property
    def running(self) -> tuple[Pod, ...]:
        """The pods that have a node and have not ended."""
        return tuple(pod for pod in self.of(Pod) if pod.node_name and not pod.is_finished)

    @cached_property
    def waiting(self) -> tuple[Pod, ...]:
        """The pods that have neither a node nor an end; one that is being deleted keeps its nomination."""
        return tuple(pod for pod in self.of(Pod) if not (pod.node_name or pod.is_finished))

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """The pending pods that are not being deleted."""
        return tuple(pod for pod in self.waiting if not pod.is_terminating)


def _moments(obj: KubeObject) -> Iterator[float]:
    metadata = obj.metadata
    started = obj.status.start_time if isinstance(obj, Pod) else None
    for text in (metadata.creation_timestamp, metadata.deletion_timestamp, started):
        if text is not None:
            yield parse_time(text)


def cluster_from_documents(documents: Iterable[Document], *, features: FeatureGates = _DEFAULT_GATES) -> ClusterInput:
    """Create a cluster from documents."""
    return Creation(features).create(documents)


def build_cluster_input(
    contents: Iterable[Any], *, features: FeatureGates = _DEFAULT_GATES, source: str = "the input"
) -> ClusterInput:
    """Create a cluster from objects as plain data."""
    return Creation(features).create(to_documents(contents, source=source))


class Creation:
    """Creates the objects of an input in order, and later single objects after changes.

    ``runs_workloads``: controllers will create pods from the workloads, so an API server must be able to admit them.
    """

    def __init__(self, features: FeatureGates = _DEFAULT_GATES, *, runs_workloads: bool = True) -> None:
        self._features = features
        self._runs_workloads = runs_workloads
        self._count = 0
        self._locations: dict[tuple[str, str], str] = {}
        self._workloads = WorkloadAdmission(features)
        self._custom = CustomInput()
        self._shaping: list[Mapping[str, Any]] = []
        self._ignored: Counter[str] = Counter()
        self._selecting: dict[str, str] = {}
        self._groups = GroupAdmission(features)

    def create(self, documents: Iterable[Document]) -> ClusterInput:
        """Create all objects of some documents; InputError for the first invalid one."""
        created: list[tuple[KubeObject, Document]] = []
        for document in documents:
            kind = _find_kind(document)
            if kind is None:
                self._keep_aside(document)
            else:
                obj = self._identify(_decode(document, kind), kind)
                self._check_unique(obj, kind, document)
                created.append((self._complete(obj, document), document))
            self._count += 1
        # Priority classes may follow the pods that name them.
        classes = [obj for obj, _ in created if isinstance(obj, PriorityClass)]
        admission, adapt = PodAdmission(classes, self._features), pod_adapter(self._features)
        objects = keep_as_given(self._admit(admission, obj, document) for obj, document in created)
        if adapt is not None:
            objects = [adapt(obj) if isinstance(obj, Pod) else obj for obj in objects]
        objects += self._missing_namespaces(objects)
        cluster = ClusterInput(tuple(objects), *self._custom.completed())
        # Without workloads, these kinds create no objects; runtime classes explain the node selectors of pods.
        shaping = tuple(item for item in self._shaping if cluster.workloads or item["kind"] == "RuntimeClass")
        self._ignored.update(str(item["kind"]) for item in self._shaping if item not in shaping)
        return with_fields(cluster, shaping=shaping, ignored=dict(self._ignored), selecting=self._selecting)

    def create_one(
        self, document: Document, like: KubeObject | None, classes: Iterable[PriorityClass]
    ) -> KubeObject | None:
        """Create an object, or recreate it with its previous identity. Return ``None`` if its kind is unknown."""
        kind = _find_kind(document)
        if kind is None:
            return None
        decoded = _decode(document, kind)
        if like is not None:
            was = like.metadata
            metadata = replace(decoded.metadata, uid=was.uid, creation_timestamp=was.creation_timestamp)
            decoded = replace(decoded, metadata=metadata)
        self._count += 1
        obj = self._complete(self._identify(decoded, kind), document)
        if not isinstance(obj, Pod | PodGroup | CompositePodGroup):
            return obj
        admitted = self._admit(PodAdmission(classes, self._features), obj, document)
        adapt = pod_adapter(self._features)
        return adapt(admitted) if adapt is not None and isinstance(admitted, Pod) else admitted

    def _complete(self, obj: KubeObject, document: Document) -> KubeObject:
        _check(obj, lambda: document.title)
        if not self._runs_workloads or not isinstance(obj, WORKLOADS):
            return with_defaults(obj)
        if not isinstance(obj, SELECTING):
            return self._workloads.admit(obj, document.content, document.title)
        # The scheduler reads the selector, even if the workload is invalid.
        if makes_pods(obj):
            try:
                return self._workloads.admit(obj, document.content, document.title)
            except InputError as error:
                self._selecting[document.title] = error.problem
        return selecting_only(with_defaults(obj))

    def _admit(self, admission: PodAdmission, obj: KubeObject, document: Document) -> KubeObject:
        if self._runs_workloads and isinstance(obj, WORKLOADS) and makes_pods(obj):
            _check_template(admission, obj, document)
        try:
            if isinstance(obj, PodGroup):
                return self._groups.admit(obj, admission)
            if isinstance(obj, CompositePodGroup):
                return self._groups.admit(obj, admission)
            return admission.admit(obj) if isinstance(obj, Pod) else obj
        except InputError as error:
            raise InputError(f"{document.title}, {error.where}", error.problem, hint=error.hint) from error

    def _keep_aside(self, document: Document) -> None:
        group = document.api_version.rpartition("/")[0]
        is_own = group in _OWN_GROUPS or group.endswith(".k8s.io")
        metadata = document.content.get("metadata")
        own_metadata = metadata if isinstance(metadata, dict) else {}
        identity = {"uid": self._uid, "creationTimestamp": self._created, "resourceVersion": str(self._count + 1)}
        content = {**document.content, "metadata": {**identity, **own_metadata}}
        if is_own and document.kind in SHAPING_KINDS and own_metadata.get("name"):
            self._shaping.append(content)
        elif is_own and document.kind in IGNORED_KINDS:
            self._ignored[document.kind] += 1
        else:
            self._custom.add(content, document.title)

    @property
    def _uid(self) -> str:
        return f"uid-{self._count}"

    @property
    def _created(self) -> str:
        return format_time(EPOCH + self._count)

    def _identify(self, obj: T, kind: Kind) -> T:
        original = obj.metadata
        metadata = replace(
            original,
            namespace=(original.namespace or DEFAULT_NAMESPACE) if kind.namespaced else "",
            uid=original.uid or self._uid,
            creation_timestamp=original.creation_timestamp or self._created,
            resource_version=str(self._count + 1),
        )
        return replace(obj, metadata=metadata)

    def _check_unique(self, obj: KubeObject, kind: Kind, document: Document) -> None:
        first = self._locations.setdefault((kind.name, obj.key), document.source)
        if first != document.source:
            problem = f"{kind.name} {obj.key!r} is already defined in {first}"
            raise InputError(document.source, problem, hint="remove one of them, or name it differently")

    def _missing_namespaces(self, objects: Iterable[KubeObject]) -> list[Namespace]:
        existing = {"", *(obj.name for obj in objects if isinstance(obj, Namespace))}
        namespaces = []
        for name in dict.fromkeys(obj.namespace for obj in objects if obj.namespace not in existing):
            namespace = Namespace(ObjectMeta(name=name))
            namespaces.append(default_namespace(self._identify(namespace, BY_NAME["Namespace"])))
            self._count += 1
        return namespaces


def _check_template(admission: PodAdmission, workload: PodSource, document: Document) -> None:
    """Reject a template that cannot produce a valid pod: the controllers would retry forever."""
    where = f"{document.title}, the pod template"
    try:
        pod = example_pod(workload)
        _check(pod, lambda: where)
        admission.admit(default_pod(pod))
    except msgspec.ValidationError as error:
        raise InputError(where, describe_decode_error(error)) from error
    except InputError as error:
        location = error.where if error.where.startswith(where) else f"{where}, {error.where}"
        raise InputError(location, error.problem, hint=error.hint) from error


def _check(obj: KubeObject, title: Callable[[], str]) -> None:
    for problem in find_problems(obj):
        raise InputError(f"{title()}, {problem.path}", problem.text, hint=problem.hint)


def _find_kind(document: Document) -> Kind | None:
    """Find the kind by group and name. Return ``None`` for custom resources and unwatched kinds."""
    name, api_version = document.kind, document.api_version
    if not name or not api_version:
        missing_fields = " and ".join(key for key, value in (("apiVersion", api_version), ("kind", name)) if not value)
        raise InputError(
            document.title,
            f"this is not a Kubernetes object: it has no {missing_fields}",
            hint="every object needs apiVersion, kind and metadata.name",
        )
    group = api_version.rpartition("/")[0]
    if group not in _OWN_GROUPS or name in IGNORED_KINDS:
        return None
    kind = BY_NAME.get(name)
    if kind is None:
        read = [kind_name for kind_name in BY_NAME if kind_name not in IGNORED_KINDS]
        hint = did_you_mean(name, [*BY_NAME, *IGNORED_KINDS]) or f"supported kinds: {', '.join(read)}"
        raise InputError(document.title, f"{api_version} has no kind {name!r}", hint=hint)
    if kind.group != group or (api_version in _OLD_DEVICE_APIS and name != "DeviceTaintRule"):
        problem = f"apiVersion {api_version!r} does not fit a {name}"
        raise InputError(document.title, problem, hint=f"write apiVersion: {kind.api_version}")
    return kind


def _decode(document: Document, kind: Kind) -> KubeObject:
    try:
        obj = convert(kind.type, document.content)
        if isinstance(obj, AppsWorkload | ReplicationController):
            _ = obj.spec.template  # stored as JSON; access decodes and checks it
    except msgspec.ValidationError as error:
        location, problem = describe_mismatch(error)
        path, quoted = _locate(document.content, location, str(error))
        raise InputError(f"{document.title}, {path}" if path else document.title, f"{problem}{quoted}") from error
    _check_name(obj, document)
    return obj


_STEP: Final = re.compile(r"\[\.\.\.\]|\[(\d+)\]|([^.\[\]]+)")


def _check_name(obj: KubeObject, document: Document) -> None:
    if not obj.name:
        raise InputError(
            f"{document.title}, metadata.name",
            "the object has no name",
            hint="set metadata.name; generateName is not supported",
        )
    if (length := max(len(obj.name), len(obj.namespace))) > MAX_NAME:
        problem = f"a name or namespace of {length:,} characters"
        raise InputError(f"{document.title}, metadata", problem, hint=f"write at most {MAX_NAME}")


def _locate(content: Any, path: str, text: str) -> tuple[str, str]:
    """Follow msgspec's path into the document, replace ``[...]`` by the actual key, and quote the value."""
    walked = ""
    for step in _STEP.finditer(path):
        if step[1] is not None:
            content, walked = content[int(step[1])], f"{walked}[{step[1]}]"
        else:
            key = step[2] or _culprit(content, text)
            content, walked = content.get(key), f"{walked}.{key}"
    hint = "; put it in quotes" if "Expected `str`" in text and isinstance(content, bool | int | float) else ""
    return walked.lstrip("."), f" ({content!r}{hint})" if not isinstance(content, dict | list) else ""


def _culprit(content: Mapping[str, Any], text: str) -> str:
    """Return the key of the first entry with the type in the error message."""
    names = {"str": str, "int": int, "float": float, "bool": bool, "array": list, "object": dict, "null": type(None)}
    match = re.search(r"got `(\w+)`", text)
    wrong_type = names.get(match[1], object) if match else object
    return next((key for key, item in content.items() if type(item) is wrong_type or wrong_type is object), "")
