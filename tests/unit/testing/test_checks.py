"""check_plugin finds what registering a plugin finds, and builds a class as nothing configured would."""

from typing import Any

import msgspec
import pytest

from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import Status
from moorage.testing import check_plugin


class LabeledArgs(msgspec.Struct, frozen=True):
    label: str = "capacity"


class Labeled(FilterPlugin):
    """Has arguments with defaults."""

    Args = LabeledArgs

    def __init__(self, *, args: LabeledArgs) -> None:
        self.label = args.label

    def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        return None if self.label in node.labels else Status.unresolvable("node(s) had no label")


class Waiting(Labeled):
    """Waits where nothing may."""

    async def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:  # type: ignore[override]
        return None


def test_plugin_class_is_built_with_default_arguments() -> None:
    check_plugin(Labeled, examples=5)


def test_method_with_wrong_parameters_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"Waiting\.filter must not be `async def`"):
        check_plugin(Waiting, examples=5)


class Priced(FilterPlugin, ScorePlugin, PermitPlugin):
    """Reads labels of nodes."""

    def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        return Status.unresolvable("node(s) were dear") if node.labels.get("price") == "90" else None

    def score(self, cycle: Any, pod: Any, node: Any) -> int:
        return int(node.labels.get("price", "0"))

    def permit(self, cycle: Any, pod: Any, node_name: Any) -> None:
        return None


class Flat(ScorePlugin):
    def score(self, cycle: Any, pod: Any, node: Any) -> int:
        return 7


class Skips(PreFilterPlugin, FilterPlugin):
    def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> Status | None:
        return Status.skip()

    def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        return None


class Sorts(QueueSortPlugin):
    def sort_key(self, queued: Any) -> int:
        return 0


UNTESTED: dict[str, tuple[type[Plugin], str]] = {
    "a filter that rejects nothing": (Priced, r"Priced\.filter accepted all \d+ nodes"),
    "a filter that is never called": (Skips, r"Skips\.filter was never called"),
    "a score that is always the same": (Flat, r"Flat\.score returned 7 for all nodes"),
    "a plugin without filter and score": (Sorts, r"Sorts has neither filter nor score"),
}


@pytest.mark.parametrize(("plugin", "problem"), UNTESTED.values(), ids=UNTESTED)
def test_untested_plugin_fails_the_check(plugin: type[Plugin], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_plugin(plugin, examples=20)
    check_plugin(plugin, examples=5, require_coverage=False)


def test_report_counts_the_results() -> None:
    report = check_plugin(Priced, labels={"price": ["5", "90"]}, examples=50)
    (coverage,) = report.plugins
    assert coverage.accepted > 0
    assert coverage.scores == {0, 5, 90}
    expected = f"Priced: filter accepted {coverage.accepted} and rejected {coverage.rejected} nodes; "
    assert str(report) == f"{expected}score returned {coverage.scored} scores from 0 to 90; not checked: permit"


class TicketSpec(KubeStruct, frozen=True):
    holder: str = ""
    seats: int = 0


class Ticket(KubeObject, frozen=True):
    spec: TicketSpec = TicketSpec()


custom_kind("Ticket", "tickets", "checks.example.org/v1", namespaced=False, type=Ticket)


def test_objects_of_listed_custom_resources_are_created() -> None:
    seen: set[tuple[str, bool]] = set()

    class NeedsTicket(FilterPlugin):
        def __init__(self, *, handle: Handle) -> None:
            self.tickets = handle.lister(Ticket)

        def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:
            ticket = self.tickets.get(node.name)
            if ticket is not None:
                seen.add((ticket.spec.holder, ticket.spec.seats > 0))
            return None if ticket is None else Status.unresolvable("node(s) were taken")

    assert check_plugin(NeedsTicket, labels={"team": ["red"]}, examples=50).plugins[0].rejected
    assert ("red", True) in seen
