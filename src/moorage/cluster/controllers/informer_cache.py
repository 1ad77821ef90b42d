"""The cluster as controllers see it: what informers delivered, and what the controllers' own writes were answered."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar, cast

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod

T = TypeVar("T", bound=KubeObject)

MAX_GONE: Final = 20_000
"""How many objects we remember to be gone; an answer that comes later than the event of its deletion is ignored."""


class ObjectIndex(Generic[T]):
    """All objects of one kind, to be found by name, namespace, owner and (pods) by node.

    Takes in an object from two sides, the watch and the answers to writes; the newest version wins.
    """

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._places: dict[tuple[str, str], dict[str, T]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: str) -> T | None:
        """Return the object of a key (``namespace/name`` or ``name``), or ``None``."""
        return self._objects.get(key)

    def in_namespace(self, namespace: str) -> Collection[T]:
        """Return all objects of a namespace."""
        return self._at("namespace", namespace)

    def owned_by(self, uid: str) -> Collection[T]:
        """Return all objects that name an owner."""
        return self._at("owner", uid)

    def orphans_in(self, namespace: str) -> Collection[T]:
        """Return the objects of a namespace that name no owner."""
        return self._at("orphans", namespace)

    def on_node(self, name: str) -> Collection[T]:
        """Return the pods of a node."""
        return self._at("node", name)

    def _at(self, what: str, name: str) -> Collection[T]:
        return self._places.get((what, name), {}).values()

    def has_seen(self, uid: str, version: int) -> bool:
        """Return whether an object is known as it was at a version, or since; or is known to be gone."""
        found = next((obj for obj in self._objects.values() if obj.uid == uid), None)
        return uid in self._gone or (found is not None and _version(found) >= version)

    def put(self, obj: T) -> None:
        """Take in a version of an object, unless a newer one is known or the object is known to be gone."""
        known = self._objects.get(obj.key)
        if obj.uid in self._gone:
            return
        if known is not None and known.uid == obj.uid and _version(known) >= _version(obj):
            return
        if known is not None:
            self._unlist(known)
        self._objects[obj.key] = obj
        for place in _places(obj):
            self._places.setdefault(place, {})[obj.key] = obj

    def drop(self, obj: KubeObject) -> None:
        """Take an object out for good."""
        self._gone[obj.uid] = None
        if len(self._gone) > MAX_GONE:
            self._gone.popitem(last=False)
        known = self._objects.get(obj.key)
        if known is not None and known.uid == obj.uid:
            del self._objects[obj.key]
            self._unlist(known)

    def _unlist(self, obj: T) -> None:
        for place in _places(obj):
            listed = self._places[place]
            del listed[obj.key]
            if not listed:
                del self._places[place]


class InformerCache:
    """Every kind of object that was asked for; ``view[Pod]`` are the pods.

    ``refusals`` has, by controller and key, why the server did not take what was last made for the key.
    """

    def __init__(self, objects: Iterable[KubeObject] = ()) -> None:
        self.refusals: dict[tuple[str, str], str] = {}
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


def _places(obj: KubeObject) -> list[tuple[str, str]]:
    places = [("owner", uid) for uid in {owner.uid for owner in obj.metadata.owner_references}]
    if not places:
        places.append(("orphans", obj.namespace))
    places.append(("namespace", obj.namespace))
    if isinstance(obj, Pod) and obj.node_name:
        places.append(("node", obj.node_name))
    return places
