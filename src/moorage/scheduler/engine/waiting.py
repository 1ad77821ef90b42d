"""Pods that wait on permit: each plugin has a timeout, and the first decision counts."""

import asyncio
from collections.abc import Collection, Mapping

from moorage.kube.api.pod import Pod
from moorage.scheduler.config.durations import Duration
from moorage.scheduler.framework.status import Status


class PermitWait:
    """A pod that waits on permit; satisfies :class:`moorage.scheduler.framework.handle.WaitingPod`."""

    def __init__(self, pod: Pod, waits: Mapping[str, float], loop: asyncio.AbstractEventLoop) -> None:
        self.pod = pod
        self._decided: asyncio.Future[Status | None] = loop.create_future()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        for plugin, seconds in waits.items():
            message = f"rejected due to timeout after waiting {Duration(round(seconds * 1e9))} at plugin {plugin}"
            self._timers[plugin] = loop.call_later(seconds, self.reject, plugin, message)

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not let the pod go yet."""
        return tuple(self._timers)

    @property
    def is_decided(self) -> bool:
        """Whether the wait is over."""
        return self._decided.done()

    def allow(self, plugin: str) -> None:
        """Let the pod go as far as this plugin is concerned. It binds when all have let it go."""
        if (timer := self._timers.pop(plugin, None)) is not None:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod. It goes back to the queue."""
        self._decide(Status.unschedulable(message).by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait with an error, so that the pod is retried. Return whether this was the first decision."""
        return self._decide(Status.error(message).by(plugin))

    async def decision(self) -> Status | None:
        """Wait until the pod may be bound, or is rejected."""
        return await self._decided

    def _decide(self, status: Status | None) -> bool:
        if self._decided.done():
            return False
        self._decided.set_result(status)
        for timer in self._timers.values():
            timer.cancel()
        return True


class WaitingPods:
    """All pods that wait on permit, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, PermitWait] = {}

    def hold(self, pod: Pod, waits: Mapping[str, float]) -> PermitWait:
        """Start holding a pod back."""
        wait = self._pods[pod.uid] = PermitWait(pod, waits, asyncio.get_running_loop())
        return wait

    def release(self, uid: str) -> None:
        """Stop listing a pod that was decided about."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> PermitWait | None:
        """Return a pod that waits."""
        return self._pods.get(uid)

    def all(self) -> Collection[PermitWait]:
        """Return every pod that waits."""
        return tuple(self._pods.values())

    def reject_waiting(self, uid: str, message: str) -> bool:
        """Reject a waiting pod, if it is one."""
        wait = self._pods.get(uid)
        if wait is not None:
            wait.reject("", message)
        return wait is not None
