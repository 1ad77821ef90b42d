"""The fake kubelets of a simulation: decided by the embedded cluster's own, carried out without requests.

Starting, ending and stopping pods is a quarter of what a simulation does, so the driver of controllers, with its view,
its tasks and its requests, is replaced here: the store is the view, and a step of a pod's life is a timer. What a step
is, and when it is due, is for :class:`~moorage.cluster.controllers.kubelet.Kubelet` to say.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

import structlog

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.store import Entry, Store, storage_of
from moorage.cluster.apiserver.writing.typed import merge_status
from moorage.cluster.controllers.actions import ControllerAction, Create, Patch, RequeueAfter, Write, build_request
from moorage.cluster.controllers.informer_cache import InformerCache, ObjectIndex
from moorage.cluster.controllers.kubelet import Kubelet
from moorage.cluster.in_process import StoreWatch
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.list_watch import Change

T = TypeVar("T", bound=KubeObject)
PODS: Final = storage_of(Pod)
MIN_WAIT: Final = 0.001
log = structlog.get_logger(__name__)


class SimulatedKubelets:
    """Takes every pod that has a node through its life."""

    def __init__(self, api: Api, watch: StoreWatch, kubelet: Kubelet, write_seconds: Callable[[], float]) -> None:
        self._api = api
        self._kubelet = kubelet
        self._write_seconds = write_seconds
        self._view = StoreCache(api.store)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._busy: set[str] = set()
        for kind in kubelet.kinds:
            watch.follow(kind, self._on_changes)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done for any pod, now or later."""
        return not (self._timers or self._busy)

    def start(self) -> None:
        """Look at all pods that have a node already."""
        for pod in (entry.typed(Pod) for entry in self._api.store.list(PODS)):
            if pod.node_name:
                self._look(pod.key)

    def _on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            obj = change.after if change.after is not None else change.before
            assert obj is not None
            for key in self._kubelet.affected(obj, self._view):
                if key not in self._busy:
                    self._look(key)

    def _look(self, key: str) -> None:
        """Decide on a pod anew: what was decided before does not count any more."""
        known = self._timers.pop(key, None)
        if known is not None:
            known.cancel()
        for action in self._kubelet.reconcile(key, self._view):
            self._begin(key, action)

    def _begin(self, key: str, action: ControllerAction) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(action, RequeueAfter):
            # Timers may fire a rounding error early: whoever then waits for the rest must not spin.
            self._timers[key] = loop.call_later(max(action.seconds, MIN_WAIT), self._due, key)
        elif isinstance(action, Write):
            self._busy.add(key)
            loop.call_later(self._write_seconds(), self._carry_out, key, action)

    def _due(self, key: str) -> None:
        del self._timers[key]
        if key not in self._busy:
            self._look(key)

    def _carry_out(self, key: str, action: Write) -> None:
        self._busy.discard(key)
        entry = self._api.store.get(PODS, key)
        if entry is None:
            return
        is_same = not isinstance(action, Create) and entry.typed(Pod).uid == action.obj.uid
        if is_same and not self._is_merged(entry, action):
            self._request(action)
        # What has been written is looked at when the watch brings it, and so is another pod of the same name.

    def _is_merged(self, entry: Entry, action: Write) -> bool:
        if not isinstance(action, Patch) or action.subresource != "status":
            return False
        return merge_status(self._api.store, entry, action.patch["status"])

    def _request(self, action: Write) -> None:
        asked = build_request(action)
        answer = self._api.answer(
            ApiRequest(asked.method, asked.path, body=asked.body, content_type=asked.content_type, user_agent="kubelet")
        )
        assert isinstance(answer, ApiResponse), "a watch was not asked for"
        if answer.status >= 300:
            log.warning("kubelet was refused", path=asked.path, status=answer.status)


class StoreIndex(ObjectIndex[T]):
    """The objects of a kind as they are stored; only what kubelets ask of an index can be asked."""

    def __init__(self, store: Store, kind: type[T]) -> None:
        super().__init__()
        self._store = store
        self._kind = kind
        self._storage = storage_of(kind)

    def get(self, key: str) -> T | None:
        """Return the object of a key, or ``None``."""
        entry = self._store.get(self._storage, key)
        return None if entry is None else entry.typed(self._kind)

    def on_node(self, name: str) -> Collection[T]:
        """Return the pods of a node: asked for only when a node comes late, or falls silent."""
        found = (entry.typed(self._kind) for entry in self._store.list(self._storage))
        return [obj for obj in found if isinstance(obj, Pod) and obj.node_name == name]


class StoreCache(InformerCache):
    """A store where controllers expect their view: nothing is kept twice."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._indexes = {kind: StoreIndex(store, kind) for kind in (Pod, Node)}
