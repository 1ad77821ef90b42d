"""Facts computed once per object: :class:`functools.cached_property` without its lock in Python 3.11."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")


class once(Generic[S, T]):  # noqa: N801 - used as a decorator, as property is
    """A property that is computed at first access and then stored in the object's ``__dict__``.

    It has no lock: the objects are used in one thread.
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
