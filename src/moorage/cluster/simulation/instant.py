"""An API that does at once what the scheduler asks, and tells it so as a watch would: for trials at engine speed."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from moorage.cluster.simulation.one_pass import DryRunApi
from moorage.common.errors import NotFound
from moorage.kube.api.codec import convert, to_data
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.patches import merge_patch
from moorage.scheduler.engine.scheduler import Scheduler

K = TypeVar("K", bound=KubeObject)


class InstantApi(DryRunApi):
    """Keeps nothing itself: what the scheduler knows is what there is. ``scheduler`` is set once that is put together.

    ``on_bound`` and ``on_deleted`` are called after the scheduler knows; a pod that is deleted is gone at once.
    """

    scheduler: Scheduler

    def __init__(self) -> None:
        self.on_bound: Callable[[Pod], None] = lambda _pod: None
        self.on_deleted: Callable[[Pod], None] = lambda _pod: None
        self._version = 1

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod, and confirm it."""
        waiting = self._known(pod)
        if waiting is None or waiting.uid != pod.uid:
            raise NotFound(f"pod {pod.key} is gone")
        bound = waiting.on_node(node_name)
        self.scheduler.handlers.apply(waiting, bound)
        self.on_bound(bound)

    async def get(self, thing: K) -> K:
        """Return an object as the scheduler knows it."""
        known = self._known(thing)
        if known is None:
            raise NotFound(f"{thing.key} is gone")
        return known

    async def create(self, thing: K) -> K:
        """Take an object as created."""
        self.scheduler.handlers.apply(None, thing)
        return thing

    async def update(self, thing: K, *, subresource: str = "") -> K:
        """Take an object as changed."""
        return self._change(await self.get(thing), thing)

    async def patch(self, thing: K, patch: Mapping[str, Any], *, subresource: str = "") -> K:
        """Merge something into an object."""
        before = await self.get(thing)
        if set(patch) == {"metadata"} and set(patch["metadata"]) == {"annotations"}:
            annotations = {**before.metadata.annotations, **patch["metadata"]["annotations"]}
            kept = {name: text for name, text in annotations.items() if text is not None}
            return self._change(before, replace(before, metadata=replace(before.metadata, annotations=kept)))
        return self._change(before, convert(type(thing), merge_patch(to_data(before), msgspec.to_builtins(patch))))

    async def patch_status(self, thing: K, patch: Mapping[str, Any]) -> K:
        """Follow a nomination; conditions are for readers, and there are none."""
        if isinstance(thing, Pod) and "nominatedNodeName" in patch and (before := self._known(thing)) is not None:
            status = replace(before.status, nominated_node_name=patch["nominatedNodeName"] or "")
            self._change(before, replace(before, status=status))
        return self._known(thing) or thing

    async def delete(self, thing: KubeObject) -> None:
        """Let an object go."""
        known = self._known(thing)
        if known is None or known.uid != thing.uid:
            raise NotFound(f"{thing.key} is gone")
        self.scheduler.handlers.apply(known, None)
        if isinstance(known, Pod):
            self.on_deleted(known)

    def _known(self, thing: K) -> K | None:
        return self.scheduler.objects[type(thing)].find(thing.key)

    def _change(self, before: K, after: K) -> K:
        self._version += 1
        changed = replace(after, metadata=replace(after.metadata, resource_version=f"change-{self._version}"))
        self.scheduler.handlers.apply(before, changed)
        return changed
