"""From files to a cluster: typed objects in order of appearance, as an API server would have stored them.

>>> cluster = cluster_from([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}])
>>> [thing.key for thing in cluster.objects], cluster.pending[0].uid
(['default/a', 'default'], 'uid-0')
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
from moorage.common.errors import InputError, did_you_mean
from moorage.kube.admission.defaults import default_namespace, default_pod, with_defaults
from moorage.kube.admission.group_admission import GroupAdmission
from moorage.kube.admission.pod_admission import PodAdmission
from moorage.kube.admission.validation import problems_of
from moorage.kube.api.cluster import Namespace, PriorityClass
from moorage.kube.api.codec import convert
from moorage.kube.api.gated import pod_adapter
from moorage.kube.api.kinds import BY_NAME, Kind
from moorage.kube.api.meta import KubeObject, ObjectMeta, format_time, parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.kube.api.workloads import AppsWorkload, ReplicationController
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document, documents_of

#: When the first object of an input was created; each object is a second younger than the one before it.
EPOCH: Final = VirtualClock().now()
DEFAULT_NAMESPACE: Final = "default"
MAX_NAME: Final = 253

#: Kubernetes' own kinds that do not bear on scheduling: a dump of a live cluster may contain them.
IGNORED_KINDS: Final = frozenset(
    (
        *("Binding", "ConfigMap", "Endpoints", "EndpointSlice", "Event", "LimitRange", "PodTemplate", "ResourceQuota"),
        *("ControllerRevision", "HorizontalPodAutoscaler", "Lease", "RuntimeClass"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "ServiceAccount"),
        *("Ingress", "IngressClass", "NetworkPolicy", "VolumeAttributesClass"),
    )
)
#: Those that decide what the pods of workloads look like: they are stored if there are workloads.
SHAPING_KINDS: Final = frozenset(("LimitRange", "ResourceQuota", "RuntimeClass"))
#: The shape of device claims and slices changed after these versions.
_OLD_DEVICE_APIS: Final = tuple(f"resource.k8s.io/{old}" for old in ("v1alpha1", "v1alpha2", "v1alpha3", "v1beta1"))
_OWN_GROUPS: Final = frozenset({kind.group for kind in BY_NAME.values()} | {"", "autoscaling", "extensions"})
_DEFAULT_GATES: Final = FeatureGates()
T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True)
class ClusterInput:
    """A cluster as it was given: every object in order of appearance, namespaces that were only mentioned last.

    ``custom`` has the custom resources as plain data and ``definitions`` what defines them, ``shaping`` what decides
    how the pods of workloads look; ``ignored`` counts the kinds that were left out, ``selecting`` says of workloads of
    which the scheduler only reads the selector why they make no pods.
    """

    objects: tuple[KubeObject, ...]
    custom: tuple[Mapping[str, Any], ...] = ()
    definitions: tuple[Mapping[str, Any], ...] = ()
    shaping: tuple[Mapping[str, Any], ...] = ()
    ignored: Mapping[str, int] = field(default_factory=dict)
    selecting: Mapping[str, str] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    """What controllers were not allowed to make of the workloads, in one pass."""

    def of(self, kind: type[T]) -> tuple[T, ...]:
        """Return the objects of one kind, in order of appearance."""
        return tuple(thing for thing in self.objects if isinstance(thing, kind))

    def custom_objects(self) -> tuple[KubeObject, ...]:
        """Return the custom resources of the kinds that plugins have added by now."""
        kinds = added_kinds()
        found = ((kinds.get(kind_name(content)), content) for content in self.custom)
        return tuple(custom_object(kind, content) for kind, content in found if kind is not None)

    @cached_property
    def now(self) -> float:
        """A moment after everything the input mentions: pods that say no start time start now, as the last."""
        return max((moment for thing in self.objects for moment in _moments(thing)), default=EPOCH) + 1.0

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes."""
        return self.of(Node)

    @cached_property
    def workloads(self) -> tuple[PodSource, ...]:
        """What makes pods; one that was given without a template only selects some."""
        return tuple(thing for thing in self.objects if isinstance(thing, WORKLOADS) and makes_pods(thing))

    @cached_property
    def expected_pods(self) -> int:
        """How many pods will want a node, about: those that wait, and those that workloads ask for."""
        return len(self.pending) + sum(pods_wanted(thing, len(self.nodes)) for thing in self.workloads)

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
        """The pods that wait for a node and are not being deleted."""
        return tuple(pod for pod in self.waiting if not pod.is_terminating)


def _moments(thing: KubeObject) -> Iterator[float]:
    metadata = thing.metadata
    started = thing.status.start_time if isinstance(thing, Pod) else None
    for text in (metadata.creation_timestamp, metadata.deletion_timestamp, started):
        if text is not None:
            yield parse_time(text)


def cluster_of(documents: Iterable[Document], *, features: FeatureGates = _DEFAULT_GATES) -> ClusterInput:
    """Make a cluster of documents that have been read already."""
    return Creation(features).create(documents)


def cluster_from(
    contents: Iterable[Any], *, features: FeatureGates = _DEFAULT_GATES, source: str = "the input"
) -> ClusterInput:
    """Make a cluster of objects that are plain data already."""
    return Creation(features).create(documents_of(contents, source=source))


class Creation:
    """Creates the objects of one input, one after the other; later also single ones, as they were changed.

    ``runs_workloads``: controllers will make pods of the workloads, so these have to be such as an API server admits.
    """

    def __init__(self, features: FeatureGates = _DEFAULT_GATES, *, runs_workloads: bool = True) -> None:
        self._features = features
        self._runs_workloads = runs_workloads
        self._count = 0
        self._places: dict[tuple[str, str], str] = {}
        self._workloads = WorkloadAdmission(features)
        self._custom = CustomInput()
        self._shaping: list[Mapping[str, Any]] = []
        self._ignored: Counter[str] = Counter()
        self._selecting: dict[str, str] = {}
        self._groups = GroupAdmission(features)

    def create(self, documents: Iterable[Document]) -> ClusterInput:
        """Create everything that some documents describe; InputError for the first bad one."""
        made: list[tuple[KubeObject, Document]] = []
        for document in documents:
            thing = self._create(document)
            self._count += 1
            if thing is not None:
                made.append((thing, document))
        # Priority classes may come after the pods that name them.
        classes = [thing for thing, _ in made if isinstance(thing, PriorityClass)]
        admission, adapt = PodAdmission(classes, self._features), pod_adapter(self._features)
        objects = keep_as_given(self._admit(admission, thing, document) for thing, document in made)
        if adapt is not None:
            objects = [adapt(thing) if isinstance(thing, Pod) else thing for thing in objects]
        objects += self._missing_namespaces(objects)
        cluster = ClusterInput(tuple(objects), *self._custom.completed())
        shaping = tuple(self._shaping) if cluster.workloads else ()
        if not shaping:
            self._ignored.update(str(content["kind"]) for content in self._shaping)
        return with_fields(cluster, shaping=shaping, ignored=dict(self._ignored), selecting=self._selecting)

    def create_one(
        self, document: Document, like: KubeObject | None, classes: Iterable[PriorityClass]
    ) -> KubeObject | None:
        """Create one more object, or one anew with the identity it had; ``None`` if it is of no kind of ours."""
        kind = _kind_of(document)
        if kind is None:
            return None
        decoded = _decode(document, kind)
        if like is not None:
            was = like.metadata
            metadata = replace(decoded.metadata, uid=was.uid, creation_timestamp=was.creation_timestamp)
            decoded = replace(decoded, metadata=metadata)
        self._count += 1
        thing = self._completed(self._identified(decoded, kind), document)
        if not isinstance(thing, Pod | PodGroup | CompositePodGroup):
            return thing
        admitted = self._admit(PodAdmission(classes, self._features), thing, document)
        adapt = pod_adapter(self._features)
        return adapt(admitted) if adapt is not None and isinstance(admitted, Pod) else admitted

    def _create(self, document: Document) -> KubeObject | None:
        kind = _kind_of(document)
        if kind is None:
            self._keep_aside(document)
            return None
        thing = self._identified(_decode(document, kind), kind)
        self._refuse_again(thing, kind, document)
        return self._completed(thing, document)

    def _completed(self, thing: KubeObject, document: Document) -> KubeObject:
        _refuse_problems(thing, document.title)
        if not self._runs_workloads:
            return with_defaults(thing)
        if isinstance(thing, SELECTING):
            return self._admit_selecting(thing, document)
        if isinstance(thing, WORKLOADS):
            return self._workloads.admit(thing, document.content, document.title)
        return with_defaults(thing)

    def _admit_selecting(self, thing: PodSource, document: Document) -> KubeObject:
        """Take a workload in for the scheduler's sake at least: it reads the selector, whatever the rest is like."""
        if makes_pods(thing):
            try:
                return self._workloads.admit(thing, document.content, document.title)
            except InputError as error:
                self._selecting[document.title] = error.problem
        return selecting_only(with_defaults(thing))

    def _admit(self, admission: PodAdmission, thing: KubeObject, document: Document) -> KubeObject:
        if self._runs_workloads and isinstance(thing, WORKLOADS) and makes_pods(thing):
            _check_template(admission, thing, document)
        try:
            if isinstance(thing, PodGroup):
                return self._groups.admit(thing, admission)
            if isinstance(thing, CompositePodGroup):
                return self._groups.admit(thing, admission)
            return admission.admit(thing) if isinstance(thing, Pod) else thing
        except InputError as error:
            raise InputError(f"{document.title}, {error.where}", error.problem, hint=error.hint) from error

    def _keep_aside(self, document: Document) -> None:
        group = document.api_version.rpartition("/")[0]
        is_own = group in _OWN_GROUPS or group.endswith(".k8s.io")
        metadata = document.content.get("metadata")
        given = metadata if isinstance(metadata, dict) else {}
        identity = {"uid": self._uid, "creationTimestamp": self._created, "resourceVersion": str(self._count + 1)}
        content = {**document.content, "metadata": {**identity, **given}}
        if is_own and document.kind in SHAPING_KINDS and given.get("name"):
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

    def _identified(self, thing: T, kind: Kind) -> T:
        given = thing.metadata
        metadata = replace(
            given,
            namespace=(given.namespace or DEFAULT_NAMESPACE) if kind.namespaced else "",
            uid=given.uid or self._uid,
            creation_timestamp=given.creation_timestamp or self._created,
            resource_version=str(self._count + 1),
        )
        return replace(thing, metadata=metadata)

    def _refuse_again(self, thing: KubeObject, kind: Kind, document: Document) -> None:
        if not thing.name:
            raise InputError(
                f"{document.title}, metadata.name",
                "the object has no name",
                hint="write one; generateName is not enough",
            )
        if (length := max(len(thing.name), len(thing.namespace))) > MAX_NAME:
            problem = f"a name or namespace of {length:,} characters"
            raise InputError(f"{document.title}, metadata", problem, hint=f"write at most {MAX_NAME}")
        first = self._places.setdefault((kind.name, thing.key), document.source)
        if first != document.source:
            problem = f"{kind.name} {thing.key!r} is there already, from {first}"
            raise InputError(document.source, problem, hint="remove one of them, or name it differently")

    def _missing_namespaces(self, objects: Iterable[KubeObject]) -> list[Namespace]:
        known = {thing.name for thing in objects if isinstance(thing, Namespace)}
        missing = dict.fromkeys(thing.namespace for thing in objects if thing.namespace)
        made = []
        for name in missing:
            if name not in known:
                namespace = Namespace(ObjectMeta(name=name))
                made.append(default_namespace(self._identified(namespace, BY_NAME["Namespace"])))
                self._count += 1
        return made


def _check_template(admission: PodAdmission, thing: PodSource, document: Document) -> None:
    """Refuse a template of which no pod can be made: the controllers would try in vain for ever."""
    where = f"{document.title}, the pod template"
    try:
        pod = example_pod(thing)
        _refuse_problems(pod, where)
        admission.admit(default_pod(pod))
    except msgspec.ValidationError as error:
        raise InputError(where, str(error)) from error
    except InputError as error:
        place = error.where if error.where.startswith(where) else f"{where}, {error.where}"
        raise InputError(place, error.problem, hint=error.hint) from error


def _refuse_problems(thing: KubeObject, title: str) -> None:
    for problem in problems_of(thing):
        raise InputError(f"{title}, {problem.path}", problem.text, hint=problem.hint)


def _kind_of(document: Document) -> Kind | None:
    """Find the kind by group and name; ``None`` for custom resources and kinds the scheduler does not listen to."""
    name, api_version = document.kind, document.api_version
    if not name or not api_version:
        missing = " and ".join(key for key, found in (("apiVersion", api_version), ("kind", name)) if not found)
        raise InputError(
            document.title,
            f"this is not a Kubernetes object: it has no {missing}",
            hint="every object needs apiVersion, kind and metadata.name",
        )
    group = api_version.rpartition("/")[0]
    if group not in _OWN_GROUPS or name in IGNORED_KINDS:
        return None
    kind = BY_NAME.get(name)
    if kind is None:
        read = [known for known in BY_NAME if known not in IGNORED_KINDS]
        hint = did_you_mean(name, [*BY_NAME, *IGNORED_KINDS]) or f"kinds that are read: {', '.join(read)}"
        raise InputError(document.title, f"{api_version} has no kind {name!r}", hint=hint)
    if kind.group != group or (api_version in _OLD_DEVICE_APIS and name != "DeviceTaintRule"):
        problem = f"apiVersion {api_version!r} does not fit a {name}"
        raise InputError(document.title, problem, hint=f"write apiVersion: {kind.api_version}")
    return kind


def _decode(document: Document, kind: Kind) -> KubeObject:
    try:
        thing = convert(kind.type, document.content)
        if isinstance(thing, AppsWorkload | ReplicationController):
            _ = thing.spec.template  # kept as JSON, and so not looked into yet
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        path, found = _locate(document.content, place.rstrip("`").lstrip("."), text)
        raise InputError(f"{document.title}, {path}" if path else document.title, f"{text}{found}") from error
    return thing


_STEP: Final = re.compile(r"\[\.\.\.\]|\[(\d+)\]|([^.\[\]]+)")


def _locate(content: Any, path: str, text: str) -> tuple[str, str]:
    """Follow msgspec's path into the document, putting in the key where it only says ``[...]``; quote what is there."""
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
    """Find the entry of a mapping that has the type the message complains of."""
    names = {"str": str, "int": int, "float": float, "bool": bool, "array": list, "object": dict, "null": type(None)}
    got = re.search(r"got `(\w+)`", text)
    wanted = names.get(got[1], object) if got else object
    return next((key for key, item in content.items() if type(item) is wanted or wanted is object), "")
