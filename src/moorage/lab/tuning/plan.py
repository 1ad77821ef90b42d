"""The ``tune`` section of an experiment file."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from moorage.common.errors import InputError


class NumberRange(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A range of numbers, inclusive; integers if both ends are. ``log`` samples small numbers more densely."""

    low: int | float = field(name="from")
    high: int | float = field(name="to")
    log: bool = False


Values = NumberRange | tuple[Any, ...]
"""The values of an argument: a range, or a list of any values."""


class Knob(Struct, frozen=True):
    """A tuned setting: the weight of a plugin (``path`` is empty), or one of its arguments."""

    plugin: str
    path: str
    values: Values

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{self.plugin}.{self.path}" if self.path else f"weight of {self.plugin}"


class TunePlan(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An objective, the settings to change, and the size of the search."""

    maximize: str = ""
    minimize: str = ""
    weights: dict[str, NumberRange] = {}
    """Weights of score plugins; 0 disables the score of a plugin."""
    args: dict[str, dict[str, Values]] = {}
    """Arguments by plugin and path, such as ``scoringStrategy.type``."""
    candidates: int = 40
    """Number of configurations to try."""
    held_out: int | tuple[int, ...] = 10
    """Seeds for the evaluation of the result, or their number: those after the last seed of the search."""

    @property
    def measure(self) -> str:
        """The objective."""
        return self.maximize or self.minimize

    def knobs(self) -> Iterator[Knob]:
        """Yield all tuned settings."""
        for plugin, values in self.weights.items():
            yield Knob(plugin, "", values)
        for plugin, paths in self.args.items():
            for path, choices in paths.items():
                yield Knob(plugin, path, choices)

    def held_out_seeds(self, searched: Sequence[int]) -> Sequence[int]:
        """Return the seeds that the search does not use."""
        if isinstance(self.held_out, int):
            first = max(searched) + 1
            return range(first, first + self.held_out)
        return self.held_out


def check_plan(plan: TunePlan, searched: Sequence[int], location: str) -> None:
    """Reject invalid settings. Raise InputError with a correction."""
    if bool(plan.maximize) == bool(plan.minimize):
        raise InputError(
            location, "the objective is missing or ambiguous", hint="write maximize: MEASURE, or minimize: MEASURE"
        )
    if plan.candidates < 1:
        raise InputError(f"{location}.candidates", f"invalid number: {plan.candidates}", hint="write 1 or more")
    held_out = plan.held_out_seeds(searched)
    if not held_out:
        raise InputError(f"{location}.heldOut", "no seeds are held out", hint="write a number of seeds, such as 10")
    if shared_seeds := sorted(set(held_out) & set(searched)):
        problem = f"the search also uses seed {shared_seeds[0]}"
        raise InputError(f"{location}.heldOut", problem, hint="write seeds that are not in `seeds`")
    knobs = list(plan.knobs())
    if not knobs:
        raise InputError(location, "there is nothing to tune", hint="add weights or args")
    for knob in knobs:
        _check_values(knob, f"{location}, {knob.name}")


def _check_values(knob: Knob, location: str) -> None:
    values = knob.values
    if not isinstance(values, NumberRange):
        if len(values) < 2:
            raise InputError(location, f"{len(values)} values leave no choice", hint="write at least two")
        return
    if not values.low < values.high:
        problem = f"the range from {values.low} to {values.high} is empty"
        raise InputError(location, problem, hint="`to` must be greater than `from`")
    if values.log and values.low <= 0:
        raise InputError(location, "log needs numbers above 0", hint="write from: 1, or remove log")
    is_whole = isinstance(values.low, int) and isinstance(values.high, int)
    if not knob.path and not (is_whole and values.low >= 0 and values.high <= 100):
        raise InputError(location, "a weight is a whole number from 0 to 100", hint="write {from: 0, to: 10}")


def format_value(value: object) -> str:
    """Format a value on one line."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
