"""The list of scenarios: public coroutine functions that run on a :class:`Scene`; the name of each is a sentence."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from types import ModuleType

from tests.live.scenarios.scene import Scene

Scenario = Callable[[Scene], Awaitable[None]]


def scenarios_in(*parts: ModuleType) -> dict[str, Scenario]:
    """Collect the scenarios that modules define, by name."""
    results: dict[str, Scenario] = {}
    for part in parts:
        for name, obj in vars(part).items():
            if iscoroutinefunction(obj) and obj.__module__ == part.__name__ and not name.startswith("_"):
                assert name not in results, f"two scenarios are named {name}"
                results[name] = obj
    return results
