"""What is done to objects on their way in: types checked, defaults filled in, priorities resolved, rules enforced."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from moorage.api.cluster import Namespace, PriorityClass
from moorage.api.meta import KubeObject
from moorage.api.pod import Pod
from moorage.api.storage import StorageClass
from moorage.apiserver.admission import PodAdmission
from moorage.apiserver.defaults import default_pod, with_defaults
from moorage.apiserver.overlay import overlay
from moorage.apiserver.refusals import Cause, bad_request, forbidden, invalid
from moorage.apiserver.resources import Resource
from moorage.apiserver.rules import metadata_problems, rule_problems, update_problems
from moorage.apiserver.schema import schema_of_kind, type_problems, unknown_fields
from moorage.apiserver.store import Change, Store
from moorage.apiserver.validation import problems_of
from moorage.apiserver.workload_defaults import DEFAULTS
from moorage.errors import ApiError, InputError
from moorage.features import FeatureGates

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
MOST_SPECS: Final = 1024


class Gatekeeper:
    """Decides what is stored, given the priority classes there are and the features that are on."""

    def __init__(self, store: Store, features: FeatureGates) -> None:
        self._store = store
        self._features = features
        self._admission: PodAdmission | None = None
        self._admitted_specs: dict[bytes, bytes] = {}
        store.subscribe(self._changed)

    def _changed(self, resource: str, _change: Change) -> None:
        if resource == PRIORITY_CLASSES:
            self._admission = None
            self._admitted_specs.clear()

    @property
    def admission(self) -> PodAdmission:
        """The way in for pods, with the priority classes of now."""
        if self._admission is None:
            classes = (entry.typed(PriorityClass) for entry in self._store.list(PRIORITY_CLASSES))
            self._admission = PodAdmission(classes, self._features)
        return self._admission

    def check_fields(
        self, resource: Resource, data: Mapping[str, Any], how: str, known: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Look for unknown fields as the request wants it: refuse them, warn of them or ignore them.

        Those that ``known``, the object as it was, has already are nobody's fault now.
        """
        if how not in ("", "Ignore", "Warn", "Strict"):
            raise bad_request(f'fieldValidation: Unsupported value: "{how}": supported values: Ignore, Strict, Warn')
        schema = schema_of_kind(resource.api_version, resource.kind)
        if how in ("", "Ignore") or schema is None:
            return ()
        before = set(unknown_fields(known, schema)) if known is not None else set()
        unknown = tuple(f'unknown field "{path}"' for path in unknown_fields(data, schema) if path not in before)
        if unknown and how == "Strict":
            kind = f'{resource.kind} in version "{resource.version}"'
            raise bad_request(
                f"{kind} cannot be handled as a {resource.kind}: strict decoding error: {', '.join(unknown)}"
            )
        return unknown

    def admit_new(self, resource: Resource, data: dict[str, Any]) -> dict[str, Any]:
        """Return a new object as it is to be stored."""
        if resource.storage == "pods":
            return self._admit_new_pod(resource, data)
        return self._admit_fully(resource, data)

    def _admit_new_pod(self, resource: Resource, data: dict[str, Any]) -> dict[str, Any]:
        """Admit a pod; most come from a template, and what was made of an equal spec is made of this one."""
        spec = data.get("spec")
        key = msgspec.json.encode(spec)
        if b"abelKeys" in key:
            # Its own labels go into its spec.
            key += msgspec.json.encode(data["metadata"].get("labels"))
        known = self._admitted_specs.get(key)
        if known is None:
            admitted = self._admit_fully(resource, data)
            if len(self._admitted_specs) >= MOST_SPECS:
                self._admitted_specs.clear()
            self._admitted_specs[key] = msgspec.json.encode(admitted["spec"])
            return admitted
        data["spec"] = msgspec.json.decode(known)
        _typed(resource, Namespace, {"metadata": data["metadata"]})
        _refuse(resource, data, metadata_problems(resource, data["metadata"]))
        return data

    def _admit_fully(self, resource: Resource, data: dict[str, Any]) -> dict[str, Any]:
        self._check_types(resource, data)
        _default(resource, data)
        if resource.storage == "pods":
            _tolerate_trouble(data["spec"])
        elif resource.storage == "persistentvolumeclaims":
            self._choose_class(data["spec"])
        if resource.struct is not None:
            data = self._admit_struct(resource, resource.struct, data)
        _refuse(resource, data, rule_problems(resource, data))
        return data

    def _choose_class(self, spec: dict[str, Any]) -> None:
        """Give a claim that names no storage class the default one: of several, the youngest."""
        if "storageClassName" in spec:
            return
        classes = [entry.typed(StorageClass) for entry in self._store.list(STORAGE_CLASSES)]
        chosen = [item for item in classes if item.annotations.get(DEFAULT_CLASS) == "true"]
        if chosen:
            spec["storageClassName"] = max(chosen, key=lambda item: item.metadata.creation_timestamp or "").name

    def admit_changed(self, resource: Resource, old: Mapping[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Return a changed object as it is to be stored."""
        self._check_types(resource, data)
        if resource.storage != "namespaces":
            # A namespace that is being finalized has no finalizers, and must not get them back.
            _default(resource, data)
        if resource.struct is not None and data.get("spec") != old.get("spec"):
            thing = _typed(resource, resource.struct, data)
            _refuse(resource, data, _as_causes(thing))
            data = overlay(data, msgspec.to_builtins(thing), msgspec.to_builtins(with_defaults(thing)))
        _refuse(resource, data, [*rule_problems(resource, data), *update_problems(resource, old, data)])
        return data

    def admit_status(self, resource: Resource, data: Mapping[str, Any]) -> None:
        """Refuse a status whose fields are of other types than theirs."""
        schema = schema_of_kind(resource.api_version, resource.kind)
        if schema is not None and "status" in data:
            problem = next(type_problems({"status": data["status"]}, schema), None)
            if problem is not None:
                raise _undecodable(resource, problem)

    def _check_types(self, resource: Resource, data: Mapping[str, Any]) -> None:
        # Events are checked as they are stored, whichever group they were sent to.
        api_version = "v1" if resource.storage == "events" else resource.api_version
        schema = schema_of_kind(api_version, resource.kind)
        if schema is None:
            schema, data = schema_of_kind("v1", "ConfigMap"), {"metadata": data["metadata"]}
        assert schema is not None
        problem = next(type_problems(data, schema), None)
        if problem is not None:
            raise _undecodable(resource, problem)

    def _admit_struct(self, resource: Resource, struct: type[KubeObject], data: dict[str, Any]) -> dict[str, Any]:
        thing = _typed(resource, struct, data)
        _refuse(resource, data, _as_causes(thing))
        completed = self._admit_pod(resource, thing) if isinstance(thing, Pod) else with_defaults(thing)
        if completed is thing:
            return data
        changed: dict[str, Any] = overlay(data, msgspec.to_builtins(thing), msgspec.to_builtins(completed))
        return changed

    def _admit_pod(self, resource: Resource, pod: Pod) -> Pod:
        given = pod.spec.priority
        name = pod.name or pod.metadata.generate_name
        try:
            without = msgspec.structs.replace(pod.spec, priority=None)
            admitted = self.admission.admit(default_pod(msgspec.structs.replace(pod, spec=without)))
        except InputError as error:
            why = f"no PriorityClass with name {pod.spec.priority_class_name} was found"
            raise forbidden(resource, name, why) from error
        if given is not None and given != admitted.spec.priority:
            raise forbidden(
                resource,
                name,
                f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
                f"controller computed {admitted.spec.priority} from the given PriorityClass name",
            )
        return admitted


def _tolerate_trouble(spec: dict[str, Any]) -> None:
    """Have a pod stay on a node that is in trouble for five minutes, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        tolerated = (
            item.get("key", "") in (key, "") and item.get("effect", "") in ("NoExecute", "") for item in tolerations
        )
        if not any(tolerated):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            tolerations.append(toleration)
    spec["tolerations"] = tolerations


def _default(resource: Resource, data: dict[str, Any]) -> None:
    complete = DEFAULTS.get(resource.storage)
    if complete is not None:
        complete(data)


def _typed(resource: Resource, struct: type[KubeObject], data: Mapping[str, Any]) -> KubeObject:
    try:
        return msgspec.convert(data, struct)
    except (msgspec.ValidationError, ValueError) as error:
        raise _undecodable(resource, str(error)) from error


def _undecodable(resource: Resource, problem: str) -> ApiError:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {problem}'
    )


def _as_causes(thing: KubeObject) -> Iterator[Cause]:
    for problem in problems_of(thing):
        hint = f"; {problem.hint}" if problem.hint else ""
        yield Cause("FieldValueInvalid", f"Invalid value: {problem.text}{hint}", problem.path)


def _refuse(resource: Resource, data: Mapping[str, Any], causes: Iterator[Cause] | list[Cause]) -> None:
    found = list(causes)
    if found:
        metadata = data["metadata"]
        raise invalid(resource, metadata.get("name") or metadata.get("generateName", ""), found)
