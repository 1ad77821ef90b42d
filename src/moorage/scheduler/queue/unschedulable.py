"""Unschedulable and gated pods, which wait for an event that may make them schedulable."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, Final

from moorage.scheduler.framework.events import HintIndex
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, pass_on_interrupt
from moorage.scheduler.queue.entities import QueuedEntity
from moorage.scheduler.queue.heap import KeyedHeap
from moorage.scheduler.queue.hints import Interest

ProfilePlugin = tuple[str, str]
"""The names of a profile and of one of its plugins."""

Bucket = dict[str, QueuedEntity]
ANY_KEY: Final = object()
"""The key of pods that any event may concern."""


FEW: Final = 8
"""Up to this number of pods are not narrowed by an index."""

Slot = tuple[ProfilePlugin, HintIndex, Hashable]


class HintIndexes:
    """The rejected pods under the keys of the hint indexes of the plugins that rejected them."""

    def __init__(self) -> None:
        self._filed: dict[Slot, dict[str, QueuedEntity]] = {}
        self._slots: dict[str, tuple[int, list[Slot]]] = {}
        self._count = 0

    def add(self, rejector: ProfilePlugin, index: HintIndex, entity: QueuedEntity) -> None:
        """File a pod."""
        if entity.key not in self._slots:
            self._count += 1
            self._slots[entity.key] = (self._count, [])
        keys = _call(index.keys, entity.pod)
        for key in (ANY_KEY,) if keys is None else keys:
            slot = (rejector, index, key)
            self._filed.setdefault(slot, {})[entity.key] = entity
            self._slots[entity.key][1].append(slot)

    def remove(self, key: str) -> None:
        """Remove a pod if it is filed."""
        for slot in dict.fromkeys(self._slots.pop(key, (0, ()))[1]):
            entities = self._filed[slot]
            del entities[key]
            if not entities:
                del self._filed[slot]

    def find(self, rejector: ProfilePlugin, indexes: Iterable[HintIndex], old: Any, new: Any) -> Bucket | None:
        """Return the pods that an event may concern, in the order in which they were filed, or ``None`` for all."""
        bucket: Bucket = {}
        for index in dict.fromkeys(indexes):
            keys = _call(index.affected, old, new)
            if keys is None:
                return None
            for key in (*keys, ANY_KEY):
                if (entities := self._filed.get((rejector, index, key))) is not None:
                    bucket |= entities
        return dict(sorted(bucket.items(), key=lambda item: self._slots[item[0]][0]))


def _call(function: Callable[..., Collection[Hashable] | None], *args: Any) -> Collection[Hashable] | None:
    # The hint has the same problem, and is called and reported.
    try:
        return function(*args)
    except PLUGIN_FAULTS as problem:
        pass_on_interrupt(problem)
        return None


class UnschedulablePods:
    """The unschedulable and gated pods, by key, by the plugin that rejected them, and by age."""

    def __init__(self, find_indexes: Callable[[str, str], Iterable[HintIndex]] | None = None) -> None:
        self._find_indexes = find_indexes
        self._indexed = HintIndexes()
        self._by_age = KeyedHeap()
        self._by_rejector: dict[ProfilePlugin, dict[str, QueuedEntity]] = {}
        self._rejectors: dict[str, list[ProfilePlugin]] = {}
        self._by_gate: dict[ProfilePlugin, dict[str, QueuedEntity]] = {}
        self._gates: dict[str, ProfilePlugin] = {}
        self._reconsidered: set[str] = set()
        self.entries = self._by_age.entries
        self.get = self._by_age.get

    def __len__(self) -> int:
        return len(self._by_age)

    def __contains__(self, key: str) -> bool:
        return key in self._by_age

    def __iter__(self) -> Iterator[QueuedEntity]:
        return iter(self._by_age)

    def put(self, entity: QueuedEntity) -> None:
        """Add an entity, or reindex it after its rejectors, gate or age changed."""
        self._remove_from_indexes(entity.key)
        self._by_age.put(entity, entity.rejection_time)
        profile = entity.scheduler_name
        if entity.gating_plugin:
            # No event of other groups can admit this one: without the name of the plugin, none returns it.
            is_for_own_events = entity.is_group and entity.needs_own_event
            gate = self._gates[entity.key] = (profile, "" if is_for_own_events else entity.gating_plugin)
            self._by_gate.setdefault(gate, {})[entity.key] = entity
            return
        rejectors = self._rejectors[entity.key] = [(profile, plugin) for plugin in entity.rejectors]
        for rejector in rejectors:
            self._by_rejector.setdefault(rejector, {})[entity.key] = entity
            for index in self._find_indexes(*rejector) if self._find_indexes is not None else ():
                self._indexed.add(rejector, index, entity)

    def remove(self, key: str) -> QueuedEntity | None:
        """Remove and return the entity with this key."""
        entity = self._by_age.remove(key)
        if entity is not None:
            self._remove_from_indexes(key)
        return entity

    def rejected_by(self, interest: Interest, old: Any, new: Any) -> list[QueuedEntity]:
        """Return the entities that a plugin rejected and that an event may concern, without gated ones."""
        buckets = []
        for plugin in interest.registered:
            if bucket := self._by_rejector.get(plugin):
                indexes = interest.indexes.get(plugin) if len(bucket) > FEW else None
                narrowed = self._indexed.find(plugin, indexes, old, new) if indexes else None
                buckets.append(bucket if narrowed is None else narrowed)
        if len(buckets) == 1:
            return list(buckets[0].values())
        entities: dict[str, QueuedEntity] = {}
        for bucket in buckets:
            entities.update(bucket)
        return list(entities.values())

    def find_gated(self, gate: ProfilePlugin, reconsidered: Callable[[], Iterable[str] | None]) -> list[QueuedEntity]:
        """Return the entities gated by a plugin that the plugin may admit now.

        ``reconsidered`` returns the keys that the plugin may admit since its last call, or None for all. A key is
        returned again until :meth:`still_gated` is called: the event may not have been the right one.
        """
        gated = self._by_gate.get(gate)
        if not gated:
            return []
        if (keys := reconsidered()) is None:
            return list(gated.values())
        self._reconsidered.update(key for key in keys if key in gated)
        return [gated[key] for key in self._reconsidered if key in gated]

    def still_gated(self, key: str) -> None:
        """Record that the plugin was called for a pod and rejects it as before."""
        self._reconsidered.discard(key)

    def find_older(self, seconds: float, now: float) -> list[QueuedEntity]:
        """Return the entities that have been unschedulable for longer than this. They are not removed."""
        # The usual result is empty: check only the oldest first.
        oldest = self._by_age.first_key()
        if oldest is None or not now - oldest > seconds:
            return []
        return [entity for entity in self if now - entity.rejection_time > seconds]

    def oldest(self) -> float | None:
        """Return since when the oldest entity has been unschedulable."""
        timestamp: float | None = self._by_age.first_key()
        return timestamp

    def _remove_from_indexes(self, key: str) -> None:
        for rejector in self._rejectors.pop(key, ()):
            _remove(self._by_rejector, rejector, key)
        self._indexed.remove(key)
        if (gate := self._gates.pop(key, None)) is not None:
            _remove(self._by_gate, gate, key)
            self._reconsidered.discard(key)

    def check_invariants(self) -> None:
        """Verify that every entity is indexed by its gate or by all of its rejectors, and by nothing else."""
        self._by_age.check_invariants()
        indexed: dict[str, set[str]] = {entity.key: set() for entity in self}
        for (profile, plugin), bucket in self._by_rejector.items():
            for key, entity in bucket.items():
                assert self.get(key) is entity, f"{key} is indexed by {plugin} but is not unschedulable"
                assert entity.scheduler_name == profile, f"{key} is indexed by another profile"
                indexed[key].add(plugin)
        for entity in self:
            assert entity.rejectors or entity.is_group, f"{entity.key} is unschedulable but no plugin rejected it"
            rejectors = set[str]() if entity.is_gated else entity.rejectors
            assert indexed[entity.key] == rejectors, f"{entity.key} is indexed by {indexed[entity.key]}"
            assert (entity.key in self._gates) == entity.is_gated, f"{entity.key} is in the wrong index"
        gates = {key: gate for gate, bucket in self._by_gate.items() for key in bucket}
        assert gates == self._gates, "the two indexes of gates differ"
        assert {*self._rejectors, *gates} == set(indexed), "a pod is indexed that is not unschedulable"
        assert self._reconsidered <= set(gates), "a reconsidered pod is not gated"


def _remove(index: dict[ProfilePlugin, dict[str, QueuedEntity]], plugin: ProfilePlugin, key: str) -> None:
    bucket = index[plugin]
    del bucket[key]
    if not bucket:
        del index[plugin]
