"""From one configuration to the next: what waits is handed over entry by entry, and whoever is needed before.

Meanwhile the places below stand where the plain ones did: the former order, as it was left, and the new one beside it.
Entries leave the former one from the front, are asked about by the new plugins, and are sorted by the new order; so
nobody is popped whom the new plugins have not let in. As long as both sort alike, pods are popped in the very order in
which they would have been without a change.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.plugin import PreEnqueuePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.backoff import BackoffQueue
from moorage.scheduler.queue.entries import KeyedHeap, QueuedPodInfo

MOST_ASKED: Final = 64
"""So many entries are asked about at once to find one that can be popped."""

Admit = Callable[[QueuedPodInfo], bool]
"""Asks the new plugins about an entry, which is held back if one of them objects."""
SortKey = Callable[[QueuedPodInfo], Any]
Q = TypeVar("Q", KeyedHeap, BackoffQueue)


class NotServed(PreEnqueuePlugin):
    """Holds back the pods of a profile that is gone, until they are taken out of the queue."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Object."""
        return Status.unresolvable("the profile is gone")


NOT_SERVED: Final = NotServed()


class Handover(Generic[Q]):
    """Two orders that stand for one while entries go from the former to the following."""

    def __init__(self, former: Q, following: Q) -> None:
        self.former: Q = former
        self.following: Q = following

    def __len__(self) -> int:
        return len(self.former) + len(self.following)

    def __contains__(self, key: str) -> bool:
        return key in self.former or key in self.following

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self.former
        yield from self.following

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the entry of a pod, by its name."""
        return self.former.get(key) or self.following.get(key)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out by its name; return it, if it was there."""
        return self.former.remove(key) or self.following.remove(key)

    def check_invariants(self) -> None:
        """Verify both orders, and that no pod is in both."""
        self.former.check_invariants()
        self.following.check_invariants()
        assert not any(info.key in self.following for info in self.former), "a pod is in both orders"


class ActiveHandover(Handover[KeyedHeap]):
    """The active pods, some of which are still in the former order."""

    def __init__(
        self, former: KeyedHeap, former_key: SortKey, following: KeyedHeap, following_key: SortKey, admit: Admit
    ) -> None:
        super().__init__(former, following)
        self._former_key, self._following_key = former_key, following_key
        following.follow(former)
        self._admit = admit
        self.entries = following.entries

    def hand_over(self) -> bool:
        """Ask about the first of the former order; return whether it was let in, or there is none."""
        info = self.former.pop()
        if info is None:
            return True
        if not self._admit(info):
            return False
        self.following.put_popped(info, self._following_key(info), self.former)
        return True

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod."""
        for _ in range(MOST_ASKED):
            if self.hand_over():
                break
        return self.following.pop()

    def put(self, info: QueuedPodInfo, sort_key: Any) -> None:
        """Add a pod, or replace the one of its name, which is asked about in its turn."""
        if info.key in self.former:
            self.former.put(info, self._former_key(info))
        else:
            self.following.put(info, sort_key)


class BackoffHandover(Handover[BackoffQueue]):
    """The pods that back off, some of which are still in the former order; each does until the same moment."""

    def __init__(self, former: BackoffQueue, following: BackoffQueue, admit: Admit) -> None:
        super().__init__(former, following)
        self._admit = admit
        self.entries = following.entries
        self.expiry = following.expiry
        self.is_backing_off = following.is_backing_off

    def hand_over(self) -> bool:
        """Ask about the first of the former order; return whether it was let in, or there is none."""
        info = self.former.pop_any()
        if info is None:
            return True
        if not self._admit(info):
            return False
        self.following.put(info)
        return True

    def pop_early(self) -> QueuedPodInfo | None:
        """Take the pod whose penalty ends first, though it has not ended; never one after an error."""
        for _ in range(MOST_ASKED):
            if self.hand_over():
                break
        return self.following.pop_early()

    def release(self, now: float) -> Iterator[QueuedPodInfo]:
        """Take out all pods whose penalty is over, as far as they are let in."""
        yield from filter(self._admit, self.former.release(now))
        yield from self.following.release(now)

    def next_expiry(self) -> float | None:
        """Return when the first penalty ends, if anyone waits."""
        moments = (self.former.next_expiry(), self.following.next_expiry())
        return min((moment for moment in moments if moment is not None), default=None)

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod, or replace the one of its name, which is asked about in its turn."""
        (self.former if info.key in self.former else self.following).put(info)
