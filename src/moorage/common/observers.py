"""Observers: metrics, logs, traces and recordings follow a scheduler from outside and never change what it does.

Each layer declares the events that it emits as a subclass of :class:`Observer`, with a no-op method per event. An
observer inherits the event classes that it needs and overrides methods. A scheduler takes all observers together, and
each of its parts selects the observers of its events. Events without observers cost nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

E = TypeVar("E", bound="Observer")


class Observer:
    """The base of all event classes.

    Methods named ``wrap_…`` return their first argument, a function, possibly wrapped. All others return ``None``.
    """


def select(observers: Iterable[Observer], events: type[E]) -> E | None:
    """Return one observer that forwards to all observers of the events, in order, or ``None`` without observers."""
    followers = [observer for observer in observers if isinstance(observer, events)]
    if len(followers) < 2:
        return followers[0] if followers else None
    methods: dict[str, Any] = {}
    for name in dir(events):
        default = getattr(events, name)
        overriding = [getattr(observer, name) for observer in followers if getattr(type(observer), name) != default]
        if not name.startswith("_") and overriding:
            join = _join_wrappers if name.startswith("wrap_") else _join_handlers
            methods[name] = staticmethod(overriding[0] if len(overriding) == 1 else join(overriding))
    joined: E = type(f"All{events.__name__}", (events,), methods)()
    return joined


def _join_handlers(handlers: Sequence[Callable[..., None]]) -> Callable[..., None]:
    # Several events are emitted for each pod, mostly to two observers.
    if len(handlers) > 2:
        handlers = (handlers[0], _join_handlers(handlers[1:]))
    first, second = handlers

    def notify(*values: object, **options: object) -> None:
        first(*values, **options)
        second(*values, **options)

    return notify


def _join_wrappers(wrappers: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def wrap(run: Any, *values: object) -> Any:
        for wrapper in wrappers:  # the last one is outermost
            run = wrapper(run, *values)
        return run

    return wrap
