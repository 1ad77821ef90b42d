"""Versioned objects and the changes made to them, by the API's rules; without any I/O.

Every change gets the next resourceVersion and is told to the subscribers at once. What the API refuses is refused here
with the same errors: an update of an old version is a :class:`Conflict`, a pod is bound only once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.api.codec import convert
from moorage.api.devices import ResourceClaim
from moorage.api.meta import Condition, KubeObject, format_time
from moorage.api.pod import Pod, PodStatus
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

    @property
    def thing(self) -> KubeObject:
        """The object as it is now, or was last."""
        thing = self.after or self.before
        assert thing is not None
        return thing


class Store:
    """All objects of a cluster."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._objects: dict[type[KubeObject], dict[str, KubeObject]] = {}
        self._subscribers: list[Callable[[Change], None]] = []
        self.version = 0

    def subscribe(self, tell: Callable[[Change], None]) -> None:
        """Tell somebody of every change from now on."""
        self._subscribers.append(tell)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return one object, or ``None``."""
        key = f"{namespace}/{name}" if namespace else name
        return self._objects.get(kind, {}).get(key)  # type: ignore[return-value]

    def list(self, kind: type[T]) -> Iterator[T]:
        """Go through all objects of a kind, oldest first."""
        return iter(tuple(self._objects.get(kind, {}).values()))  # type: ignore[arg-type]

    def current(self, thing: T) -> T:
        """Return an object as it is now; :class:`NotFound` if it is gone, or another one has its name."""
        found = self.get(type(thing), thing.name, thing.namespace)
        if found is None or (thing.uid and found.uid != thing.uid):
            raise NotFound(f'{type(thing).__name__.lower()}s "{thing.name}" not found')
        return found

    def create(self, thing: T) -> T:
        """Store a new object; it gets a uid and a creation time if it has none."""
        number = self.version + 1
        if not thing.name and thing.metadata.generate_name:
            thing = replace(thing, metadata=replace(thing.metadata, name=f"{thing.metadata.generate_name}{number}"))
        if self.get(type(thing), thing.name, thing.namespace) is not None:
            raise AlreadyExists(f'{type(thing).__name__.lower()}s "{thing.name}" already exists')
        meta = replace(
            thing.metadata,
            uid=thing.uid or f"uid-of-{number}",
            creation_timestamp=thing.metadata.creation_timestamp or format_time(self._clock.now()),
        )
        return self._write(None, replace(thing, metadata=meta))

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
        before = self.current(thing)
        del self._objects[type(thing)][thing.key]
        self.version += 1
        self._tell(Change(self.version, before, None))

    def _write(self, before: T | None, after: T) -> T:
        self.version += 1
        stored = replace(after, metadata=replace(after.metadata, resource_version=str(self.version)))
        self._objects.setdefault(type(stored), {})[stored.key] = stored
        self._tell(Change(self.version, before, stored))
        return stored

    def _tell(self, change: Change) -> None:
        for tell in self._subscribers:
            tell(change)


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
