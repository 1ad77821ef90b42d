"""Custom resources: kinds that somebody defined in their cluster, read as plain data."""

from typing import Any

import msgspec

from moorage.api.codec import convert, without_nulls
from moorage.api.kinds import Kind, add_kind
from moorage.api.meta import KubeObject, ObjectMeta


class CustomObject(KubeObject, frozen=True, dict=True, gc=True):
    """An object of a kind we have no struct for; ``content`` is all of it, as plain data."""

    content: dict[str, Any] = {}

    def __getitem__(self, field: str) -> Any:
        return self.content[field]


def custom_kind(name: str, plural: str, api_version: str, *, namespaced: bool = True) -> Kind:
    """Describe a kind of custom resource; ask the handle for ``lister(kind.type)`` to list and watch it.

    A plugin that would rather have typed objects makes a :class:`~moorage.api.meta.KubeObject` of its own and hands it
    to :func:`~moorage.api.kinds.add_kind`.

    >>> kind = custom_kind("Quota", "quotas", "example.org/v1")
    >>> kind.path(namespace="shop")
    '/apis/example.org/v1/namespaces/shop/quotas'
    """
    group, _, version = api_version.rpartition("/")
    own_type = type(name, (CustomObject,), {"__doc__": f"A {name} of {api_version}.", "__module__": __name__})
    kind = Kind(name, group, version, plural, namespaced, own_type)
    add_kind(kind)
    return kind


def decode_custom(kind: type[CustomObject], body: bytes | msgspec.Raw) -> CustomObject:
    """Decode JSON into a custom object."""
    content = without_nulls(msgspec.json.decode(body, type=dict[str, Any]))
    return kind(metadata=convert(ObjectMeta, content.get("metadata", {})), content=content)
