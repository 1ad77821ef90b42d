"""The messages to the shadow: every applied change, every assumed or forgotten pod, and requests.

It is observed from outside. Within an attempt the request is first: the shadow needs the cluster of the
attempt, before the pod was assumed.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final
from zlib import crc32

from moorage.common.child_process import encode_frame
from moorage.common.clock import Clock
from moorage.insight.shadow.messages import Assumed, DecisionRequest, Forgotten, Removed, encode_object
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject, format_micro_time
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, SearchResult
from moorage.scheduler.engine.observing import Apply, ApplyObserver, AttemptObserver
from moorage.scheduler.engine.outcomes import Outcome, Placed, Unschedulable
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.state.cache import CacheObserver

_PARTS: Final = 10_000


class ShadowFeed(AttemptObserver, ApplyObserver, CacheObserver):
    """Converts changes into messages while :attr:`send` is set. Otherwise it costs little."""

    def __init__(self, clock: Clock, percent: float) -> None:
        self._clock = clock
        self._share = int(percent * _PARTS / 100)
        self.send: Callable[[bytes], None] | None = None
        """Takes a message; must not block. ``None`` while there is no shadow."""
        self.accepts_requests: Callable[[], bool] = lambda: False
        """Returns whether another request may be sent now. A rejection counts it."""
        self._is_applying = False
        self._held_messages: list[bytes] | None = None
        self._numbers = 0
        self.pending_requests: dict[int, float] = {}
        """The pending requests, and the time of each by the machine's clock."""
        self._fits_nowhere = False

    def wrap_apply(self, apply: Apply) -> Apply:
        """Send every change on that could be applied."""

        def applied(before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
            if self.send is None:
                apply(before, after, is_final=is_final)
                return
            # The shadow works out itself how the change affects assumed pods.
            self._is_applying = True
            try:
                apply(before, after, is_final=is_final)
            finally:
                self._is_applying = False
            self.changed(before, after, is_final=is_final)

        return applied

    def changed(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """Send a change."""
        if after is not None:
            self._send_or_hold(encode_frame(encode_object(after)))
        elif before is not None:
            self._send_or_hold(encode_frame(Removed(BY_TYPE[type(before)].full_name, before.key, is_final)))

    def on_assume(self, pod: Pod) -> None:
        """Send an assumption."""
        if self.send is not None and not self._is_applying:
            self._send_or_hold(encode_frame(Assumed(pod.key, pod.node_name)))

    def on_forget(self, pod: Pod) -> None:
        """Send the end of an assumption."""
        if self.send is not None and not self._is_applying:
            self._send_or_hold(encode_frame(Forgotten(pod.key)))

    def _send_or_hold(self, message: bytes) -> None:
        if self._held_messages is not None:
            self._held_messages.append(message)
        elif self.send is not None:
            self.send(message)

    def on_attempt(self, queued: QueuedPodInfo) -> None:
        """Hold back the changes of an attempt until it is decided whether the shadow gets a request about it."""
        if self.send is not None:
            self._held_messages = []

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Note whether there is anything to choose from."""
        self._fits_nowhere = isinstance(result, NoNode)

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Send a request about the attempt, if it is eligible, and then its changes."""
        messages, self._held_messages = self._held_messages, None
        if messages is None or self.send is None:
            return
        # A rejection on the node after its choice does not affect the choice.
        is_choice = isinstance(outcome, Placed) or (isinstance(outcome, Unschedulable) and self._fits_nowhere)
        is_sampled = self._share >= _PARTS or crc32(queued.uid.encode()) % _PARTS < self._share
        is_resize = bool(queued.pod.node_name)
        if is_choice and is_sampled and not is_resize and self.accepts_requests():
            self._numbers += 1
            self.pending_requests[self._numbers] = monotonic()
            node = outcome.node_name if isinstance(outcome, Placed) else ""
            moment = format_micro_time(self._clock.wall())
            self.send(encode_frame(DecisionRequest(self._numbers, queued.key, node, moment)))
        for message in messages:
            self._send_or_hold(message)
