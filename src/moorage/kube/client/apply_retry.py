"""Objects with changes that cannot be applied: they are relisted once, then ignored until they change."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.list_watch import Change

ApplyChange = Callable[[Change[Any]], None]

log = structlog.get_logger(__name__)


class ApplyRetry:
    """The existing objects that could not be applied. ``count`` counts the failures by resource."""

    def __init__(self, count: Callable[[str], None] = lambda _resource: None) -> None:
        self.relist: Callable[[Kind, str], None] = lambda _kind, _key: None
        """Requests the redelivery of an object of a kind by its key. Set by the informer."""
        self._count = count
        self.failed_objects: dict[tuple[Kind, str], str] = {}
        """Objects that failed, with the version at which they failed twice; empty while they are relisted."""

    def adjust(self, kind: Kind, change: Change[Any]) -> Change[Any] | None:
        """Return a change relative to the applied state of its object, or ``None`` if there is nothing to apply."""
        obj = _get_object(change)
        failed_at = self.failed_objects.get((kind, obj.key))
        if failed_at is None:
            return change
        if change.after is None:
            del self.failed_objects[kind, obj.key]
            return None
        return None if failed_at == obj.metadata.resource_version else Change(None, change.after)

    def succeeded(self, kind: Kind, change: Change[Any]) -> None:
        """Record that an object was applied."""
        self.failed_objects.pop((kind, _get_object(change).key), None)

    def failed(self, kind: Kind, change: Change[Any], apply: ApplyChange) -> None:
        """Log the current exception, revert the partial change, and relist the object, once."""
        obj = _get_object(change)
        key, version = (kind, obj.key), obj.metadata.resource_version
        log.exception("cannot apply a change", resource=kind.plural, object=obj.key, version=version)
        self._count(kind.plural)
        if change.after is None:
            self.failed_objects.pop(key, None)
            return
        for candidate in (change.after, change.before):
            if candidate is not None:
                with suppress(Exception):  # possibly nothing was applied
                    apply(Change(candidate, None, is_final=False))
        if key in self.failed_objects:
            log.error("an object is ignored until it changes", resource=kind.plural, object=obj.key)
            self.failed_objects[key] = version
        else:
            self.failed_objects[key] = ""
            self.relist(kind, obj.key)


def _get_object(change: Change[Any]) -> KubeObject:
    obj = change.before if change.after is None else change.after
    assert isinstance(obj, KubeObject)
    return obj
