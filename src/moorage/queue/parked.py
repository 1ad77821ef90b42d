"""Pods that wait for an event that could help them: rejected by plugins, or gated before their first attempt."""

from collections.abc import Iterable, Iterator

from moorage.queue.entries import KeyedHeap, QueuedPodInfo


class ParkedPods:
    """The unschedulable and the gated pods, found by name, by the plugin that rejected them, and by age."""

    def __init__(self) -> None:
        self._by_age = KeyedHeap()
        self._by_rejector: dict[tuple[str, str], dict[str, QueuedPodInfo]] = {}
        self._filed_under: dict[str, list[tuple[str, str]]] = {}
        self._gated: set[str] = set()
        self.entries = self._by_age.entries
        self.get = self._by_age.get

    def __len__(self) -> int:
        return len(self._by_age)

    def __contains__(self, key: str) -> bool:
        return key in self._by_age

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._by_age)

    @property
    def gated_count(self) -> int:
        """How many of the pods are gated."""
        return len(self._gated)

    def put(self, info: QueuedPodInfo) -> None:
        """Park a pod, or file it again after its rejectors, gate or age changed."""
        self._forget(info.key)
        self._by_age.put(info, info.waiting_since)
        profile = info.scheduler_name
        filed = self._filed_under[info.key] = [(profile, plugin) for plugin in info.rejectors]
        for place in filed:
            self._by_rejector.setdefault(place, {})[info.key] = info
        if info.is_gated:
            self._gated.add(info.key)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out by its name; return it, if it was there."""
        info = self._by_age.remove(key)
        if info is not None:
            self._forget(key)
        return info

    def rejected_by(self, places: Iterable[tuple[str, str]]) -> list[QueuedPodInfo]:
        """Return the pods that any of some (profile, plugin) rejected."""
        buckets = [bucket for place in places if (bucket := self._by_rejector.get(place))]
        if len(buckets) == 1:
            return list(buckets[0].values())
        found: dict[str, QueuedPodInfo] = {}
        for bucket in buckets:
            found.update(bucket)
        return list(found.values())

    def waiting_longer_than(self, seconds: float, now: float) -> list[QueuedPodInfo]:
        """Return the pods that have been here for too long; they stay until they are removed."""
        # Cheap when nobody has: the oldest is asked first.
        oldest = self._by_age.first_key()
        if oldest is None or not now - oldest > seconds:
            return []
        return [info for info in self if now - info.waiting_since > seconds]

    def oldest(self) -> float | None:
        """Return since when the pod that waited longest has been waiting."""
        moment: float | None = self._by_age.first_key()
        return moment

    def _forget(self, key: str) -> None:
        for place in self._filed_under.pop(key, ()):
            bucket = self._by_rejector[place]
            del bucket[key]
            if not bucket:
                del self._by_rejector[place]
        self._gated.discard(key)

    def check_invariants(self) -> None:
        """Verify that every pod is filed under each of its rejectors and nowhere else."""
        self._by_age.check_invariants()
        filed: dict[str, set[str]] = {info.key: set() for info in self}
        for (profile, plugin), bucket in self._by_rejector.items():
            for key, info in bucket.items():
                assert self.get(key) is info, f"{key} is filed under {plugin} but is not parked"
                assert info.scheduler_name == profile, f"{key} is filed under another profile"
                filed[key].add(plugin)
        for info in self:
            assert info.rejectors or info.is_group, f"{info.key} is parked though nobody rejected it"
            assert filed[info.key] == info.rejectors, f"{info.key} is filed under {filed[info.key]}"
            assert (info.key in self._gated) == info.is_gated, f"{info.key} is miscounted as gated or not"
        assert set(self._filed_under) == set(filed), "a pod is filed that is not parked"
        assert self._gated <= set(filed), "a pod counts as gated that is not parked"
