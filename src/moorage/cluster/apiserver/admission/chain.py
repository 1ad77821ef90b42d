"""The admission chain: check types, set defaults, resolve priorities, and validate."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.admission.limit_ranges import LIMITS, check_claim, check_pod, limit_ranges
from moorage.cluster.apiserver.admission.pod_resources import RUNTIMES, default_limits, qos_class, with_runtime_class
from moorage.cluster.apiserver.admission.quotas import Quotas
from moorage.cluster.apiserver.admission.service_addresses import SERVICES, allocate_address, keep_address
from moorage.cluster.apiserver.storage.store import Store, StoredChange
from moorage.common.caches import LRU
from moorage.common.errors import ApiError, InputError
from moorage.kube.admission.checks.placement import comparisons
from moorage.kube.admission.checks.rules import metadata_problems, rule_problems
from moorage.kube.admission.checks.scheduling_groups import group_status
from moorage.kube.admission.checks.updates import update_problems
from moorage.kube.admission.defaults import default_pod, with_defaults
from moorage.kube.admission.device_admission import DeviceAdmission
from moorage.kube.admission.group_admission import POD_GROUPS, WORDS, GroupAdmission
from moorage.kube.admission.pod_admission import PodAdmission
from moorage.kube.admission.validation import problems_of
from moorage.kube.admission.workload_defaults import DEFAULTS
from moorage.kube.api.cluster import Namespace, PriorityClass
from moorage.kube.api.codec import convert, to_data
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import StorageClass
from moorage.kube.features import FeatureGates
from moorage.kube.field_errors import FieldError
from moorage.kube.plain_data import apply_difference
from moorage.kube.resources import ServedResource
from moorage.kube.schema import complete, schema_of_kind, type_problem
from moorage.kube.status_errors import bad_request, forbidden, invalid

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
_SHAPES_PODS: Final = frozenset((PRIORITY_CLASSES, RUNTIMES, LIMITS))
"""Resources that influence the admission of pods; a change invalidates all cached specs."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
PROTECTED: Final = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    POD_GROUPS: "scheduling.k8s.io/podgroup-protection",
}
"""The finalizers that volumes, claims and groups have from the start; controllers take them off."""
MAX_SPECS: Final = 1024
MAX_SPEC_BYTES: Final = 16 * 1024
GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class Admission:
    """Applies defaults and admission rules to objects, with the current priority classes and feature gates."""

    def __init__(self, store: Store, features: FeatureGates) -> None:
        self._store = store
        self.quotas = Quotas(store)
        self._features = features
        self._pods: PodAdmission | None = None
        self._groups = GroupAdmission(features)
        self._devices = DeviceAdmission(features)
        self._compares_taints = features.enabled("TaintTolerationComparisonOperators")
        self._admitted_specs: LRU[bytes, tuple[bytes, str]] = LRU("admitted pod specs", MAX_SPECS)
        store.subscribe(self._changed)

    def _changed(self, resource: str, _change: StoredChange) -> None:
        if resource == PRIORITY_CLASSES:
            self._pods = None
        if resource in _SHAPES_PODS:
            self._admitted_specs.clear()

    @property
    def pod_admission(self) -> PodAdmission:
        """The way in for pods, with the priority classes of now."""
        if self._pods is None:
            classes = (entry.typed(PriorityClass) for entry in self._store.list(PRIORITY_CLASSES))
            self._pods = PodAdmission(classes, self._features)
        return self._pods

    def check_fields(
        self, resource: ServedResource, how: str, unknown: Sequence[str], repeated: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Treat fields that are unknown or given twice as the request wants it: refuse them, or warn of them."""
        problems = (
            *(f'unknown field "{path}"' for path in unknown),
            *(f'duplicate field "{path}"' for path in repeated),
        )
        if problems and how == "Strict":
            kind = f'{resource.name} in version "{resource.version}"'
            raise bad_request(
                f"{kind} cannot be handled as a {resource.name}: strict decoding error: {', '.join(problems)}"
            )
        return problems

    def admit_new(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        """Return a new object in the form to store."""
        if resource.storage == "pods":
            return _with_gated_condition(self._admit_new_pod(resource, data))
        return self._admit_fully(resource, data)

    def _admit_new_pod(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        """Admit a pod; most pods come from templates, so the results for equal specs are cached."""
        spec = data.get("spec")
        key = msgspec.json.encode(spec)
        if b"abelKeys" in key:
            # Its own labels go into its spec.
            key += msgspec.json.encode(data["metadata"].get("labels"))
        if self._store.list(LIMITS):
            key += data["metadata"]["namespace"].encode()
        cached = self._admitted_specs.find(key)
        if cached is None:
            admitted = self._admit_fully(resource, data)
            spec = admitted["spec"]
            quality = qos_class(spec)
            if len(key) <= MAX_SPEC_BYTES:
                self._admitted_specs.put(key, (msgspec.json.encode(spec), quality))
            admitted["status"]["qosClass"] = quality
            return admitted
        data["spec"] = msgspec.json.decode(cached[0])
        data["status"]["qosClass"] = cached[1]
        _typed(resource, Namespace, {"metadata": data["metadata"]})
        _raise_if_invalid(resource, data, metadata_problems(resource, data["metadata"]))
        return data

    def _admit_fully(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        self.check_types(resource, data)
        _default(resource, data)
        self._groups.complete(resource, data)
        self._devices.drop(resource, data)
        if resource.storage == "pods":
            self._shape_pod(resource, data)
        elif resource.storage == "persistentvolumeclaims":
            self._choose_class(data["spec"])
            check_claim(resource, data, limit_ranges(self._store, data["metadata"]["namespace"]))
        elif resource.storage == PRIORITY_CLASSES:
            self._check_default(resource, data)
        elif resource.storage == SERVICES:
            allocate_address(resource, data, self._store)
        elif resource.storage in WORDS:
            self._groups.set_priority(resource, data, self.pod_admission)
        if resource.storage in PROTECTED:
            _protect(data["metadata"], PROTECTED[resource.storage])
        if resource.has_struct:
            data = self._admit_struct(resource, resource.type, data)
        if resource.storage == "pods" and (ranges := limit_ranges(self._store, data["metadata"]["namespace"])):
            # Requests and limits are complete only now.
            check_pod(resource, data, ranges)
        gated = comparisons(data["spec"], "spec") if resource.storage == "pods" and not self._compares_taints else ()
        _raise_if_invalid(resource, data, [*_problems(resource, data), *gated])
        _complete(resource, data)
        return data

    def _shape_pod(self, resource: ServedResource, data: dict[str, Any]) -> None:
        """Add the defaults of the namespace, the runtime class and the cluster to a pod."""
        metadata, spec = data["metadata"], data["spec"]
        default_limits(spec, limit_ranges(self._store, metadata["namespace"]))
        with_runtime_class(resource, metadata.get("name", ""), spec, self._store)
        _add_default_tolerations(spec)
        account = spec.setdefault("serviceAccountName", "default")
        spec.setdefault("serviceAccount", account)

    def _check_default(self, resource: ServedResource, data: dict[str, Any]) -> None:
        """Reject a second global default priority class."""
        if not data.get("globalDefault"):
            return
        classes = (entry.typed(PriorityClass) for entry in self._store.list(PRIORITY_CLASSES))
        default = next((item.name for item in classes if item.global_default), None)
        if default is not None and default != data["metadata"].get("name"):
            why = f"PriorityClass {default} is already marked as default. Only one default can exist"
            raise forbidden(resource, data["metadata"].get("name", ""), why)

    def _choose_class(self, spec: dict[str, Any]) -> None:
        """Set the default storage class of a claim: the newest of several."""
        if "storageClassName" in spec:
            return
        classes = [entry.typed(StorageClass) for entry in self._store.list(STORAGE_CLASSES)]
        defaults = [item for item in classes if item.annotations.get(DEFAULT_CLASS) == "true"]
        if defaults:
            spec["storageClassName"] = max(defaults, key=lambda item: item.metadata.creation_timestamp or "").name

    def admit_changed(self, resource: ServedResource, old: Mapping[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Return a changed object in the form to store."""
        self.check_types(resource, data)
        if resource.storage != "namespaces":
            # A namespace that is being finalized has no finalizers, and must not get them back.
            _default(resource, data)
        self._groups.complete(resource, data, old)
        self._devices.drop(resource, data, old)
        if resource.storage == "pods":
            _keep_admitted(old, data["spec"])
        elif resource.storage == SERVICES:
            keep_address(old, data)
        if resource.has_struct and data.get("spec") != old.get("spec"):
            obj = _typed(resource, resource.type, data)
            data = apply_difference(data, to_data(obj), to_data(with_defaults(obj)))
        _raise_if_invalid(resource, data, [*_problems(resource, data), *update_problems(resource.storage, old, data)])
        _complete(resource, data)
        return data

    def admit_status(self, resource: ServedResource, old: Mapping[str, Any], data: dict[str, Any]) -> None:
        """Reject a status, and its metadata, with fields of wrong types.

        Of groups, also one that has content that it may not have.
        """
        if data["metadata"] != old["metadata"]:
            self.check_types(resource, {"metadata": data["metadata"]})
            _raise_if_invalid(resource, data, metadata_problems(resource, data["metadata"]))
        schema = schema_of_kind(resource.api_version, resource.name)
        if schema is not None and "status" in data:
            status = {"status": data["status"]}
            problem = type_problem(status, schema)
            if problem is not None:
                raise _undecodable(resource, problem)
            complete(status, schema)
        self._devices.drop(resource, data, old)
        if resource.storage in WORDS:
            self._groups.complete(resource, data)
            _raise_if_invalid(resource, data, group_status(data))

    def check_types(self, resource: ServedResource, data: Mapping[str, Any]) -> None:
        """Reject an object with fields of wrong types."""
        # Events are validated in their stored form, independent of the request's API group.
        api_version = "v1" if resource.storage == "events" else resource.api_version
        schema = schema_of_kind(api_version, resource.name)
        if schema is None:
            schema, data = schema_of_kind("v1", "ConfigMap"), {"metadata": data["metadata"]}
        assert schema is not None
        problem = type_problem(data, schema)
        if problem is not None:
            raise _undecodable(resource, problem)

    def _admit_struct(self, resource: ServedResource, struct: type[KubeObject], data: dict[str, Any]) -> dict[str, Any]:
        obj = _typed(resource, struct, data)
        completed = self._admit_pod(resource, obj) if isinstance(obj, Pod) else with_defaults(obj)
        if completed is obj:
            return data
        changed: dict[str, Any] = apply_difference(data, to_data(obj), to_data(completed))
        return changed

    def _admit_pod(self, resource: ServedResource, pod: Pod) -> Pod:
        priority, policy = pod.spec.priority, pod.spec.preemption_policy
        name = pod.name or pod.metadata.generate_name
        try:
            without = msgspec.structs.replace(pod.spec, priority=None, preemption_policy=None)
            admitted = self.pod_admission.admit(default_pod(msgspec.structs.replace(pod, spec=without)))
        except InputError as error:
            why = f"no PriorityClass with name {pod.spec.priority_class_name} was found"
            raise forbidden(resource, name, why) from error
        if priority is not None and priority != admitted.spec.priority:
            raise forbidden(
                resource,
                name,
                f"the integer value of priority ({priority}) must not be provided in pod spec; priority admission "
                f"controller computed {admitted.spec.priority} from the given PriorityClass name",
            )
        if policy is not None and policy != admitted.spec.preemption_policy:
            raise forbidden(
                resource,
                name,
                f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission "
                f"controller computed {admitted.spec.preemption_policy} from the given PriorityClass name",
            )
        return admitted


def _with_gated_condition(pod: dict[str, Any]) -> dict[str, Any]:
    """Set the PodScheduled condition of a gated pod; schedulers ignore it until its gates are removed."""
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [{**GATED}]
    return pod


def _add_default_tolerations(spec: dict[str, Any]) -> None:
    """Add the default tolerations: pods stay on unhealthy nodes for five minutes."""
    tolerations = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        tolerated = (
            item.get("key", "") in (key, "") and item.get("effect", "") in ("NoExecute", "") for item in tolerations
        )
        if not any(tolerated):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)
    spec["tolerations"] = tolerations


def _keep_admitted(old: Mapping[str, Any], spec: dict[str, Any]) -> None:
    """Preserve the results of admission when a manifest without them replaces a pod."""
    before = old.get("spec") or {}
    for name in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"):
        if name in before:
            spec.setdefault(name, before[name])
    _add_default_tolerations(spec)


def _protect(metadata: dict[str, Any], finalizer: str) -> None:
    """Add the protection finalizer: an object in use is not removed on deletion."""
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        metadata["finalizers"] = [*finalizers, finalizer]


def _complete(resource: ServedResource, data: dict[str, Any]) -> None:
    schema = schema_of_kind("v1" if resource.storage == "events" else resource.api_version, resource.name)
    if schema is not None:
        complete(data, schema)


def _default(resource: ServedResource, data: dict[str, Any]) -> None:
    complete = DEFAULTS.get(resource.storage)
    if complete is not None:
        complete(data)


def _typed(resource: ServedResource, struct: type[KubeObject], data: Mapping[str, Any]) -> KubeObject:
    try:
        return convert(struct, data) if struct.holds_json else msgspec.convert(data, struct)
    except (msgspec.ValidationError, ValueError) as error:
        raise _undecodable(resource, str(error)) from error


def _undecodable(resource: ServedResource, problem: str) -> ApiError:
    return bad_request(
        f'{resource.name} in version "{resource.version}" cannot be handled as a {resource.name}: {problem}'
    )


def _problems(resource: ServedResource, data: dict[str, Any]) -> list[FieldError]:
    """Return the errors by the rules of the kind. If the rules find no errors, return those of the struct."""
    errors = list(rule_problems(resource, data))
    return errors or ([] if not resource.has_struct else list(_as_causes(_typed(resource, resource.type, data))))


def _as_causes(obj: KubeObject) -> Iterator[FieldError]:
    for problem in problems_of(obj):
        hint = f"; {problem.hint}" if problem.hint else ""
        yield FieldError("FieldValueInvalid", f"Invalid value: {problem.text}{hint}", problem.path)


def _raise_if_invalid(
    resource: ServedResource, data: Mapping[str, Any], causes: Iterator[FieldError] | list[FieldError]
) -> None:
    errors = list(causes)
    if errors:
        metadata = data["metadata"]
        raise invalid(resource, metadata.get("name") or metadata.get("generateName", ""), errors)
