"""The selector of default constraints: what a pod's services and its controller select it by."""

from typing import Final, NamedTuple

from moorage.common.caches import LRU, MAX_KEY_LABELS
from moorage.common.errors import SelectorError
from moorage.kube.api.cluster import Service
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, LabelSelector, label_matcher, label_set_matcher
from moorage.kube.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from moorage.scheduler.framework.handle import Handle

MAX_KNOWN: Final = 1024

LabelSet = frozenset[tuple[str, str]]
Key = tuple[str, LabelSet, str, str]


class _Known(NamedTuple):
    owner: KubeObject
    selector: LabelMatcher


class DefaultSelectors:
    """Deduces selectors, and remembers them for pods of the same labels and owner, until a service changes.

    A replica set changes whenever one of its pods does, so an owner is compared by its selector, not by its version.
    """

    def __init__(self, handle: Handle) -> None:
        self._services = handle.lister(Service)
        self._controllers = handle.lister(ReplicationController)
        self._replica_sets = handle.lister(ReplicaSet)
        self._stateful_sets = handle.lister(StatefulSet)
        self._services_version = -1
        self._unowned: LRU[tuple[str, LabelSet], LabelMatcher] = LRU("service selectors", MAX_KNOWN)
        self._owned: LRU[Key, _Known] = LRU("owner selectors", MAX_KNOWN)

    def of(self, pod: Pod) -> LabelMatcher:
        """Return the selector for a pod; ``EVERYTHING`` means that nothing selects it."""
        if self._services.version != self._services_version:
            self._services_version = self._services.version
            self._unowned.clear()
            self._owned.clear()
        metadata = pod.metadata
        labels = frozenset(metadata.labels.items())
        if metadata.owner_references and (owner := self._owner(pod)) is not None:
            return self._of_owned(pod, owner, labels)
        key = metadata.namespace, labels
        selector = self._unowned.find(key)
        if selector is None:
            selector = self._deduce(pod, None)
            if len(labels) <= MAX_KEY_LABELS:
                self._unowned.put(key, selector)
        return selector

    def _of_owned(self, pod: Pod, owner: KubeObject, labels: LabelSet) -> LabelMatcher:
        key = (pod.namespace, labels, type(owner).__name__, owner.name)
        known = self._owned.find(key)
        if known is None or not _same_selector(known.owner, owner):
            known = _Known(owner, self._deduce(pod, owner))
            if len(labels) <= MAX_KEY_LABELS:
                self._owned.put(key, known)
        return known.selector

    def _owner(self, pod: Pod) -> KubeObject | None:
        reference = pod.metadata.controller
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
        found = _also_owner(label_set_matcher(labels), _selector_of(owner))
        return EVERYTHING if found.is_everything else found


def _also_owner(found: LabelMatcher, selector: LabelSelector | None) -> LabelMatcher:
    try:
        owned = label_matcher(selector)
    except SelectorError:
        # Upstream goes on without a selector that it cannot read.
        return found
    return found if owned.is_nothing else LabelMatcher((*found.requirements, *owned.requirements))


def _selector_of(owner: KubeObject | None) -> LabelSelector | None:
    return owner.spec.selector if isinstance(owner, ReplicaSet | StatefulSet) else None


def _same_selector(left: KubeObject, right: KubeObject) -> bool:
    if left is right:
        return True
    if isinstance(left, ReplicationController) and isinstance(right, ReplicationController):
        return left.spec.selector == right.spec.selector
    return _selector_of(left) == _selector_of(right)
