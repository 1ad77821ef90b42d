"""Pods that wait for an event that could help them: rejected by plugins, or gated before their first attempt."""

from collections.abc import Callable, Iterable, Iterator

from moorage.scheduler.queue.entries import KeyedHeap, QueuedPodInfo


class ParkedPods:
    """The unschedulable and the gated pods, found by name, by the plugin that rejected them, and by age."""

    def __init__(self) -> None:
        self._by_age = KeyedHeap()
        self._by_rejector: dict[tuple[str, str], dict[str, QueuedPodInfo]] = {}
        self._filed_under: dict[str, list[tuple[str, str]]] = {}
        self._gated: dict[tuple[str, str], dict[str, QueuedPodInfo]] = {}
        self._gate_of: dict[str, tuple[str, str]] = {}
        self._reconsidered: set[str] = set()
        self.entries = self._by_age.entries
        self.get = self._by_age.get

    def __len__(self) -> int:
        return len(self._by_age)

    def __contains__(self, key: str) -> bool:
        return key in self._by_age

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._by_age)

    def put(self, info: QueuedPodInfo) -> None:
        """Park a pod, or file it again after its rejectors, gate or age changed."""
        self._forget(info.key)
        self._by_age.put(info, info.waiting_since)
        profile = info.scheduler_name
        if info.gating_plugin:
            gate = self._gate_of[info.key] = (profile, info.gating_plugin)
            self._gated.setdefault(gate, {})[info.key] = info
            return
        filed = self._filed_under[info.key] = [(profile, plugin) for plugin in info.rejectors]
        for place in filed:
            self._by_rejector.setdefault(place, {})[info.key] = info

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out by its name; return it, if it was there."""
        info = self._by_age.remove(key)
        if info is not None:
            self._forget(key)
        return info

    def rejected_by(self, places: Iterable[tuple[str, str]]) -> list[QueuedPodInfo]:
        """Return the pods that any of some (profile, plugin) rejected; not those that are gated."""
        buckets = [bucket for place in places if (bucket := self._by_rejector.get(place))]
        if len(buckets) == 1:
            return list(buckets[0].values())
        found: dict[str, QueuedPodInfo] = {}
        for bucket in buckets:
            found.update(bucket)
        return list(found.values())

    def gated_by(self, gate: tuple[str, str], reconsidered: Callable[[], Iterable[str] | None]) -> list[QueuedPodInfo]:
        """Return the pods that a plugin of a profile holds back, if it may let them in by now.

        ``reconsidered`` names those that it may let in since it was asked last; None stands for all. They stay among
        the ones to ask about until :meth:`still_gated` says otherwise: no event may have helped them yet.
        """
        gated = self._gated.get(gate)
        if not gated:
            return []
        if (keys := reconsidered()) is None:
            return list(gated.values())
        self._reconsidered.update(key for key in keys if key in gated)
        return [gated[key] for key in self._reconsidered if key in gated]

    def still_gated(self, key: str) -> None:
        """Note that a pod was asked about, and is held back as before."""
        self._reconsidered.discard(key)

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
            _take_out(self._by_rejector, place, key)
        if (gate := self._gate_of.pop(key, None)) is not None:
            _take_out(self._gated, gate, key)
            self._reconsidered.discard(key)

    def check_invariants(self) -> None:
        """Verify that every pod is filed under its gate, or else under each of its rejectors, and nowhere else."""
        self._by_age.check_invariants()
        filed: dict[str, set[str]] = {info.key: set() for info in self}
        for (profile, plugin), bucket in self._by_rejector.items():
            for key, info in bucket.items():
                assert self.get(key) is info, f"{key} is filed under {plugin} but is not parked"
                assert info.scheduler_name == profile, f"{key} is filed under another profile"
                filed[key].add(plugin)
        for info in self:
            assert info.rejectors or info.is_group, f"{info.key} is parked though nobody rejected it"
            rejectors = set[str]() if info.is_gated else info.rejectors
            assert filed[info.key] == rejectors, f"{info.key} is filed under {filed[info.key]}"
            assert (info.key in self._gate_of) == info.is_gated, f"{info.key} is miscounted as gated or not"
        gates = {key: gate for gate, bucket in self._gated.items() for key in bucket}
        assert gates == self._gate_of, "both ways of looking a gate up differ"
        assert {*self._filed_under, *gates} == set(filed), "a pod is filed that is not parked"
        assert self._reconsidered <= set(gates), "a pod is to be asked about that is not gated"


def _take_out(buckets: dict[tuple[str, str], dict[str, QueuedPodInfo]], place: tuple[str, str], key: str) -> None:
    bucket = buckets[place]
    del bucket[key]
    if not bucket:
        del buckets[place]
