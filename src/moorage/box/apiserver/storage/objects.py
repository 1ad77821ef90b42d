"""The store seen through our structs, behind the API's rules: what the simulator writes to.

What the API refuses is refused here with the same errors: an update of an old version is a :class:`Conflict`, a pod is
bound only once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.api.codec import convert, to_data
from moorage.api.devices import ResourceClaim
from moorage.api.kinds import BY_TYPE
from moorage.api.meta import Condition, KubeObject, format_time
from moorage.api.pod import Pod, PodStatus
from moorage.box.apiserver.storage import store as storage
from moorage.box.apiserver.storage.plain_data import apply_difference
from moorage.clock import Clock
from moorage.errors import AlreadyExists, Conflict, NotFound

T = TypeVar("T", bound=KubeObject)
SCHEDULED = "PodScheduled"


@dataclass(frozen=True, slots=True)
class Change:
    """One change: ``before`` is ``None`` for a creation, ``after`` for a deletion."""

    version: int
    before: KubeObject | None
    after: KubeObject | None


class ObjectStore:
    """All objects of a cluster, as structs."""

    def __init__(self, clock: Clock, store: storage.Store | None = None) -> None:
        self.store = store or storage.Store()
        self._clock = clock

    def subscribe(self, tell: Callable[[Change], None]) -> None:
        """Tell somebody of every change from now on, of the kinds that have a struct."""

        def typed(resource: str, change: storage.Change) -> None:
            kind = _kinds().get(resource)
            if kind is not None:
                before = change.before.typed(kind) if change.before is not None else None
                tell(Change(change.version, before, change.after.typed(kind) if change.after is not None else None))

        self.store.subscribe(typed)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return one object, or ``None``."""
        found = self.store.get(_storage(kind), f"{namespace}/{name}" if namespace else name)
        return found.typed(kind) if found is not None else None

    def list(self, kind: type[T]) -> Iterator[T]:
        """Go through all objects of a kind, oldest first."""
        return (entry.typed(kind) for entry in self.store.list(_storage(kind)))

    def current(self, thing: T) -> T:
        """Return an object as it is now; :class:`NotFound` if it is gone, or another one has its name."""
        found = self.get(type(thing), thing.name, thing.namespace)
        if found is None or (thing.uid and found.uid != thing.uid):
            raise NotFound(f'{type(thing).__name__.lower()}s "{thing.name}" not found')
        return found

    def create(self, thing: T) -> T:
        """Store a new object; it gets a uid and a creation time if it has none."""
        number = self.store.version + 1
        if not thing.name and thing.metadata.generate_name:
            thing = replace(thing, metadata=replace(thing.metadata, name=f"{thing.metadata.generate_name}{number}"))
        if self.store.get(_storage(type(thing)), thing.key) is not None:
            raise AlreadyExists(f'{type(thing).__name__.lower()}s "{thing.name}" already exists')
        meta = replace(
            thing.metadata,
            uid=thing.uid or f"uid-of-{number}",
            creation_timestamp=thing.metadata.creation_timestamp or format_time(self._clock.now()),
        )
        return self.store.put_typed(_storage(type(thing)), replace(thing, metadata=meta))

    def update(self, thing: T) -> T:
        """Replace an object by a changed one made from its current version."""
        before = self.current(thing)
        if thing.metadata.resource_version not in ("", before.metadata.resource_version):
            found, wanted = before.metadata.resource_version, thing.metadata.resource_version
            raise Conflict(f"{thing.key} was changed meanwhile: it has version {found}, the update is of {wanted}")
        return self._write(before, thing)

    def patch_pod_status(self, pod: Pod, patch: Mapping[str, Any]) -> Pod:
        """Merge something into a pod's status; conditions are merged by type."""
        before = self.current(pod)
        status = merged_status(before.status, patch, format_time(self._clock.now()))
        return before if status == before.status else self._write(before, replace(before, status=status))

    def patch_claim_status(self, claim: ResourceClaim, patch: Mapping[str, Any]) -> ResourceClaim:
        """Take consumers out of a claim's reservations, by strategic merge, whatever its version."""
        before = self.current(claim)
        gone = {entry["uid"] for entry in patch["reservedFor"] if entry.get("$patch") == "delete"}
        kept = tuple(consumer for consumer in before.status.reserved_for if consumer.uid not in gone)
        return self._write(before, replace(before, status=replace(before.status, reserved_for=kept)))

    def bind(self, pod: Pod, node_name: str) -> Pod:
        """Give a pod its node, once; that it is scheduled is noted in its status."""
        before = self.current(pod)
        if before.node_name:
            raise Conflict(f'pod {before.name} is already assigned to node "{before.node_name}"')
        if before.is_terminating:
            raise Conflict(f"pod {before.name} is being deleted, cannot be assigned to a host")
        scheduled = {"conditions": [{"type": SCHEDULED, "status": "True"}], "nominatedNodeName": ""}
        status = merged_status(before.status, scheduled, format_time(self._clock.now()))
        return self._write(before, replace(before.on_node(node_name), status=status))

    def mark_deleted(self, thing: T) -> T:
        """Note that deletion was asked for; whoever holds on to the object removes it later."""
        before = self.current(thing)
        if before.is_terminating:
            return before
        meta = replace(before.metadata, deletion_timestamp=format_time(self._clock.now()))
        return self._write(before, replace(before, metadata=meta))

    def remove(self, thing: KubeObject) -> None:
        """Take an object out for good."""
        self.current(thing)
        self.store.remove(_storage(type(thing)), thing.key)

    def _write(self, before: T, after: T) -> T:
        resource = _storage(type(after))
        entry = self.store.get(resource, after.key)
        if entry is None or entry.is_typed:
            return self.store.put_typed(resource, after)
        # It was written as JSON: the fields our structs do not know stay as they are.
        data = apply_difference(entry.data, to_data(before), to_data(after))
        return self.store.put(resource, after.key, data).typed(type(after))


@cache
def _storage(kind: type[KubeObject]) -> str:
    return storage.storage_of(kind)


def _kinds() -> Mapping[str, type[KubeObject]]:
    return _kinds_of(len(BY_TYPE))


@cache
def _kinds_of(_count: int) -> Mapping[str, type[KubeObject]]:
    """Find the struct of a resource; asked anew when plugins have added kinds."""
    return {storage.storage_of(kind): kind for kind in BY_TYPE}


def merged_status(status: PodStatus, patch: Mapping[str, Any], now: str) -> PodStatus:
    """Merge a patch into a status; a condition's transition time changes with its status only."""
    conditions = {condition.type: condition for condition in status.conditions}
    for content in patch.get("conditions", ()):
        new = convert(Condition, content)
        known = conditions.get(new.type)
        since = known.last_transition_time if known is not None and known.status == new.status else now
        conditions[new.type] = replace(new, last_transition_time=since)
    plain = {key: value for key, value in patch.items() if key != "conditions"}
    fields = convert(PodStatus, plain)
    names = {"nominatedNodeName": "nominated_node_name", "phase": "phase", "startTime": "start_time"}
    names["extendedResourceClaimStatus"] = "extended_resource_claim_status"
    changed = {names[key]: getattr(fields, names[key]) for key in plain}
    return replace(status, conditions=tuple(conditions.values()), **changed)
