"""The kubelet of a simulation: the embedded cluster's :class:`Kubelet`, run by timers instead of a ControllerManager.

:class:`~moorage.cluster.controllers.kubelet.Kubelet` decides on each step of a pod. Only its execution differs: steps
are timers, the store replaces the informer cache, and most writes bypass the API. Pod steps are a quarter of the work.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import structlog

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.store import Entry, Store, storage_name
from moorage.cluster.controllers.actions import Create, Patch, RequeueAfter, Write, build_request
from moorage.cluster.controllers.informer_cache import InformerCache, ObjectIndex
from moorage.cluster.controllers.kubelet import Kubelet
from moorage.cluster.in_process import StoreWatch
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.client.list_watch import Change

T = TypeVar("T", bound=KubeObject)
PODS: Final = storage_name(Pod)
MIN_WAIT: Final = 0.001
_FIELDS: Final = {field.encode_name: field.name for field in msgspec.structs.fields(PodStatus)}
_RESOURCES: Final = frozenset(("allocatedResources", "resources", "initContainerStatuses"))
log = structlog.get_logger(__name__)


class SimulatedKubelets:
    """Starts, runs and stops every placed pod."""

    def __init__(self, api: Api, watch: StoreWatch, kubelet: Kubelet, write_seconds: Callable[[], float]) -> None:
        self._api = api
        self._kubelet = kubelet
        self._write_seconds = write_seconds
        self._cache = StoreCache(api.store)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._busy: set[str] = set()
        for kind in kubelet.kinds:
            watch.follow(kind, self._on_changes)

    @property
    def is_idle(self) -> bool:
        """Whether no step of any pod is in progress or due."""
        return not (self._timers or self._busy)

    def start(self) -> None:
        """Reconcile all placed pods."""
        for pod in (entry.typed(Pod) for entry in self._api.store.list(PODS)):
            if pod.node_name:
                self._reconcile(pod.key)

    def _on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            obj = change.after if change.after is not None else change.before
            assert obj is not None
            for key in self._kubelet.affected(obj, self._cache):
                if key not in self._busy:
                    self._reconcile(key)

    def _reconcile(self, key: str) -> None:
        """Reconcile a pod; its previous timer is cancelled."""
        loop = asyncio.get_running_loop()
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        for action in self._kubelet.reconcile(key, self._cache):
            if isinstance(action, RequeueAfter):
                # Timers may fire a rounding error early; without a minimum, the pod would spin.
                self._timers[key] = loop.call_later(max(action.seconds, MIN_WAIT), self._due, key)
            elif isinstance(action, Write):
                self._busy.add(key)
                loop.call_later(self._write_seconds(), self._write, key, action)

    def _due(self, key: str) -> None:
        del self._timers[key]
        if key not in self._busy:
            self._reconcile(key)

    def _write(self, key: str, action: Write) -> None:
        self._busy.discard(key)
        entry = self._api.store.get(PODS, key)
        if entry is None or isinstance(action, Create) or entry.typed(Pod).uid != action.obj.uid:
            return
        # The watch event of the write reconciles the pod again.
        if (
            isinstance(action, Patch)
            and action.subresource == "status"
            and merge_status(self._api.store, entry, action.patch["status"])
        ):
            return
        sent = build_request(action)
        response = self._api.answer(
            ApiRequest(sent.method, sent.path, body=sent.body, content_type=sent.content_type, user_agent="kubelet")
        )
        assert isinstance(response, ApiResponse), "kubelets do not watch"
        if response.status >= 300:
            log.warning("write of a kubelet rejected", path=sent.path, status=response.status)


def merge_status(store: Store, entry: Entry, patch: Mapping[str, Any]) -> bool:
    """Merge fields into the status of a pod that is stored as a struct, as the API does.

    False unless plain replacement is enough: unusual cases are left to the API.
    """
    if not entry.is_typed or _RESOURCES & patch.keys() or any(isinstance(item, dict) for item in patch.values()):
        return False
    pod = entry.typed(Pod)
    new_status = msgspec.convert(patch, PodStatus)
    changed = {_FIELDS[key]: getattr(new_status, _FIELDS[key]) for key in patch if key in _FIELDS}
    # Cached properties of a pod depend on its spec and its reported resources, not on these fields.
    store.put_typed(PODS, pod, status=msgspec.structs.replace(pod.status, **changed))
    return True


class StoreIndex(ObjectIndex[T]):
    """The stored objects of a kind. Only the methods that kubelets use are supported."""

    def __init__(self, store: Store, kind: type[T]) -> None:
        super().__init__()
        self._store = store
        self._kind = kind
        self._storage = storage_name(kind)

    def get(self, key: str) -> T | None:
        """Return the object of a key, or ``None``."""
        entry = self._store.get(self._storage, key)
        return None if entry is None else entry.typed(self._kind)

    def on_node(self, name: str) -> Collection[T]:
        """Return the pods of a node; used only when a node is added late, fails or recovers."""
        objects = (entry.typed(self._kind) for entry in self._store.list(self._storage))
        return [obj for obj in objects if isinstance(obj, Pod) and obj.node_name == name]


class StoreCache(InformerCache):
    """The store as an informer cache: no object is cached twice."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._indexes = {kind: StoreIndex(store, kind) for kind in (Pod, Node)}
