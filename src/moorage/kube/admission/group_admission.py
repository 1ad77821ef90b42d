"""Admission of pod groups: fields of disabled features are dropped, modes and priorities are set."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import fields, replace

from moorage.common.errors import InputError
from moorage.kube.admission.pod_admission import PREEMPTS, PodAdmission, resolve_priority
from moorage.kube.api.pod_groups import CompositePodGroup, DisruptionMode, PodGroup
from moorage.kube.api.struct import Data
from moorage.kube.features import FeatureGates
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import forbidden

POD_GROUPS: Final = "podgroups.scheduling.k8s.io"
COMPOSITES: Final = "compositepodgroups.scheduling.k8s.io"
WORKLOADS: Final = "workloads.scheduling.k8s.io"
WORDS: Final = {POD_GROUPS: "pod group", COMPOSITES: "composite pod group"}
"""Names of groups with a priority in messages."""
_GATES: Final[Mapping[str, str]] = {
    "compositePodGroupTemplates": "CompositePodGroup",
    "parentCompositePodGroupName": "CompositePodGroup",
    "preemptionPolicy": "PodGroupPreemptionPolicy",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "resourceClaimStatuses": "DRAWorkloadResourceClaims",
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
}

G = TypeVar("G", PodGroup, CompositePodGroup)


class GroupAdmission:
    """Admission of groups and of the scheduling settings of jobs for the enabled features."""

    def __init__(self, features: FeatureGates) -> None:
        self._off = frozenset(field for field, gate in _GATES.items() if not features.enabled(gate))
        self._has_policies = features.enabled("PodGroupPreemptionPolicy")
        self._jobs_have_groups = features.enabled("WorkloadWithJob")

    def admit(self, group: G, classes: PodAdmission) -> G:
        """Return a group as it would be stored. Existing values are kept. InputError for an unknown priority class."""
        spec = group.spec
        priority_class = classes.class_named(spec.priority_class_name) if spec.priority is None else None
        filled: dict[str, Any] = {
            "disruption_mode": spec.disruption_mode or DisruptionMode(single={}),
            "preemption_policy": spec.preemption_policy or PREEMPTS,
            **resolve_priority(spec, priority_class),
        }
        dropped = (field.name for field in fields(spec) if field.encode_name in self._off)
        filled |= {name: getattr(type(spec)(), name) for name in dropped}
        return replace(group, spec=replace(spec, **filled))

    def complete(self, resource: ServedResource, data: Data, old: Mapping[str, Any] | None = None) -> None:
        """Drop the fields of disabled features, unless the old object has them, and set defaults."""
        storage = resource.storage
        if storage in WORDS or storage == WORKLOADS:
            for part in ("spec", "status"):
                if isinstance(data.get(part), dict):
                    _drop(data[part], self._off, (old or {}).get(part))
        elif storage in ("jobs.batch", "cronjobs.batch"):
            spec = _job_spec(storage, data)
            if "scheduling" in spec and "scheduling" not in _job_spec(storage, old or {}):
                if self._jobs_have_groups:
                    _drop(spec["scheduling"], self._off, None)
                else:
                    del spec["scheduling"]
        if storage in WORDS:
            spec = data.setdefault("spec", {})
            spec.setdefault("disruptionMode", {"single": {}})
            if self._has_policies:
                spec.setdefault("preemptionPolicy", PREEMPTS)

    def set_priority(self, resource: ServedResource, data: Data, classes: PodAdmission) -> None:
        """Set priority, class and policy of a new group from its priority class. Reject other values."""
        spec, noun = data["spec"], WORDS[resource.storage]
        name = data["metadata"].get("name", "")
        class_name = spec.get("priorityClassName") or ""
        try:
            priority_class = classes.class_named(class_name)
        except InputError as error:
            raise forbidden(resource, name, f"no PriorityClass with name {class_name} was found") from error
        value = priority_class.value if priority_class is not None else 0
        if spec.get("priority", value) != value:
            reason = (
                f"priority set in the {noun} ({spec['priority']}) must match the priority computed ({value}) based on"
            )
            raise forbidden(resource, name, f"{reason} the priority class set in the spec")
        if priority_class is not None:
            spec["priorityClassName"] = priority_class.name
        spec["priority"] = value
        if self._has_policies:
            policy = (priority_class.preemption_policy if priority_class is not None else None) or PREEMPTS
            if spec["preemptionPolicy"] != policy:
                reason = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in"
                source = f"priority admission controller computed {policy} from the given PriorityClass name"
                raise forbidden(resource, name, f"{reason} {noun} spec; {source}")


def _job_spec(storage: str, data: Mapping[str, Any]) -> Data:
    job = (data.get("spec") or {}).get("jobTemplate") if storage == "cronjobs.batch" else data
    spec = (job or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _drop(data: Data, off: frozenset[str], old: Mapping[str, Any] | None) -> None:
    """Drop the fields of disabled features, also in templates, unless the old object has them."""
    for name in off & data.keys():
        if not (old or {}).get(name):
            del data[name]
    for kind in ("podGroupTemplates", "compositePodGroupTemplates"):
        old_items = {item.get("name"): item for item in (old or {}).get(kind) or ()}
        for item in data.get(kind) or ():
            if isinstance(item, dict):
                _drop(item, off, old_items.get(item.get("name")))
