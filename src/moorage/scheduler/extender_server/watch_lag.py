"""The lag of the extender's watches behind those of kube-scheduler.

kube-scheduler retries a pod when one of its watches delivers an event. If the extender's own watch is slower, a
rejection would rest on the old state, and no further event would retry the pod. So the rejection of all nodes of a
request waits: briefly in general, and longer if kube-scheduler must have seen a change that is missing here.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from moorage.common.caches import LRU
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.observing import Apply, ApplyObserver

T = TypeVar("T")

MAX_LAG: Final = 1.0
"""Maximum delay of a response in seconds; below every usual ``httpTimeout``."""
SETTLE_SECONDS: Final = 0.02
"""Delay without a sign of a missing change."""
MAX_PODS: Final = 20_000


class WatchLag(ApplyObserver):
    """Counts applied changes, and delays rejections that may rest on an old state.

    If a rejected pod is retried although no change was applied, a change is probably missing. The change may also be
    of a kind that is not watched here, and such a change retries all pending pods. Therefore only the first retried
    pod waits: ``_waited`` is the number of retries at the current state for which the server waited.
    """

    def __init__(self) -> None:
        self._changes = 0
        self._applications = 0
        """The number of applied changes, including those of pending pods."""
        self._applied = asyncio.Event()
        self._rejections: LRU[str, tuple[int, int]] = LRU("extender rejections", MAX_PODS)
        self._waited = (0, 0)

    def wrap_apply(self, apply: Apply) -> Apply:
        """Count changes. Pending pods do not count, because kube-scheduler updates the status of each rejected pod."""

        def applied(before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
            apply(before, after, is_final=is_final)
            if not all(obj is None or (isinstance(obj, Pod) and not obj.node_name) for obj in (before, after)):
                self._changes += 1
            self._applications += 1
            self._applied.set()

        return applied

    def settle(
        self, uid: str, result: T, evaluate: Callable[[], tuple[T, bool]], is_behind: Callable[[], bool]
    ) -> Coroutine[Any, Any, T]:
        """Re-evaluate a rejected pod after each change, until it is not rejected or no change is expected.

        ``evaluate`` returns a result and whether the pod is rejected. ``is_behind`` returns whether the request names
        objects or versions that are not here yet. Call it right after the rejection: changes count from the call on,
        even if the coroutine starts later.
        """
        return self._settle(uid, result, evaluate, is_behind, (self._changes, self._applications))

    async def _settle(
        self,
        uid: str,
        result: T,
        evaluate: Callable[[], tuple[T, bool]],
        is_behind: Callable[[], bool],
        state: tuple[int, int],
    ) -> T:
        now = asyncio.get_running_loop().time
        end, has_settled, (before, evaluated) = now() + MAX_LAG, False, state
        rejected_at, repeats = self._rejections.find(uid) or (-1, 0)
        repeats = repeats + 1 if rejected_at == before else 0
        is_repeated = repeats > 0 and (before, repeats) > self._waited
        is_rejected = True
        while is_rejected:
            if not has_settled and not is_behind() and not (is_repeated and self._changes == before):
                end, has_settled = min(end, now() + SETTLE_SECONDS), True
            if self._applications == evaluated:
                self._applied.clear()
                try:
                    async with asyncio.timeout_at(end):
                        await self._applied.wait()
                except TimeoutError:
                    break
            evaluated = self._applications
            result, is_rejected = evaluate()
        if self._changes == before:
            self._waited = max(self._waited, (before, repeats))
        self._rejections.put(uid, (self._changes, repeats if self._changes == before else 0))
        return result
