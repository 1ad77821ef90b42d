"""How the steps of a placement are taken back, last first."""

from contextlib import ExitStack
from typing import Any


class Undo:
    """Calls to make if a placement comes to nothing, each a function and its arguments.

    One that raises does not keep the others from being made. An :class:`ExitStack` does the work, but is made only
    then: nearly every placement succeeds.
    """

    __slots__ = ("_calls",)

    def __init__(self, *calls: tuple[Any, ...]) -> None:
        self._calls = calls

    def unwind(self) -> None:
        """Make the calls, the last one first, once."""
        calls, self._calls = self._calls, ()
        with ExitStack() as stack:
            for action, *arguments in calls:
                stack.callback(action, *arguments)
