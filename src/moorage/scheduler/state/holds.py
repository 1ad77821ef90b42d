"""Resources of nodes that plugins hold for something other than a pod, such as a reservation for future pods.

A hold is a placeholder pod in the cache and counts like any pod in filters and scores. It is never written to the API.
Its priority is the highest, which protects it from preemption.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.api.quantity import Quantity, nano_value
from moorage.scheduler.framework.plugin import Hold
from moorage.scheduler.state.cache import Cache

MAX_PRIORITY: Final = (1 << 31) - 1


class Holds:
    """The holds of all plugins. ``on_release`` is called with the placeholder pod of each released one."""

    def __init__(self, cache: Cache, on_release: Callable[[Pod], None]) -> None:
        self._cache = cache
        self._on_release = on_release
        self._holds: dict[str, Hold] = {}
        self._lifted: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return len(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds.values())

    def __contains__(self, uid: str) -> bool:
        return uid in self._holds

    def add(self, owner: object, plugin: str, node_name: str, requests: Mapping[str, Quantity]) -> Hold:
        """Hold resources of a node; ValueError if an amount is not a quantity, or negative."""
        for resource, amount in requests.items():
            if nano_value(amount) < 0:
                raise ValueError(f"{resource} is {amount}: a hold cannot be negative")
        self._count += 1
        # Without a namespace: no affinity or spread constraint of other pods applies to it.
        metadata = ObjectMeta(name=f"{plugin}-{self._count}".lower(), uid=f"hold-{self._count}")
        container = Container(name="hold", resources=ResourceRequirements(requests=dict(requests)))
        pod = Pod(metadata, PodSpec(containers=(container,), node_name=node_name, priority=MAX_PRIORITY))
        self._cache.add_pod(pod)
        hold = self._holds[pod.uid] = Hold(pod, owner, self.release)
        return hold

    def release(self, hold: Hold) -> None:
        """End a hold."""
        if self._holds.pop(hold._pod.uid, None) is None:
            return
        if hold._pod.uid in self._lifted:
            self._lifted.discard(hold._pod.uid)
        else:
            self._cache.remove_pod(hold._pod)
        self._on_release(hold._pod)

    def release_all(self, owner: object) -> None:
        """End all holds of an owner."""
        for hold in [hold for hold in self._holds.values() if hold._owner is owner]:
            self.release(hold)

    @contextmanager
    def lifted(self, holds: Iterable[Hold]) -> Iterator[None]:
        """Have the cluster be without some holds inside a ``with`` block. Those not released then return."""
        lifted = {hold._pod.uid: hold._pod for hold in holds if hold._pod.uid in self._holds}
        for pod in lifted.values():
            self._cache.remove_pod(pod)
        self._lifted.update(lifted)
        try:
            yield
        finally:
            for uid in self._lifted:
                self._cache.add_pod(lifted[uid])
            self._lifted.clear()
