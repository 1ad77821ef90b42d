"""The base of every Kubernetes struct: camelCase on the wire, snake_case here, immutable, defaults omitted."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, overload

import msgspec

S = TypeVar("S")
T = TypeVar("T")
Data = dict[str, Any]
"""An object, or a part of one, as plain data."""


Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Numbers have the width of their Go type: the decoder rejects longer ones."""


class KubeStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A piece of a Kubernetes object. Fields the scheduler has no use for are dropped while decoding.

    ``gc=False`` is safe because decoded objects form trees, and keeps fifty thousand pods out of the collector's way.
    """


class once(Generic[S, T]):  # noqa: N801 - used as a decorator, as property is
    """A property that is computed at first access and then stored in the object's ``__dict__``.

    It is :class:`functools.cached_property` without its lock in Python 3.11: the objects are used in one thread.
    """

    def __init__(self, compute: Callable[[S], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> "once[S, T]": ...
    @overload
    def __get__(self, instance: S, owner: type[Any]) -> T: ...

    def __get__(self, instance: S | None, owner: type[Any]) -> "T | once[S, T]":
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
