"""Admission of new pods beyond defaults.

The priority is resolved from its class, matchLabelKeys are merged into selectors, pod-level requests are derived from
limits and containers, and fields of disabled features are dropped. Admission is idempotent.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from moorage.common.errors import InputError, did_you_mean
from moorage.kube.api.affinity import PodAffinity, PodAffinityTerm
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.container import Container
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.api.pod_groups import GroupSpec
from moorage.kube.api.quantity import NANO, Quantity
from moorage.kube.api.requests import CPU, HUGEPAGES, MEMORY, container_nanos, is_pod_level, limit_nanos
from moorage.kube.api.selectors import LabelSelector, LabelSelectorRequirement
from moorage.kube.features import FeatureGates

PREEMPTS: Final = "PreemptLowerPriority"
BUILT_IN_CLASSES: Final = tuple(
    PriorityClass(ObjectMeta(name=name), value=value, preemption_policy=PREEMPTS)
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
)
AnyAffinity = TypeVar("AnyAffinity", bound=PodAffinity)


class PodAdmission:
    """Admission of pods with the existing priority classes and the enabled features."""

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
        """Set priority and policy from the class. Existing values of a live pod are preserved."""
        spec = pod.spec
        if spec.priority is not None and (spec.preemption_policy is not None or not spec.priority_class_name):
            return pod
        name = spec.priority_class_name
        is_known = name and spec.priority is not None  # then the class may be deleted
        priority_class = self._classes.get(name) if is_known else self.class_named(name)
        policy = (priority_class.preemption_policy if priority_class is not None else None) or PREEMPTS
        resolved = resolve_priority(spec, priority_class) | {"preemption_policy": spec.preemption_policy or policy}
        return replace(pod, spec=replace(spec, **resolved))

    def class_named(self, name: str) -> PriorityClass | None:
        """Return a priority class. Without a name, the default class if it exists. InputError for an unknown name."""
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


def resolve_priority(spec: PodSpec | GroupSpec, priority_class: PriorityClass | None) -> dict[str, Any]:
    """Return the priority and the class name of a spec. Values that it has already are kept."""
    value, name = (priority_class.value, priority_class.name) if priority_class is not None else (0, "")
    return {
        "priority": value if spec.priority is None else spec.priority,
        "priority_class_name": spec.priority_class_name or name,
    }


def _steps(features: FeatureGates) -> Iterable[Callable[[Pod], Pod]]:
    """Select by feature gates the steps of pod admission after priority."""
    yield merge_affinity_label_keys
    if features.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge"):
        yield merge_spread_label_keys
    if not features.enabled("PodLevelResources"):
        yield _without("resources")
    elif features.enabled("PodLevelResourcesFixDefaulting"):
        yield default_pod_level
    else:
        yield _default_limited_pod_level
    if not features.enabled("VolumeBindMountOptions"):
        yield _without_mount_options
    if not features.enabled("ContainerRestartRules"):
        yield _without_restart_rules
    if not features.enabled("GenericWorkload"):
        yield _without("scheduling_group")


def _without(field: str) -> Callable[[Pod], Pod]:
    return lambda pod: replace(pod, spec=replace(pod.spec, **{field: None})) if getattr(pod.spec, field) else pod


def merge_affinity_label_keys(pod: Pod) -> Pod:
    """Merge the pod's labels into its affinity selectors as matchLabelKeys and mismatchLabelKeys require."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return pod
    near, away = (_merge_terms(item, pod.labels) for item in (affinity.pod_affinity, affinity.pod_anti_affinity))
    new_affinity = replace(affinity, pod_affinity=near, pod_anti_affinity=away)
    return replace(pod, spec=replace(pod.spec, affinity=new_affinity))


def merge_spread_label_keys(pod: Pod) -> Pod:
    """Merge the pod's labels into the selectors of its spread constraints as matchLabelKeys requires."""
    if not any(constraint.match_label_keys for constraint in pod.spec.topology_spread_constraints):
        return pod
    constraints = tuple(
        replace(item, label_selector=_narrow(item.label_selector, item.match_label_keys, "In", pod.labels))
        for item in pod.spec.topology_spread_constraints
    )
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
    selector = _narrow(term.label_selector, term.match_label_keys, "In", labels)
    return replace(term, label_selector=_narrow(selector, term.mismatch_label_keys, "NotIn", labels))


def _narrow(
    selector: LabelSelector | None, keys: Iterable[str], operator: str, labels: Mapping[str, str]
) -> LabelSelector | None:
    """Add an expression per label the pod has. A null selector selects nothing and remains null."""
    if selector is None:
        return None
    requirements = tuple(LabelSelectorRequirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return (
        replace(selector, match_expressions=(*selector.match_expressions, *requirements)) if requirements else selector
    )


def default_pod_level(pod: Pod) -> Pod:
    """Complete pod-level requests: CPU and memory from the containers, other resources from pod-level limits."""
    level = pod.spec.resources
    if level is None or not (level.requests or level.limits):
        return pod
    # Huge pages cannot be overcommitted: the pod needs as many as its containers.
    huge = {name: _quantity(nanos) for name, nanos in limit_nanos(pod).items() if name.startswith(HUGEPAGES)}
    limits = {name: amount for name, amount in huge.items() if name not in level.requests} | level.limits
    requests = {
        **{name: limit for name, limit in limits.items() if is_pod_level(name)},
        **{name: _quantity(nanos) for name, nanos in container_nanos(pod).items() if name in (CPU, MEMORY)},
        **level.requests,
    }
    return replace(pod, spec=replace(pod.spec, resources=replace(level, requests=requests, limits=limits)))


def _default_limited_pod_level(pod: Pod) -> Pod:
    """Complete pod-level requests as releases before 1.37 do: only those of pods with pod-level limits."""
    completed = default_pod_level(pod)
    return completed if completed.spec.resources and completed.spec.resources.limits else pod


def _without_mount_options(pod: Pod) -> Pod:
    def plain(container: Container) -> Container:
        mounts = tuple(replace(mount, bind_mount_options=()) for mount in container.volume_mounts)
        return replace(container, volume_mounts=mounts)

    is_used = any(mount.bind_mount_options for container in _all_containers(pod) for mount in container.volume_mounts)
    return _with_each_container(pod, plain) if is_used else pod


def _without_restart_rules(pod: Pod) -> Pod:
    is_used = any(container.restart_policy_rules for container in _all_containers(pod))
    return _with_each_container(pod, lambda container: replace(container, restart_policy_rules=())) if is_used else pod


def _all_containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _with_each_container(pod: Pod, change: Callable[[Container], Container]) -> Pod:
    new_spec = replace(
        pod.spec,
        containers=tuple(map(change, pod.spec.containers)),
        init_containers=tuple(map(change, pod.spec.init_containers)),
    )
    return replace(pod, spec=new_spec)


def _quantity(nanos: int) -> Quantity:
    return nanos // NANO if nanos % NANO == 0 else f"{nanos}n"
