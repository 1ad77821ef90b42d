"""Measures that users define as functions of a trial's rows, and modules in the directory of an experiment."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from math import isfinite
from typing import Any, TypeAlias

from moorage.common.errors import InputError, PluginError, did_you_mean

OwnMeasure: TypeAlias = Callable[[Any], float | Mapping[str, float]]
"""A function of a ``TrialResult`` that returns a number, or several by name."""


@contextmanager
def importable(directory: str) -> Iterator[None]:
    """Find modules in a directory first, for the duration of the context."""
    if not directory:
        yield
        return
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def load_measures(names: Iterable[str], directory: str, location: str) -> dict[str, OwnMeasure]:
    """Import the functions. Raise InputError if one is missing."""
    functions = {}
    for name in names:
        module_name, _, function_name = name.partition(":")
        if not function_name:
            raise InputError(location, f"{name!r} is not a function", hint="write module:function")
        try:
            with importable(directory):
                module = import_module(module_name)
        except Exception as error:
            problem = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
            raise InputError(location, problem, hint="put the module into the directory of the experiment") from error
        function = getattr(module, function_name, None)
        if not callable(function):
            hint = did_you_mean(function_name, list(vars(module))) or "write the name of a function"
            raise InputError(location, f"{module_name} has no function {function_name!r}", hint=hint)
        functions[function_name] = function
    return functions


def compute_measures(functions: Mapping[str, OwnMeasure], result: Any) -> dict[str, float]:
    """Return the numbers of all functions. Raise PluginError if one fails or returns something else."""
    measures: dict[str, float] = {}
    for name, function in functions.items():
        try:
            returned = function(result)
        except Exception as error:
            raise PluginError(name, f"the measure raised {type(error).__name__}: {error}") from error
        numbers = returned if isinstance(returned, Mapping) else {name: returned}
        for key, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
                raise PluginError(name, f"the measure returned {number!r} for {key!r}, but it must return a number")
            measures[str(key)] = float(number)
    return measures
