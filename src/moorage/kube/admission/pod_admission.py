"""Admission of new pods beyond defaults.

The priority is resolved from its class, matchLabelKeys are merged into selectors, pod-level requests are derived from
limits and containers, and fields of disabled features are dropped. Admission is idempotent.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from moorage.common.errors import InputError, did_you_mean
from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import NANO, Quantity, ResourceList, nano_value
from moorage.kube.api.requests import CPU, MEMORY
from moorage.kube.api.selectors import LabelSelector, LabelSelectorRequirement
from moorage.kube.features import FeatureGates

PREEMPTS: Final = "PreemptLowerPriority"
BUILT_IN_CLASSES: Final = tuple(
    PriorityClass(ObjectMeta(name=name), value=value, preemption_policy=PREEMPTS)
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
)
HUGEPAGES: Final = "hugepages-"
AnyAffinity = TypeVar("AnyAffinity", bound=PodAffinity)


class PodAdmission:
    """The way in for pods, given the priority classes there are and the features that are on."""

    def __init__(self, classes: Iterable[PriorityClass], features: FeatureGates) -> None:
        self._classes = {item.name: item for item in (*BUILT_IN_CLASSES, *classes)}
        # A second global default is rejected at creation; if two exist anyway, the lowest value wins.
        defaults = [item for item in self._classes.values() if item.global_default]
        self._default = min(defaults, key=lambda item: item.value, default=None)
        self._steps = tuple(_steps(features))

    def admit(self, pod: Pod) -> Pod:
        """Return the pod as the API server would store it; InputError for a priority class that does not exist."""
        pod = self._with_priority(pod)
        for step in self._steps:
            pod = step(pod)
        return pod

    def _with_priority(self, pod: Pod) -> Pod:
        """Set priority and policy from the class; existing values of a live pod are preserved."""
        spec = pod.spec
        if spec.priority is not None and (spec.preemption_policy is not None or not spec.priority_class_name):
            return pod
        priority_class = self._class_of(pod)
        policy = (priority_class.preemption_policy if priority_class is not None else None) or PREEMPTS
        return replace(
            pod,
            spec=replace(
                spec,
                priority=spec.priority
                if spec.priority is not None
                else (priority_class.value if priority_class is not None else 0),
                priority_class_name=spec.priority_class_name
                or (priority_class.name if priority_class is not None else ""),
                preemption_policy=spec.preemption_policy or policy,
            ),
        )

    def _class_of(self, pod: Pod) -> PriorityClass | None:
        name = pod.spec.priority_class_name
        if name and pod.spec.priority is not None:
            return self._classes.get(name)
        return self.class_named(name)

    def class_named(self, name: str) -> PriorityClass | None:
        """Return a priority class, or the default one, if there is any, for no name; InputError for an unknown one."""
        if not name:
            return self._default
        if name in self._classes:
            return self._classes[name]
        class_names = sorted(self._classes)
        raise InputError(
            "spec.priorityClassName",
            f"no PriorityClass is named {name!r}",
            hint=did_you_mean(name, class_names) or f"add it to the input, or use one of {', '.join(class_names)}",
        )


def _steps(features: FeatureGates) -> Iterable[Callable[[Pod], Pod]]:
    """Select by feature gates the steps of pod admission after priority."""
    yield merge_affinity_label_keys
    if features.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge"):
        yield merge_spread_label_keys
    yield default_pod_level if features.enabled("PodLevelResources") else _without_pod_level
    if not features.enabled("VolumeBindMountOptions"):
        yield _without_mount_options
    if not features.enabled("ContainerRestartRules"):
        yield _without_restart_rules
    if not features.enabled("GenericWorkload"):
        yield _without_group


def merge_affinity_label_keys(pod: Pod) -> Pod:
    """Merge the pod's labels into its affinity selectors as matchLabelKeys and mismatchLabelKeys require."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return pod
    merged: Affinity = replace(
        affinity,
        pod_affinity=_merge_terms(affinity.pod_affinity, pod.labels),
        pod_anti_affinity=_merge_terms(affinity.pod_anti_affinity, pod.labels),
    )
    return replace(pod, spec=replace(pod.spec, affinity=merged))


def merge_spread_label_keys(pod: Pod) -> Pod:
    """Merge the pod's labels into the selectors of its spread constraints as matchLabelKeys requires."""
    if not any(constraint.match_label_keys for constraint in pod.spec.topology_spread_constraints):
        return pod
    constraints = tuple(_merge_constraint(item, pod.labels) for item in pod.spec.topology_spread_constraints)
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))


def _merge_terms(affinity: AnyAffinity | None, labels: Mapping[str, str]) -> AnyAffinity | None:
    if affinity is None:
        return None
    return replace(
        affinity,
        required=tuple(_merge_term(term, labels) for term in affinity.required),
        preferred=tuple(
            replace(preference, pod_affinity_term=_merge_term(preference.pod_affinity_term, labels))
            for preference in affinity.preferred
        ),
    )


def _merge_term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _narrowed(term.label_selector, term.match_label_keys, "In", labels)
    return replace(term, label_selector=_narrowed(selector, term.mismatch_label_keys, "NotIn", labels))


def _merge_constraint(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> TopologySpreadConstraint:
    selector = _narrowed(constraint.label_selector, constraint.match_label_keys, "In", labels)
    return replace(constraint, label_selector=selector)


def _narrowed(
    selector: LabelSelector | None, keys: Iterable[str], operator: str, labels: Mapping[str, str]
) -> LabelSelector | None:
    """Add an expression per label the pod has; a null selector selects nothing and stays null."""
    if selector is None:
        return None
    added = tuple(LabelSelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return replace(selector, match_expressions=(*selector.match_expressions, *added)) if added else selector


def default_pod_level(pod: Pod) -> Pod:
    """Complete pod-level requests: CPU and memory from the containers, the rest from pod-level limits."""
    level = pod.spec.resources
    if level is None or not (level.requests or level.limits):
        return pod
    limits = {**_huge_page_limits(pod, level), **level.limits}
    from_containers = _aggregate(pod, lambda container: container.resources.requests)
    requests = {
        **{name: limit for name, limit in limits.items() if _is_pod_level(name)},
        **{name: amount for name, amount in from_containers.items() if name in (CPU, MEMORY)},
        **level.requests,
    }
    return replace(pod, spec=replace(pod.spec, resources=replace(level, requests=requests, limits=limits)))


def _without_pod_level(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, resources=None)) if pod.spec.resources is not None else pod


def _without_mount_options(pod: Pod) -> Pod:
    def plain(container: Container) -> Container:
        mounts = tuple(replace(mount, bind_mount_options=()) for mount in container.volume_mounts)
        return replace(container, volume_mounts=mounts)

    is_used = any(mount.bind_mount_options for container in _all_containers(pod) for mount in container.volume_mounts)
    return _with_each_container(pod, plain) if is_used else pod


def _without_restart_rules(pod: Pod) -> Pod:
    is_used = any(container.restart_policy_rules for container in _all_containers(pod))
    return _with_each_container(pod, lambda container: replace(container, restart_policy_rules=())) if is_used else pod


def _without_group(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_group=None)) if pod.spec.scheduling_group else pod


def _all_containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _with_each_container(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    changed = replace(
        pod.spec,
        containers=tuple(map(change, pod.spec.containers)),
        init_containers=tuple(map(change, pod.spec.init_containers)),
    )
    return replace(pod, spec=changed)


def _huge_page_limits(pod: Pod, level: ResourceRequirements) -> ResourceList:
    """Set the pod-level huge pages to the sum of its containers: they cannot be overcommitted."""
    totals = _aggregate(pod, lambda container: container.resources.limits)
    return {
        name: amount for name, amount in totals.items() if name.startswith(HUGEPAGES) and name not in level.requests
    }


def _is_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES)


def _aggregate(pod: Pod, amounts_of: Callable[[Container], ResourceList]) -> ResourceList:
    """Add containers and sidecars up; a resource needs at least what the hungriest moment of starting up takes."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        _add(total, amounts_of(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        running = dict(sidecars)
        _add(running, amounts_of(container))
        if container.is_sidecar:
            _add(total, amounts_of(container))
            sidecars = running
        peak = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**peak, **running}}
    names = {**total, **peak}
    return {name: _quantity(max(total.get(name, 0), peak.get(name, 0))) for name in names}


def _add(total: dict[str, int], amounts: ResourceList) -> None:
    for name, quantity in amounts.items():
        total[name] = total.get(name, 0) + nano_value(quantity)


def _quantity(nanos: int) -> Quantity:
    return nanos // NANO if nanos % NANO == 0 else f"{nanos}n"
