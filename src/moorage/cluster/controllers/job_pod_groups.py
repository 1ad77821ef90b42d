"""Pod groups: created for jobs from workloads, and protected from deletion while they have pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import to_builtins

from moorage.cluster.controllers.actions import ControllerAction, Create, Patch
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import owner_reference, safe_name, without_finalizer
from moorage.common.clock import Clock
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, CreatedGroup, PodGroup, PodGroupTemplate, Workload
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import Job

PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
COMPOSITE_PROTECTION: Final = "scheduling.k8s.io/compositepodgroup-protection"
_COMPOSITE: Final = "composite:"
"""Marks the keys of composite groups. Their names may equal those of PodGroups."""
TEMPLATE_NAME: Final = "scheduling.k8s.io/group-template-name"
"""Annotation on a job if its owner has a workload: the pod group template of the job's pods."""
MAX_NAME: Final = 253


class PodGroupProtection(BaseController):
    """Removes the finalizer of a deleted group when it has no pending or running pods.

    With composite groups (from 1.38), a deleted composite group waits for the groups that name it as parent.
    """

    name = "protection of pod groups"
    kinds: tuple[type[KubeObject], ...] = (PodGroup, Pod)

    def __init__(self, clock: Clock, *, with_composites: bool = False) -> None:
        super().__init__(clock)
        if with_composites:
            self.kinds = (PodGroup, CompositePodGroup, Pod)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, Pod):
            return () if obj.group_key is None else (obj.group_key,)
        if CompositePodGroup not in self.kinds or not isinstance(obj, CreatedGroup):
            return (obj.key,)
        own = f"{_COMPOSITE}{obj.key}" if isinstance(obj, CompositePodGroup) else obj.key
        return (own,) if obj.parent_key is None else (own, f"{_COMPOSITE}{obj.parent_key}")

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Remove the finalizer of a group that is not in use."""
        if key.startswith(_COMPOSITE):
            yield from self._release_composite(key.removeprefix(_COMPOSITE), cache)
            return
        group = cache[PodGroup].get(key)
        if group is None or not group.is_terminating or PROTECTION not in group.metadata.finalizers:
            return
        pods = cache[Pod].in_namespace(group.namespace)
        if not any(pod.group_key == key and not pod.is_finished for pod in pods):
            yield without_finalizer(group, PROTECTION)

    def _release_composite(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        group = cache[CompositePodGroup].get(key)
        if group is None or not group.is_terminating or COMPOSITE_PROTECTION not in group.metadata.finalizers:
            return
        kinds: tuple[type[PodGroup | CompositePodGroup], ...] = (PodGroup, CompositePodGroup)
        if not any(child.parent_key == key for kind in kinds for child in cache[kind].in_namespace(group.namespace)):
            yield without_finalizer(group, COMPOSITE_PROTECTION)


@dataclass(frozen=True, slots=True)
class JobGroup:
    """The pod group of a job's pods, if any, and the actions that must precede the creation of pods."""

    name: str | None = None
    actions: tuple[ControllerAction, ...] = ()


def find_job_group(job: Job, cache: InformerCache, *, has_started: bool) -> JobGroup:
    """Return the pod group of a job's pods, or the actions that create it and its workload.

    A job that already has started keeps its mode. A job with another manager has a group only if the manager has a
    workload and the job's annotation names one of its templates.
    """
    if ((job.spec.template.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName"):
        return JobGroup()
    if job.metadata.controller is not None:
        return _find_delegate(job, cache, has_started=has_started)
    controllers = ((item, item.metadata.controller) for item in cache[Workload].owned_by(job.uid))
    workload = next((item for item, owner in controllers if owner is not None and owner.uid == job.uid), None)
    template = _template(job)
    if workload is None:
        return JobGroup() if has_started else JobGroup(actions=(Create(Workload, _workload(job, template)),))
    group = cache[PodGroup].get(f"{job.namespace}/{group_name(workload.name, template['name'])}")
    if group is None:
        # The workload owns the group, too, but does not control it.
        reference = owner_reference(workload)
        owner = {name: reference[name] for name in ("apiVersion", "kind", "name", "uid")}
        creation = Create(PodGroup, _group(job, workload, template, owner))
        return JobGroup() if has_started else JobGroup(actions=(creation,))
    return JobGroup(group.name, tuple(_count_changes(workload, group, template)))


def _find_delegate(job: Job, cache: InformerCache, *, has_started: bool) -> JobGroup:
    template_name, owner = job.annotations.get(TEMPLATE_NAME), job.metadata.controller
    if not template_name or owner is None:
        return JobGroup()
    for workload in cache[Workload].owned_by(owner.uid):
        template = next((item for item in workload.spec.pod_group_templates if item.name == template_name), None)
        if template is None:
            continue
        name = group_name(workload.name, template.name)
        if cache[PodGroup].get(f"{job.namespace}/{name}") is not None:
            return JobGroup(name)
        if not has_started:
            return JobGroup(actions=(Create(PodGroup, _group(job, workload, _as_data(template))),))
    return JobGroup()


def _template(job: Job) -> Data:
    """Return the pod group template of a job. The default policy is basic: pods are independent of each other."""
    scheduling = job.spec.scheduling or {}
    policy = scheduling.get("schedulingPolicy") or {"basic": {}}
    if "gang" in policy:
        policy = {"gang": {"minCount": (policy["gang"] or {}).get("minCount") or max(1, job.spec.parallelism)}}
    settings = ("schedulingConstraints", "disruptionMode", "resourceClaims")
    settings_in_use: Data = {name: scheduling[name] for name in settings if name in scheduling}
    if priority := (job.spec.template.get("spec") or {}).get("priorityClassName"):
        settings_in_use["priorityClassName"] = priority
    return {"name": f"{job.name}-pgt-0", "schedulingPolicy": policy, **settings_in_use}


def _workload(job: Job, template: Data) -> Data:
    kind = BY_TYPE[Job]
    return {
        "metadata": {
            "name": workload_name(job.name, job.uid),
            "namespace": job.namespace,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "controllerRef": {"apiGroup": kind.group, "kind": kind.name, "name": job.name},
            "podGroupTemplates": [template],
        },
    }


def _group(job: Job, workload: Workload, template: Data, *owners: Data) -> Data:
    settings = {name: content for name, content in template.items() if name != "name"}
    return {
        "metadata": {
            "name": group_name(workload.name, template["name"]),
            "namespace": job.namespace,
            "ownerReferences": [owner_reference(job), *owners],
        },
        "spec": {"workloadRef": {"workloadName": workload.name, "templateName": template["name"]}, **settings},
    }


def workload_name(owner: str, uid: str) -> str:
    """Return the name of the workload of an object."""
    suffix = safe_name(f"(types.UID){uid}")
    return f"{owner[: MAX_NAME - len(suffix) - 1]}-{suffix}"


def group_name(workload: str, template: str) -> str:
    """Return the name of the group of a template.

    >>> group_name("train-7464df7ddb", "train-pgt-0")
    'train-7464df7ddb-train-pgt-0-5fc59b7747'
    """
    suffix = safe_name(f"{workload}{template}")
    room = MAX_NAME - len(suffix) - 2
    half = room // 2
    if len(workload) + len(template) > room:
        # A name that needs at most half of the length is kept. The other one is truncated.
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{suffix}"


def _count_changes(workload: Workload, group: PodGroup, template: Data) -> Iterator[ControllerAction]:
    """Update the minCount of the workload and the group, the only field that may change."""
    count = (template["schedulingPolicy"].get("gang") or {}).get("minCount")
    if count is None or group.min_count is None:
        return
    policy = {"schedulingPolicy": {"gang": {"minCount": count}}}
    templates_before = workload.spec.pod_group_templates
    gangs = (item.scheduling_policy.gang for item in templates_before if item.name == template["name"])
    if any(gang is not None and gang.min_count not in (None, count) for gang in gangs):
        templates = [_as_data(item) | (policy if item.name == template["name"] else {}) for item in templates_before]
        yield Patch(workload, {"spec": {"podGroupTemplates": templates}}, if_unchanged=True)
    if group.min_count != count:
        yield Patch(group, {"spec": policy})


def _as_data(template: PodGroupTemplate) -> Data:
    data: Data = to_builtins(template)
    return data
