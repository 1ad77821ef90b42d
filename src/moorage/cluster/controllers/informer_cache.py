"""The objects that controllers read: the state of informers, merged with the responses to the controllers' writes."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar, cast

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod

T = TypeVar("T", bound=KubeObject)

MAX_GONE: Final = 20_000
"""UIDs of deleted objects to remember: a response may arrive after the deletion event of its object."""


class ObjectIndex(Generic[T]):
    """All objects of the same kind, indexed by name, namespace, owner and, for pods, node.

    Objects arrive from the watch and from responses to writes. The newest version wins.
    """

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._indexed: dict[tuple[str, str], dict[str, T]] = {}
        self._deleted_keys: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: str) -> T | None:
        """Return the object of a key (``namespace/name`` or ``name``), or ``None``."""
        return self._objects.get(key)

    def in_namespace(self, namespace: str) -> Collection[T]:
        """Return all objects of a namespace."""
        return self._select("namespace", namespace)

    def owned_by(self, uid: str) -> Collection[T]:
        """Return all objects that have an owner reference to a UID."""
        return self._select("owner", uid)

    def list_orphans(self, namespace: str) -> Collection[T]:
        """Return the objects of a namespace without owner references."""
        return self._select("orphans", namespace)

    def on_node(self, name: str) -> Collection[T]:
        """Return the pods of a node."""
        return self._select("node", name)

    def _select(self, index: str, name: str) -> Collection[T]:
        return self._indexed.get((index, name), {}).values()

    def has_seen(self, uid: str, version: int) -> bool:
        """Return whether a version of an object, a newer one, or its deletion has been observed."""
        cached = next((obj for obj in self._objects.values() if obj.uid == uid), None)
        return uid in self._deleted_keys or (cached is not None and _version(cached) >= version)

    def put(self, obj: T) -> None:
        """Store a version of an object, unless a newer version or its deletion has been observed."""
        cached = self._objects.get(obj.key)
        if obj.uid in self._deleted_keys:
            return
        if cached is not None and cached.uid == obj.uid and _version(cached) >= _version(obj):
            return
        if cached is not None:
            self._remove_from_index(cached)
        self._objects[obj.key] = obj
        for entry in _index_entries(obj):
            self._indexed.setdefault(entry, {})[obj.key] = obj

    def drop(self, obj: KubeObject) -> None:
        """Remove a deleted object. Later responses cannot bring it back."""
        self._deleted_keys[obj.uid] = None
        if len(self._deleted_keys) > MAX_GONE:
            self._deleted_keys.popitem(last=False)
        cached = self._objects.get(obj.key)
        if cached is not None and cached.uid == obj.uid:
            del self._objects[obj.key]
            self._remove_from_index(cached)

    def _remove_from_index(self, obj: T) -> None:
        for entry in _index_entries(obj):
            members = self._indexed[entry]
            del members[obj.key]
            if not members:
                del self._indexed[entry]


class InformerCache:
    """An index for each kind. ``cache[Pod]`` has the pods.

    ``rejections`` maps controller and key to the reason why the server rejected the last write.
    """

    def __init__(self, objects: Iterable[KubeObject] = ()) -> None:
        self.rejections: dict[tuple[str, str], str] = {}
        self._indexes: dict[type[KubeObject], ObjectIndex[Any]] = {}
        for obj in objects:
            self[type(obj)].put(obj)

    def __getitem__(self, kind: type[T]) -> ObjectIndex[T]:
        index = self._indexes.get(kind)
        if index is None:
            index = self._indexes[kind] = ObjectIndex()
        return cast("ObjectIndex[T]", index)


def _version(obj: KubeObject) -> int:
    return int(obj.metadata.resource_version or 0)


def _index_entries(obj: KubeObject) -> list[tuple[str, str]]:
    entries = [("owner", uid) for uid in {owner.uid for owner in obj.metadata.owner_references}]
    if not entries:
        entries.append(("orphans", obj.namespace))
    entries.append(("namespace", obj.namespace))
    if isinstance(obj, Pod) and obj.node_name:
        entries.append(("node", obj.node_name))
    return entries
