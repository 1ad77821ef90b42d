"""Creating, changing and deleting objects by the API's rules, on plain data."""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.admission.chain import Admission
from moorage.cluster.apiserver.admission.policies import Review
from moorage.cluster.apiserver.admission.validating_policies import ValidatingPolicies
from moorage.cluster.apiserver.requests.request import Target, is_dry_run
from moorage.cluster.apiserver.storage.store import Entry, Store
from moorage.cluster.apiserver.users import ADMINISTRATOR, ApiUser
from moorage.cluster.apiserver.writing.field_types import FieldTypes
from moorage.cluster.apiserver.writing.managed_fields import OWN_COMPONENTS, Writing, creation_entries, note_update
from moorage.cluster.apiserver.writing.mutating_policies import MutatingPolicies
from moorage.common.clock import Clock
from moorage.kube.admission.group_admission import COMPOSITES, POD_GROUPS, WORKLOADS
from moorage.kube.admission.type_defaults import (
    INITIAL_STATUS,
    KEEPS_STATUS,
    OWN_STATUS,
    copy_template_labels,
    count_template,
)
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.meta import format_time, parse_time
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, invalid_value, unsupported_value
from moorage.kube.resources import ServedResource, served
from moorage.kube.status_errors import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_options,
    not_found,
    precondition_failed,
)

SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SYSTEM_METADATA: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
POLICIES: Final = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))
APPS: Final = ("deployments", "replicasets", "statefulsets", "daemonsets")
OWNERS: Final = frozenset(
    {
        *("pods", "nodes", "replicationcontrollers", "jobs.batch", "cronjobs.batch"),
        *(POD_GROUPS, COMPOSITES, WORKLOADS),
        *(f"{name}.apps" for name in APPS),
    }
)
"""Kinds with dependents that the garbage collector handles. Finalizers on other kinds would never be removed."""
USER_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")
STATUS_KEEPS: Final[Mapping[str, tuple[str, ...]]] = {
    "deployments.apps": ("labels",),
    "pods": ("ownerReferences",),
    **dict.fromkeys(
        (
            *("customresourcedefinitions.apiextensions.k8s.io", "volumeattachments.storage.k8s.io"),
            *(POD_GROUPS, COMPOSITES),
            *("resourceclaims.resource.k8s.io", "devicetaintrules.resource.k8s.io"),
        ),
        USER_METADATA,
    ),
}
"""Metadata that a write to the status cannot change. That of custom kinds is also protected."""
WITHOUT_GENERATION: Final = frozenset((POD_GROUPS, COMPOSITES, WORKLOADS))
"""Kinds without a generation upstream."""
NEEDS_VERSION: Final = WITHOUT_GENERATION | frozenset(
    (
        "apiservices.apiregistration.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
        *(f"{plural}.coordination.k8s.io" for plural in ("leases", "leasecandidates")),
        *(
            f"{plural}.storage.k8s.io"
            for plural in ("csidrivers", "csinodes", "csistoragecapacities", "volumeattachments")
        ),
        *(
            f"{verb}{kind}.admissionregistration.k8s.io"
            for verb in ("mutating", "validating")
            for kind in ("webhookconfigurations", "admissionpolicies", "admissionpolicybindings")
        ),
    )
)
"""Kinds whose objects are replaced only with a resourceVersion."""
UNCOUNTED_SPECS: Final = WITHOUT_GENERATION | frozenset(
    (
        *("limitranges", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "resourcequotas"),
        *("services", "apiservices.apiregistration.k8s.io", "leases.coordination.k8s.io"),
        *("csidrivers.storage.k8s.io", "csinodes.storage.k8s.io"),
        *("resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"),
        *("certificatesigningrequests.certificates.k8s.io", "volumeattachments.storage.k8s.io"),
    )
)
"""Kinds for which upstream does not count changes of the spec."""
COUNTED_CONTENTS: Final = frozenset(
    (
        *("podtemplates", "endpointslices.discovery.k8s.io"),
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    )
)
"""Kinds without a spec whose changes are counted."""
COUNTED_OBJECTS: Final = COUNTED_CONTENTS | {"priorityclasses.scheduling.k8s.io"}
"""Kinds with a generation although they have no spec."""
JOB_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
JOB_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write."""

    is_dry_run: bool = False
    manager: str = ""
    subresource: str = ""
    is_apply: bool = False
    user: ApiUser = ADMINISTRATOR


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options of a deletion. The default of ``grace`` is the grace period of the object."""

    is_dry_run: bool = False
    grace: int | None = None
    policy: str = ""
    uid: str = ""
    version: str = ""
    user: ApiUser = ADMINISTRATOR

    @classmethod
    def read(cls, query: Mapping[str, str], body: Mapping[str, Any], user: ApiUser = ADMINISTRATOR) -> "DeleteOptions":
        """Read options from the body, with the query as default; 400 for invalid options."""
        preconditions = body.get("preconditions") or {}
        dry = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds") or None)
        policy = body.get("propagationPolicy") or query.get("propagationPolicy", "")
        if not isinstance(policy, str) or policy not in ("", *POLICIES):
            supported = ("Foreground", "Background", "Orphan", "nil")
            raise invalid_options("DeleteOptions", unsupported_value("propagationPolicy", policy, supported))
        if not isinstance(preconditions, dict) or not isinstance(dry, list):
            raise bad_request("DeleteOptions: preconditions are an object, dryRun is a list")
        if body.get("orphanDependents") is True and not policy:
            policy = "Orphan"
        return cls(
            is_dry_run=any(is_dry_run(str(item), "DeleteOptions") for item in dry),
            grace=None if grace is None else _grace_period(grace),
            policy=policy,
            uid=str(preconditions.get("uid", "")),
            version=str(preconditions.get("resourceVersion", "")),
            user=user,
        )


def _grace_period(value: Any) -> int:
    try:
        grace = int(value)
    except (TypeError, ValueError) as error:
        raise bad_request(f"gracePeriodSeconds: {value!r} is not a number of seconds") from error
    # Negative means immediately. Upstream stores it differently, without visible effect.
    return min(max(grace, 1 if grace < 0 else 0), 2**31 - 1)


class Writer:
    """The only way to change the store; enforces all rules that span versions of an object."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        clock: Clock,
        types: FieldTypes,
        chance: random.Random | None = None,
    ) -> None:
        self.store = store
        self.admission = admission
        self.clock = clock
        self._types = types
        self._chance = chance or random.Random()
        self._policies = ValidatingPolicies(store)
        self._mutating_policies = MutatingPolicies(store, types)

    def find(self, target: Target) -> Entry:
        """Return the object of a path; 404 if it does not exist."""
        entry = self.store.get(target.resource.storage, target.key)
        if entry is None:
            raise not_found(target.resource, target.name)
        return entry

    def create(self, target: Target, data: Data, options: WriteOptions) -> Entry:
        """Store a new object and return it as stored."""
        resource, metadata = target.resource, data["metadata"]
        if metadata.get("resourceVersion") and not options.is_dry_run:
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and isinstance(metadata.get("generateName"), str):
            suffix = "".join(self._chance.choices(SUFFIX_LETTERS, k=5))
            metadata["name"] = metadata["generateName"][:58] + suffix
        if not isinstance(metadata.get("name", ""), str):
            raise bad_request("metadata.name: a string is expected")
        self._check_namespace(target, metadata)
        # Only the server sets these fields.
        for name in (*SYSTEM_METADATA, "resourceVersion", "selfLink"):
            metadata.pop(name, None)
        if not options.is_apply:
            metadata.pop("managedFields", None)
            if options.manager not in ("", OWN_COMPONENTS):
                self._note_creation(resource, data, options)
        data = self._mutate("CREATE", target, data, None, options)
        if resource.has_status and resource.storage not in KEEPS_STATUS and not resource.is_custom:
            data.pop("status", None)
            if resource.storage in INITIAL_STATUS:
                data["status"] = dict(INITIAL_STATUS[resource.storage])
        data = self.admission.admit_new(resource, data)
        metadata = data["metadata"]
        self._check_policies("CREATE", target, data, None, options)
        key = resource.key(target.namespace, metadata["name"])
        if self.store.get(resource.storage, key) is not None:
            raise already_exists(resource, metadata["name"])
        metadata["uid"] = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        metadata["creationTimestamp"] = format_time(self.clock.now())
        has_counted_spec = "spec" in data and resource.storage not in UNCOUNTED_SPECS
        if has_counted_spec or resource.is_custom or resource.storage in COUNTED_OBJECTS:
            metadata["generation"] = 1
        _complete_identity(resource, data)
        if self.admission.quotas.limits(target.namespace):
            self.admission.quotas.check(resource, Entry(key, 0, encode_body(data)))
        if options.is_dry_run:
            return Entry(key, 0, encode_body(data))
        return self.store.put(resource.storage, key, data)

    def _note_creation(self, resource: ServedResource, data: Data, options: WriteOptions) -> None:
        """Set the owner of a new object: of the fields in the request and their defaults, not those of admission."""
        writing = Writing(resource, options.manager)
        defaulted = self.admission.with_defaults(resource, data)
        entries = creation_entries(writing, defaulted, self._types.find(data), self.clock)
        if entries:
            data["metadata"]["managedFields"] = entries

    def _check_namespace(self, target: Target, metadata: Data) -> None:
        if not target.resource.namespaced:
            metadata.pop("namespace", None)
            return
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        metadata["namespace"] = target.namespace
        entry = self.store.get("namespaces", target.namespace)
        if entry is None:
            raise not_found(_NAMESPACES, target.namespace)
        if b'"deletionTimestamp"' in entry.body and "deletionTimestamp" in entry.data["metadata"]:
            reason = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise forbidden(target.resource, metadata.get("name", ""), reason)

    def change(self, target: Target, edit: Callable[[Data], Data], options: WriteOptions) -> Entry:
        """Replace an object by the result of an edit, and return the stored object.

        An edit without differences is not a change. Removing the last finalizer of a terminating object deletes it.
        """
        resource, entry = target.resource, self.find(target)
        old = entry.data
        new = edit(entry.data)
        self._check_identity(target, old, new)
        if options.subresource != "binding":
            new = self._mutate("UPDATE", target, new, old, options)
        new = self._merge(resource, old, new, options)
        if options.subresource == "status":
            self.admission.admit_status(resource, old, new)
        elif options.subresource != "binding":
            new = self.admission.admit_changed(resource, old, new)
        self._check_policies("UPDATE", target, new, old, options)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old:
            return entry
        is_counted = new.get("spec") != old.get("spec") or (
            # Annotations of a Deployment are copied to its ReplicaSets.
            resource.storage == "deployments.apps"
            and options.subresource != "status"
            and new["metadata"].get("annotations") != old["metadata"].get("annotations")
        )
        is_counted |= resource.storage in COUNTED_CONTENTS and _content(new) != _content(old)
        if is_counted and "generation" in old["metadata"]:
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if resource.storage == "daemonsets.apps" and new["spec"]["template"] != old["spec"]["template"]:
            count_template(old, new)
        if self.admission.quotas.limits(target.namespace) and not options.subresource:
            self.admission.quotas.check(resource, Entry(entry.key, 0, encode_body(new)))
        if not options.is_apply:
            writing = Writing(resource, options.manager, options.subresource)
            note_update(writing, old, new, self._types.find(new), self.clock)
        if options.is_dry_run:
            return Entry(entry.key, entry.version, encode_body(new))
        metadata = new["metadata"]
        is_marked = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
        if is_marked and not metadata.get("finalizers") and _is_empty(resource, new):
            self.store.remove(resource.storage, entry.key)
            return Entry(entry.key, self.store.version, encode_body(new))
        return self.store.put(resource.storage, entry.key, new)

    def _mutate(self, operation: str, target: Target, new: Data, old: Data | None, options: WriteOptions) -> Data:
        if not self._mutating_policies.bound:
            return new
        review = _review(operation, target, new, old, options)
        return self._mutating_policies.mutate(review, partial(self.admission.prepare, target.resource))

    def _check_policies(
        self, operation: str, target: Target, new: Data | None, old: Data | None, options: WriteOptions | DeleteOptions
    ) -> None:
        if self._policies.bound:
            self._policies.check(_review(operation, target, new, old, options))

    def _check_identity(self, target: Target, old: Data, new: Data) -> None:
        resource, metadata = target.resource, new.get("metadata")
        if not isinstance(metadata, dict):
            raise bad_request("metadata: an object is expected")
        if not resource.namespaced:
            metadata.pop("namespace", None)
        if metadata.get("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the object does not match the namespace on the URL")
        was = old["metadata"]
        if metadata.get("uid", was["uid"]) != was["uid"]:
            reason = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {was['uid']}"
            raise conflict(resource, target.name, reason)
        if str(metadata.get("resourceVersion") or was["resourceVersion"]) != was["resourceVersion"]:
            raise conflict(resource, target.name)

    def _merge(self, resource: ServedResource, old: Data, new: Data, options: WriteOptions) -> Data:
        """Restrict a write to the fields that it may change: its subresource, or everything else."""
        metadata, was = new["metadata"], old["metadata"]
        protected: tuple[str, ...] = ()
        if options.subresource == "status":
            protected = USER_METADATA if resource.is_custom else STATUS_KEEPS.get(resource.storage, ())
        for name in ("name", "namespace", *SYSTEM_METADATA, *protected):
            if name in was:
                metadata[name] = was[name]
            else:
                metadata.pop(name, None)
        if options.subresource == "status":
            merged_object = {**old, "metadata": metadata, "status": new.get("status")}
            return {key: content for key, content in merged_object.items() if content is not None}
        new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
        if resource.storage == "namespaces" and options.subresource != "finalize":
            new["spec"] = old["spec"]
        if resource.has_status and options.subresource != "binding" and resource.storage != OWN_STATUS:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        return new

    def delete(self, target: Target, options: DeleteOptions) -> tuple[Data, bool]:
        """Delete an object, or mark it for deletion. Return it and whether it is deleted.

        A running pod gets its grace period. Objects wait for their finalizers, namespaces until they are empty.
        """
        resource, entry = target.resource, self.find(target)
        data = entry.data
        metadata = data["metadata"]
        if resource.storage == "namespaces" and target.name in IMMORTAL:
            raise forbidden(resource, target.name, "this namespace may not be deleted")
        preconditions = {"UID": (options.uid, metadata["uid"])}
        preconditions["ResourceVersion"] = (options.version, metadata["resourceVersion"])
        for name, (expected, actual) in preconditions.items():
            if expected and expected != actual:
                raise precondition_failed(resource, target.name, name, expected, actual)
        self._check_policies("DELETE", target, None, data, options)
        self._add_policy(resource, metadata, options.policy)
        grace = self._grace(resource, data, options)
        waits = grace > 0 or metadata.get("finalizers") or not _is_empty(resource, data)
        if not waits:
            if not options.is_dry_run:
                self.store.remove(resource.storage, entry.key)
            return data, True
        self._mark(resource, data, grace)
        if not options.is_dry_run and data != entry.data:
            self.store.put(resource.storage, entry.key, data)
        return data, False

    def _add_policy(self, resource: ServedResource, metadata: Data, policy: str) -> None:
        """Set the finalizer that makes the garbage collector handle the dependents."""
        if not policy or resource.storage not in OWNERS:
            return
        unchanged = [item for item in metadata.get("finalizers") or [] if item not in (ORPHAN, FOREGROUND)]
        finalizers = [*unchanged, POLICIES[policy]] if POLICIES[policy] else unchanged
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)

    def _grace(self, resource: ServedResource, data: Data, options: DeleteOptions) -> int:
        if resource.storage != "pods":
            return 0
        spec, metadata = data.get("spec") or {}, data["metadata"]
        if not spec.get("nodeName") or (data.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        grace = options.grace if options.grace is not None else spec.get("terminationGracePeriodSeconds", 30)
        if "deletionTimestamp" in metadata:
            # A later request can shorten the grace period, but not extend it.
            current = int(metadata.get("deletionGracePeriodSeconds", 0))
            return min(current, grace) if options.grace is not None else current
        return int(grace)

    def _mark(self, resource: ServedResource, data: Data, grace: int) -> None:
        metadata = data["metadata"]
        current = metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in metadata and (current is None or grace >= current):
            return
        asked_at = self.clock.now()
        if "deletionTimestamp" in metadata:
            asked_at = parse_time(metadata["deletionTimestamp"]) - (current or 0)
        metadata["deletionTimestamp"] = format_time(asked_at + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata and current is None:
            metadata["generation"] += 1
        if resource.storage == "namespaces":
            data["status"] = {**(data.get("status") or {}), "phase": "Terminating"}


def _review(
    operation: str, target: Target, new: Data | None, old: Data | None, options: WriteOptions | DeleteOptions
) -> Review:
    return Review(
        resource=target.resource,
        operation=operation,
        namespace=target.namespace,
        name=target.name or str((new or {}).get("metadata", {}).get("name", "")),
        new=new,
        old=old,
        user=options.user,
        subresource=options.subresource if isinstance(options, WriteOptions) else "",
        is_dry_run=options.is_dry_run,
    )


def _content(data: Data) -> Data:
    return {key: item for key, item in data.items() if key != "metadata"}


def _is_empty(resource: ServedResource, data: Data) -> bool:
    """Return whether a namespace has been emptied, or true for other kinds."""
    return resource.storage != "namespaces" or not (data.get("spec") or {}).get("finalizers")


def _complete_identity(resource: ServedResource, data: Data) -> None:
    """Set the fields that depend on the UID or the creation time of an object."""
    if resource.storage == "pods":
        for condition in data["status"].get("conditions") or ():
            condition["lastTransitionTime"] = data["metadata"]["creationTimestamp"]
    elif resource.storage == "jobs.batch":
        select_own_pods(data)
        if causes := list(_foreign_labels(data)):
            raise invalid(resource, data["metadata"]["name"], causes)
        copy_template_labels(data)


def select_own_pods(job: Data) -> None:
    """Set the default selector and labels of a job: its UID and its name."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    template = spec["template"].setdefault("metadata", {})
    labels = template.setdefault("labels", {})
    for name in (*JOB_NAME_LABELS, *JOB_LABELS):
        labels.setdefault(name, job["metadata"]["uid" if name in JOB_LABELS else "name"])
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(JOB_LABELS[0], job["metadata"]["uid"])


def _foreign_labels(job: Data) -> Iterator[FieldError]:
    """Yield the labels and the selector of a new job that belong to another one, such as an exported one."""
    spec = job["spec"]
    if spec.get("manualSelector"):
        return
    labels, uid = spec["template"]["metadata"]["labels"], job["metadata"]["uid"]
    for name in (*JOB_LABELS, *JOB_NAME_LABELS):
        expected = uid if name in JOB_LABELS else job["metadata"]["name"]
        if labels[name] != expected:
            yield invalid_value(f"spec.template.metadata.labels[{name}]", labels, f"must be '{expected}'")
    if spec["selector"] != {"matchLabels": {JOB_LABELS[0]: uid}}:
        yield invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated")


_NAMESPACES: Final = served(BY_NAME["Namespace"])


def encode_body(data: Data) -> bytes:
    """Encode plain data as JSON."""
    return msgspec.json.encode(data)
