"""Custom resources, as typed structs of an author or as plain data."""

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

import msgspec

from moorage.kube.api.kinds import Kind, add_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta

T = TypeVar("T", bound=KubeObject)

_HEAD: Final = ("apiVersion", "kind", "metadata")


class CustomObject(KubeObject, frozen=True, dict=True, gc=True):
    """An object of a kind without a struct. ``content`` is all of it but ``metadata``, as plain data.

    >>> Quota = custom_kind("Quota", "quotas", "example.org/v1").type
    >>> quota = Quota.of({"metadata": {"name": "ads", "namespace": "shop"}, "spec": {"pods": 3}})
    >>> quota.key, quota["spec"]["pods"]
    ('shop/ads', 3)
    >>> quota.replace(spec={"pods": 4}).content
    {'spec': {'pods': 4}}
    """

    content: dict[str, Any] = {}

    def __post_init__(self) -> None:
        # Labels and version have one source, the metadata: values stored here would never be written.
        if reserved_fields := [field for field in _HEAD if field in self.content]:
            raise ValueError(
                f"content of a {type(self).__name__} has {', '.join(reserved_fields)}: make it by {_MAKER}"
            )

    def __getitem__(self, field: str) -> Any:
        return msgspec.to_builtins(self.metadata) if field == "metadata" else self.content[field]

    def get(self, field: str, default: Any = None) -> Any:
        """Return a field of the content, or the default if it is missing."""
        return self.content.get(field, default)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Create an object from plain data as in a manifest. ``apiVersion`` and ``kind`` are optional."""
        content = {field: value for field, value in data.items() if field not in _HEAD}
        return cls(metadata=msgspec.convert(data.get("metadata", {}), ObjectMeta), content=content)

    def replace(self, **fields: Any) -> Self:
        """Return the object with other fields, such as ``spec={…}``; for its metadata see ``msgspec.structs``."""
        return msgspec.structs.replace(self, content={**self.content, **fields})


_MAKER: Final = "CustomObject.of(…), and change metadata by msgspec.structs.replace(thing, metadata=…)"


class CustomKind(Kind, Generic[T], frozen=True):
    """A kind of objects of the type ``T``."""

    if TYPE_CHECKING:

        @property  # type: ignore[misc]
        def type(self) -> builtins.type[T]:
            """The struct of the objects."""


@overload
def custom_kind(
    name: str, plural: str, api_version: str, *, namespaced: bool = True, type: None = None
) -> CustomKind[CustomObject]: ...
@overload
def custom_kind(
    name: str, plural: str, api_version: str, *, namespaced: bool = True, type: type[T]
) -> CustomKind[T]: ...


def custom_kind(
    name: str, plural: str, api_version: str, *, namespaced: bool = True, type: type[Any] | None = None
) -> CustomKind[Any]:
    """Describe a kind of custom resource; ``handle.lister(kind.type)`` lists and watches it.

    ``type`` is a struct for typed objects. The default is :class:`CustomObject`.

    >>> kind = custom_kind("Quota", "quotas", "example.org/v1")
    >>> kind.path(namespace="shop")
    '/apis/example.org/v1/namespaces/shop/quotas'
    """
    group, _, version = api_version.rpartition("/")
    kind = CustomKind[Any](name, group, version, plural, namespaced, type or _plain_type(name, api_version))
    add_kind(kind)
    return kind


def _plain_type(name: str, api_version: str) -> type[CustomObject]:
    return type(name, (CustomObject,), {"__doc__": f"A {name} of {api_version}.", "__module__": __name__})


class RawPod(CustomObject, frozen=True, dict=True, gc=True):
    """A pod as plain data, with every field that the API has: ``handle.lister(RawPod).find(pod.key)["spec"]``.

    Listing it costs a second watch and the memory of all pods. :class:`~moorage.kube.api.pod.Pod` has the fields that
    matter for scheduling.
    """


class RawNode(CustomObject, frozen=True, dict=True, gc=True):
    """A node as plain data, with every field that the API has: ``handle.lister(RawNode).get(name)["status"]``."""


custom_kind("Pod", "pods", "v1", type=RawPod)
custom_kind("Node", "nodes", "v1", namespaced=False, type=RawNode)
