"""Scv: the cards of a node, reported by its sniffer once a second."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage import KubeObject, custom_kind, once, parse_time

Amount = Annotated[int, Meta(ge=0, le=1 << 40)]
"""MB, MHz or W: NVML's units. A hundred times as much still fits into 64 bits."""

HEALTHY = "Healthy"


class Card(msgspec.Struct, frozen=True, rename="camel"):
    """One card; ``clock`` is the memory clock, ``core`` the core clock."""

    id: Amount
    health: str = ""
    model: str = ""
    power: Amount = 0
    total_memory: Amount = 0
    clock: Amount = 0
    free_memory: Amount = 0
    core: Amount = 0
    bandwidth: Amount = 0


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The status of an Scv, written by the sniffer."""

    card_list: tuple[Card, ...] = ()
    card_number: Amount = 0
    total_memory_sum: Amount = 0
    free_memory_sum: Amount = 0
    update_time: str | None = None

    @property
    def time(self) -> float:
        """The time of the report; a report without a time is older than all others."""
        return parse_time(self.update_time) if self.update_time else 0.0


class Scv(KubeObject, frozen=True):
    """The cards of one node; it has the name of the node.

    The status is parsed on access: the scheduler skips objects that do not match a struct, and the event of a pending
    pod would not show the reason.
    """

    status: Any = None

    @once
    def report(self) -> Report | str:
        """The report, or its error."""
        try:
            report = msgspec.convert(self.status or {}, Report)
            _ = report.time
        except (msgspec.ValidationError, ValueError) as error:
            return str(error).replace("`", "").replace(" - at $.", " at ")
        ids = [card.id for card in report.card_list]
        for card in report.card_list:
            if ids.count(card.id) > 1:
                return f"two cards have the id {card.id}"
            if card.free_memory > card.total_memory:
                return f"card {card.id} has {card.free_memory} MB free of {card.total_memory}"
        return report


SCV = custom_kind("Scv", "scvs", "core.run-linux.com/v1", namespaced=False, type=Scv)
