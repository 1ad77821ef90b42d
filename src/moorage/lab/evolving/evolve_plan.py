"""The ``evolve`` section of an experiment file."""

from collections.abc import Sequence

from msgspec import Struct

from moorage.common.errors import InputError
from moorage.lab.formats import Positive


class EvolvePlan(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An objective and the size of the search."""

    maximize: str = ""
    minimize: str = ""
    generations: int = 8
    population: int = 12
    """Number of candidates per generation."""
    held_out: int | tuple[int, ...] = 10
    """Seeds for the evaluation of the result, or their number: those after the last seed of the search."""
    held_out_experiment: str = ""
    """An experiment with other traces for the evaluation of the result; its seeds replace ``held_out``."""
    time_limit: Positive = 60.0
    """Seconds per candidate."""

    @property
    def measure(self) -> str:
        """The objective."""
        return self.maximize or self.minimize

    def held_out_seeds(self, searched: Sequence[int]) -> Sequence[int]:
        """Return the seeds that the search does not use."""
        if isinstance(self.held_out, int):
            first = max(searched) + 1
            return range(first, first + self.held_out)
        return self.held_out


def check_evolve_plan(plan: EvolvePlan, searched: Sequence[int], location: str) -> None:
    """Reject invalid settings. Raise InputError with a correction."""
    if bool(plan.maximize) == bool(plan.minimize):
        problem = "the objective is missing or ambiguous"
        raise InputError(location, problem, hint="write maximize: MEASURE, or minimize: MEASURE")
    for name, number, least in (("generations", plan.generations, 1), ("population", plan.population, 2)):
        if number < least:
            raise InputError(f"{location}.{name}", f"invalid number: {number}", hint=f"write {least} or more")
    held_out = plan.held_out_seeds(searched)
    if not held_out:
        raise InputError(f"{location}.heldOut", "no seeds are held out", hint="write a number of seeds, such as 10")
    if shared_seeds := sorted(set(held_out) & set(searched)):
        problem = f"the search also uses seed {shared_seeds[0]}"
        raise InputError(f"{location}.heldOut", problem, hint="write seeds that are not in `seeds`")
