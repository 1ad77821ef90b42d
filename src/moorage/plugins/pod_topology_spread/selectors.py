"""The selector of default constraints: what a pod's services and its controller select it by."""

from typing import Final, NamedTuple

from moorage.api.cluster import ReplicaSet, ReplicationController, Service, StatefulSet
from moorage.api.meta import KubeObject
from moorage.api.pod import Pod
from moorage.api.selectors import LabelMatcher, LabelSelector, label_matcher, label_set_matcher
from moorage.errors import SelectorError
from moorage.framework.handle import Handle

MOST_KNOWN: Final = 16384

Key = tuple[str, tuple[tuple[str, str], ...], str, str]


class _Known(NamedTuple):
    services_version: int
    owner: KubeObject | None
    selector: LabelMatcher


class DefaultSelectors:
    """Deduces selectors, and remembers them for pods of the same labels and owner.

    A replica set changes whenever one of its pods does, so an owner is compared by its selector, not by its version.
    """

    def __init__(self, handle: Handle) -> None:
        self._services = handle.lister(Service)
        self._controllers = handle.lister(ReplicationController)
        self._replica_sets = handle.lister(ReplicaSet)
        self._stateful_sets = handle.lister(StatefulSet)
        self._known: dict[Key, _Known] = {}

    def of(self, pod: Pod) -> LabelMatcher:
        """Return the selector for a pod; ``EVERYTHING`` means that nothing selects it."""
        owner = self._owner(pod)
        key = (
            pod.namespace,
            tuple(pod.labels.items()),
            type(owner).__name__ if owner else "",
            owner.name if owner else "",
        )
        known = self._known.get(key)
        version = self._services.version
        if known is not None and known.services_version == version and _same_selector(known.owner, owner):
            return known.selector
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        selector = self._deduce(pod, owner)
        self._known[key] = _Known(version, owner, selector)
        return selector

    def _owner(self, pod: Pod) -> KubeObject | None:
        reference = pod.metadata.controller if pod.metadata.owner_references else None
        if reference is None:
            return None
        match reference.api_version, reference.kind:
            case "v1", "ReplicationController":
                return self._controllers.get(reference.name, pod.namespace)
            case "apps/v1", "ReplicaSet":
                return self._replica_sets.get(reference.name, pod.namespace)
            case "apps/v1", "StatefulSet":
                return self._stateful_sets.get(reference.name, pod.namespace)
            case _:
                return None

    def _deduce(self, pod: Pod, owner: KubeObject | None) -> LabelMatcher:
        labels: dict[str, str] = {}
        for service in self._services.list(pod.namespace):
            selector = service.spec.selector
            if selector is not None and selector.items() <= pod.labels.items():
                labels.update(selector)
        if isinstance(owner, ReplicationController):
            labels.update(owner.spec.selector or {})
        return _also_owner(label_set_matcher(labels), _selector_of(owner))


def _also_owner(found: LabelMatcher, selector: LabelSelector | None) -> LabelMatcher:
    try:
        owned = label_matcher(selector)
    except SelectorError:
        # Upstream goes on without a selector that it cannot read.
        return found
    return found if owned.is_nothing else LabelMatcher((*found.requirements, *owned.requirements))


def _selector_of(owner: KubeObject | None) -> LabelSelector | None:
    return owner.spec.selector if isinstance(owner, ReplicaSet | StatefulSet) else None


def _same_selector(left: KubeObject | None, right: KubeObject | None) -> bool:
    if left is right:
        return True
    if isinstance(left, ReplicationController) and isinstance(right, ReplicationController):
        return left.spec.selector == right.spec.selector
    return left is not None and right is not None and _selector_of(left) == _selector_of(right)
