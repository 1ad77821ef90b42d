"""Measures of a report: names, number formats and direction."""

from typing import Final

from msgspec import Struct

from moorage.cluster import format_seconds


class Measure(Struct, frozen=True):
    """A measure as readers see it; ``better`` is 1 if more is better, -1 if less is, 0 if that is a matter of taste."""

    key: str
    title: str
    better: int
    form: str
    about: str = ""

    def shown(self, number: float) -> str:
        """Write a number."""
        match self.form:
            case "share":
                return f"{100 * number:.1f}%"
            case "seconds":
                return format_seconds(number) if number >= 0.05 else "0s"
            case "kWh":
                return f"{number:,.1f} kWh"
            case "money":
                return f"{number:,.2f}"
            case _:
                return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:,.1f}"

    def shown_difference(self, number: float) -> str:
        """Write a difference with its sign."""
        sign = "+" if number > 0 else "−" if number < 0 else "±"
        return f"{sign}{self.shown_size(number)}"

    def shown_size(self, number: float) -> str:
        """Write how large a difference is; one of shares is in percentage points."""
        return f"{100 * abs(number):.1f} points" if self.form == "share" else self.shown(abs(number))


MEASURES: Final = (
    Measure("allocation.gpu", "GPUs allocated", +1, "share", "of all GPUs, shares counted as such"),
    Measure("allocation.cpu", "CPU allocated", +1, "share"),
    Measure("allocation.memory", "Memory allocated", +1, "share"),
    Measure("fragmentation", "GPU fragmentation", -1, "share", "GPUs that are idle and of no use to typical pods"),
    Measure("unplaced", "Pods without a node", -1, "count", "in the end"),
    Measure("wait.p50", "Waiting, median", -1, "seconds"),
    Measure("wait.p95", "Waiting, 95th percentile", -1, "seconds"),
    Measure("evictions", "Evictions", -1, "count", "by preemption and failed nodes"),
    Measure("spread.cpu", "Unevenness of nodes", 0, "share", "standard deviation of the CPU given away"),
    Measure("nodes.mean", "Nodes, on average", -1, "count"),
    Measure("nodes.used", "Nodes in use", -1, "count", "in the end"),
    Measure("cost", "Cost of all nodes", -1, "money", "in the currency of the nodes' prices"),
    Measure("cost.used", "Cost of nodes in use", -1, "money", "if empty nodes were given back at once"),
    Measure("energy", "Energy of all nodes", -1, "kWh"),
    Measure("energy.used", "Energy of nodes in use", -1, "kWh", "if empty nodes were switched off"),
)
