"""The admission chain: check types, set defaults, resolve priorities, and validate."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.admission.limit_ranges import LIMITS, check_claim, check_pod, limit_ranges
from moorage.cluster.apiserver.admission.pod_resources import RUNTIMES, default_limits, with_runtime_class
from moorage.cluster.apiserver.admission.quotas import Quotas
from moorage.cluster.apiserver.admission.service_addresses import SERVICES, allocate_address, update_address
from moorage.cluster.apiserver.storage.store import Store, StoredChange
from moorage.common.caches import LRU
from moorage.common.errors import ApiError, InputError
from moorage.kube.admission.checks.placement import comparisons
from moorage.kube.admission.checks.rules import metadata_problems, rule_problems
from moorage.kube.admission.checks.scheduling_groups import group_status
from moorage.kube.admission.checks.type_checks import type_problems
from moorage.kube.admission.checks.updates import RULES as UPDATE_RULES
from moorage.kube.admission.checks.updates import update_problems
from moorage.kube.admission.defaults import default_pod
from moorage.kube.admission.device_admission import CLAIMS, DeviceAdmission, find_admin_access
from moorage.kube.admission.group_admission import COMPOSITES, POD_GROUPS, WORDS, GroupAdmission
from moorage.kube.admission.pod_admission import PodAdmission
from moorage.kube.admission.type_defaults import set_defaults
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.codec import to_data
from moorage.kube.api.pod import Pod
from moorage.kube.api.qos import qos_class
from moorage.kube.api.storage import StorageClass, find_default_class
from moorage.kube.features import FeatureGates
from moorage.kube.field_errors import FieldError, forbidden_field
from moorage.kube.plain_data import apply_difference
from moorage.kube.resources import ServedResource
from moorage.kube.schema import Schema, complete, find_kind_schema, type_problem
from moorage.kube.status_errors import bad_request, forbidden, invalid

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
_SHAPES_PODS: Final = frozenset((PRIORITY_CLASSES, RUNTIMES, LIMITS))
"""Resources that influence the admission of pods. A change invalidates all cached specs."""
PROTECTED: Final = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    POD_GROUPS: "scheduling.k8s.io/podgroup-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}
"""The finalizers of new volumes, claims and groups. Controllers remove them when the objects are not in use."""
PROTECTED_COMPOSITES: Final = "scheduling.k8s.io/compositepodgroup-protection"
"""The finalizer of new composite groups from 1.38."""
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
        self._protected = {**PROTECTED, **({COMPOSITES: PROTECTED_COMPOSITES} if features.since(1, 38) else {})}
        self._has_groups = features.enabled("GenericWorkload")
        self._compares_taints = features.enabled("TaintTolerationComparisonOperators")
        self._admitted_specs: LRU[bytes, tuple[bytes, str]] = LRU("admitted pod specs", MAX_SPECS)
        store.subscribe(self._on_change)

    def _on_change(self, resource: str, _change: StoredChange) -> None:
        if resource == PRIORITY_CLASSES:
            self._pods = None
        if resource in _SHAPES_PODS:
            self._admitted_specs.clear()

    @property
    def pod_admission(self) -> PodAdmission:
        """The admission of pods, with the current priority classes."""
        if self._pods is None:
            classes = (entry.typed(PriorityClass) for entry in self._store.list(PRIORITY_CLASSES))
            self._pods = PodAdmission(classes, self._features)
        return self._pods

    def admit_new(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        """Return a new object in the form to store."""
        if resource.storage != "pods":
            return self._admit_fully(resource, data)
        spec = data.get("spec")
        if isinstance(spec, dict) and spec.get("ephemeralContainers"):
            _raise_if_invalid(resource, data, [forbidden_field("spec.ephemeralContainers", "cannot be set on create")])
        pod = self._admit_new_pod(resource, data)
        if pod["spec"].get("schedulingGates"):
            # Schedulers ignore the pod until its gates are removed.
            pod["status"]["conditions"] = [{**GATED}]
        return pod

    def _admit_new_pod(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        """Admit a pod. Most pods come from templates, so the results for equal specs are cached."""
        spec = data.get("spec")
        key = msgspec.json.encode(spec)
        if b"abelKeys" in key:
            # The spec refers to the labels of the pod, so they are part of the key.
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
        self.check_types(resource, {"metadata": data["metadata"]})
        _raise_if_invalid(resource, data, metadata_problems(resource, data["metadata"]))
        return data

    def _admit_fully(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        self.check_types(resource, data)
        if (schema := _find_schema(resource, data)) is not None:
            set_defaults(data, schema)
        self._groups.complete(resource, data)
        self._devices.drop(resource, data)
        if not self._has_groups and schema is not None and (template := _template_spec(data)):
            template.pop("schedulingGroup", None)
        self._complete_kind(resource, data)
        finalizer, finalizers = self._protected.get(resource.storage), data["metadata"].get("finalizers") or []
        if finalizer is not None and finalizer not in finalizers:
            data["metadata"]["finalizers"] = [*finalizers, finalizer]
        gated: Iterable[FieldError] = ()
        if resource.storage in CLAIMS:
            namespace = self._store.get("namespaces", data["metadata"].get("namespace", ""))
            labels = (namespace.data["metadata"].get("labels") or {}) if namespace is not None else {}
            gated = find_admin_access(resource, data, labels)
        if resource.storage == "pods":
            data = self._admit_pod(resource, data)
            # Requests and limits are complete only now.
            check_pod(resource, data, limit_ranges(self._store, data["metadata"]["namespace"]))
            gated = comparisons(data["spec"], "spec") if not self._compares_taints else ()
        selectors = self._devices.selector_problems(resource, data)
        _raise_if_invalid(resource, data, [*_problems(resource, data), *gated, *selectors])
        if schema is not None:
            complete(data, schema)
        return data

    def with_defaults(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of an object with the defaults of its types only."""
        self.check_types(resource, data)
        data = deepcopy(data)
        if (schema := _find_schema(resource, data)) is not None:
            set_defaults(data, schema)
            complete(data, schema)
        if resource.storage == "pods":
            _default_requests(data.get("spec") or {})
        return data

    def prepare(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of an object as mutating policies receive it."""
        data = self.with_defaults(resource, data)
        if resource.storage in ("pods", "persistentvolumeclaims"):
            self._complete_kind(resource, data)
        return data

    def _complete_kind(self, resource: ServedResource, data: dict[str, Any]) -> None:
        """Set the defaults of a kind that depend on other objects. Reject a second default priority class."""
        metadata, spec = data["metadata"], data.get("spec", {})
        match resource.storage:
            case "pods":
                default_limits(spec, limit_ranges(self._store, metadata["namespace"]))
                with_runtime_class(resource, metadata.get("name", ""), spec, self._store)
                _add_default_tolerations(spec)
                account = spec.setdefault("serviceAccountName", "default")
                spec.setdefault("serviceAccount", account)
            case "persistentvolumeclaims":
                classes = (entry.typed(StorageClass) for entry in self._store.list(STORAGE_CLASSES))
                if default := find_default_class(classes):
                    spec.setdefault("storageClassName", default)
                _copy_data_source(spec)
                check_claim(resource, data, limit_ranges(self._store, metadata["namespace"]))
            case storage if storage == PRIORITY_CLASSES and data.get("globalDefault"):
                priorities = (entry.typed(PriorityClass) for entry in self._store.list(PRIORITY_CLASSES))
                default = next((item.name for item in priorities if item.global_default), metadata.get("name"))
                if default != metadata.get("name"):
                    reason = f"PriorityClass {default} is already marked as default. Only one default can exist"
                    raise forbidden(resource, metadata.get("name", ""), reason)
            case storage if storage == SERVICES:
                allocate_address(resource, data, self._store)
            case storage if storage in WORDS:
                self._groups.set_priority(resource, data, self.pod_admission)

    def admit_changed(self, resource: ServedResource, old: Mapping[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Return a changed object in the form to store."""
        self.check_types(resource, data)
        schema = _find_schema(resource, data)
        keeps_spec = "spec" in old and data.get("spec") == old["spec"]
        if schema is not None:
            finalizers = data["spec"].get("finalizers") if resource.storage == "namespaces" else None
            set_defaults(data, schema)
            if resource.storage == "namespaces":
                # A namespace that is being finalized has no finalizers, and must not get them back.
                data["spec"] = {"finalizers": finalizers} if finalizers else {}
        self._groups.complete(resource, data, old)
        self._devices.drop(resource, data, old)
        if resource.storage == "pods":
            # A manifest that replaces a pod does not contain the results of admission.
            before, spec = old.get("spec") or {}, data["spec"]
            for name in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"):
                if name in before:
                    spec.setdefault(name, before[name])
            _add_default_tolerations(spec)
            if spec != before:
                pod = _decode_pod(resource, data)
                data = apply_difference(data, to_data(pod), to_data(default_pod(pod)))
        elif resource.storage == SERVICES:
            update_address(resource, old, data, self._store)
        # Simulations store objects without defaults: those added now are not a change of immutable fields.
        if keeps_spec:
            old = {**old, "spec": data["spec"]}
        elif schema is not None and resource.storage in UPDATE_RULES:
            old_data = deepcopy(dict(old))
            set_defaults(old_data, schema)
            old = old_data
        updates = update_problems(resource.storage, old, data, self._features)
        selectors = self._devices.selector_problems(resource, data, old)
        _raise_if_invalid(resource, data, [*_problems(resource, data), *updates, *selectors])
        if schema is not None:
            complete(data, schema)
        return data

    def admit_status(self, resource: ServedResource, old: Mapping[str, Any], data: dict[str, Any]) -> None:
        """Reject a status, and its metadata, with fields of wrong types. Reject an invalid status of groups."""
        if data["metadata"] != old["metadata"]:
            self.check_types(resource, {"metadata": data["metadata"]})
            _raise_if_invalid(resource, data, metadata_problems(resource, data["metadata"]))
        schema = _find_schema(resource, data)
        if schema is not None and "status" in schema.always_encoded:
            data.setdefault("status", {})
        if schema is not None and "status" in data:
            status = {"status": data["status"]}
            if (problem := type_problem(status, schema)) is not None:
                raise undecodable(resource, problem)
            below = schema.by_name["status"].schema
            if below is not None:
                set_defaults(status["status"], below)
            complete(status, schema)
        self._devices.drop(resource, data, old)
        if resource.storage in WORDS:
            self._groups.complete(resource, data)
            _raise_if_invalid(resource, data, group_status(data))

    def check_types(self, resource: ServedResource, data: Mapping[str, Any]) -> None:
        """Reject an object with fields of wrong types."""
        schema = _find_schema(resource, data)
        if schema is None:
            schema, data = find_kind_schema("v1", "ConfigMap"), {"metadata": data["metadata"]}
        assert schema is not None
        if (problem := type_problem(data, schema)) is not None:
            raise undecodable(resource, problem)

    def _admit_pod(self, resource: ServedResource, data: dict[str, Any]) -> dict[str, Any]:
        pod = _decode_pod(resource, data)
        name = pod.name or pod.metadata.generate_name
        try:
            without = msgspec.structs.replace(pod.spec, priority=None, preemption_policy=None)
            admitted = self.pod_admission.admit(default_pod(msgspec.structs.replace(pod, spec=without)))
        except InputError as error:
            reason = f"no PriorityClass with name {pod.spec.priority_class_name} was found"
            raise forbidden(resource, name, reason) from error
        for field, value, computed in (
            ("integer value of priority", pod.spec.priority, admitted.spec.priority),
            ("string value of PreemptionPolicy", pod.spec.preemption_policy, admitted.spec.preemption_policy),
        ):
            if value is not None and value != computed:
                reason = (
                    f"the {field} ({value}) must not be provided in pod spec; priority admission controller computed"
                )
                raise forbidden(resource, name, f"{reason} {computed} from the given PriorityClass name")
        pod_changes: dict[str, Any] = apply_difference(data, to_data(pod), to_data(admitted))
        return pod_changes


def _template_spec(data: dict[str, Any]) -> dict[str, Any]:
    """Return the pod spec in the template of a workload, or empty for other kinds."""
    spec: dict[str, Any] = data
    for name in ("spec", "jobTemplate", "spec", "template", "spec"):
        # Pod templates have no spec around the template, and only cron jobs a template of jobs.
        below = spec.get(name, spec if name != "template" else {})
        if not isinstance(below, dict):
            return {}
        spec = below
    return spec


def _copy_data_source(spec: dict[str, Any]) -> None:
    """Keep both references to the source of a claim's data equal. The older one supports only claims and snapshots."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    supported = ((None, "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    if source is not None and (source.get("apiGroup") or None, source.get("kind")) not in supported:
        del spec["dataSource"]
        source = None
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: text for key, text in reference.items() if key != "namespace"}


def _add_default_tolerations(spec: dict[str, Any]) -> None:
    """Add the default tolerations: pods remain on unhealthy nodes for five minutes."""
    tolerations = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        tolerated = (
            item.get("key", "") in (key, "") and item.get("effect", "") in ("NoExecute", "") for item in tolerations
        )
        if not any(tolerated):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)
    spec["tolerations"] = tolerations


def _default_requests(spec: dict[str, Any]) -> None:
    """Set the requests of containers to their limits where they have none."""
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            if limits := resources.get("limits"):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _find_schema(resource: ServedResource, data: Mapping[str, Any]) -> Schema | None:
    # Objects are validated in their stored version, independent of the version of the request.
    version = data.get("apiVersion")
    return find_kind_schema(version if version and isinstance(version, str) else resource.api_version, resource.name)


def _decode_pod(resource: ServedResource, data: Mapping[str, Any]) -> Pod:
    try:
        return msgspec.convert(data, Pod)
    except (msgspec.ValidationError, ValueError) as error:
        raise undecodable(resource, str(error)) from error


def undecodable(resource: ServedResource, problem: str) -> ApiError:
    """Return the error for an object that does not fit its kind."""
    return bad_request(
        f'{resource.name} in version "{resource.version}" cannot be handled as a {resource.name}: {problem}'
    )


def _problems(resource: ServedResource, data: dict[str, Any]) -> list[FieldError]:
    schema = _find_schema(resource, data)
    return [*rule_problems(resource, data), *(type_problems(data, schema) if schema is not None else ())]


def _raise_if_invalid(resource: ServedResource, data: Mapping[str, Any], causes: Iterable[FieldError]) -> None:
    # Some fields have a check of their kind and of their type.
    if errors := list(dict.fromkeys(causes)):
        metadata = data["metadata"]
        raise invalid(resource, metadata.get("name") or metadata.get("generateName", ""), errors)
