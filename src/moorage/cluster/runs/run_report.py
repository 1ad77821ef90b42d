"""Text report of a simulation: the timeline of the pods, waiting times, and the utilization of the nodes."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from moorage.cluster.runs.history import PodHistory, Run, Utilization
from moorage.scheduler.config.durations import Duration

if TYPE_CHECKING:
    from rich.console import Console

MIN_WAIT: Final = 1.0
"""Pods that get a node within this many seconds are not in the short timeline."""
MAX_LINES: Final = 30
"""Maximum number of lines in the short timeline."""
_SIZES: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def print_run(run: Run, console: "Console", *, whole_timeline: bool) -> None:
    """Print the timeline and the utilization after the table of decisions."""
    lines = list(timeline_lines(run, is_complete=whole_timeline))
    visible = lines if whole_timeline else lines[:MAX_LINES]
    if visible:
        console.print(f"Timeline, {format_seconds(run.seconds)} of virtual time", style="bold", highlight=False)
        width = max(len(moment) for moment, _ in visible)
        text = "\n".join(f"{moment.rjust(width)}  {event}" for moment, event in visible)
        console.print(text, highlight=False, markup=False, soft_wrap=True)
        if len(visible) < len(lines):
            console.print(f"… {len(lines) - len(visible)} more; --timeline prints all", style="dim", highlight=False)
    if waits := wait_summary(run.timeline):
        console.print(waits, highlight=False, markup=False, soft_wrap=True)
    if run.utilisation:
        console.print()
        console.print(utilization_table(run.utilisation), highlight=False, markup=False, soft_wrap=True)
    console.print()


def timeline_lines(run: Run, *, is_complete: bool) -> Iterator[tuple[str, str]]:
    """Yield times and events in order. The short form omits pods that got a node immediately and kept it."""
    events = [event for record in run.timeline for event in _events(record, is_complete=is_complete)]
    for moment, text in sorted(events, key=lambda event: event[0]):
        yield format_seconds(moment), text
    for record in run.timeline:
        if record.waited is not None and record.bound is None and record.deleted is None:
            yield format_seconds(run.seconds), f"{record.pod} is still pending"


def _events(record: PodHistory, *, is_complete: bool) -> Iterator[tuple[float, str]]:
    pod, bound, waited = record.pod, record.bound, record.waited or 0.0
    if bound is not None and (is_complete or waited >= MIN_WAIT):
        yield bound, f"{pod} placed on {record.node}, waited {format_seconds(waited)}"
    if record.evicted is not None:
        by = f" by {record.evicted_by}" if record.evicted_by else ""
        yield record.evicted, f"{pod} evicted from {record.node}{by}"
    if record.finished is not None:
        after = f" {format_seconds(record.finished - bound)} after it was placed" if bound is not None else ""
        yield record.finished, f"{pod} {record.phase.lower()} on {record.node}{after}"
    if record.deleted is not None and (is_complete or (record.evicted is None and record.finished is None)):
        yield record.deleted, f"{pod} deleted"


def wait_summary(timeline: Sequence[PodHistory]) -> str:
    """Summarize in one line how long pods waited for a node."""
    placed = [record for record in timeline if record.bound is not None and record.waited is not None]
    if not placed:
        return ""
    waits = [record.waited or 0.0 for record in placed]
    longest = max(placed, key=lambda record: record.waited or 0.0)
    middle = f"median {format_seconds(median(waits))}"
    return f"Waited for a node: {middle}, longest {format_seconds(longest.waited or 0.0)} ({longest.pod})"


def utilization_table(rows: Sequence[Utilization]) -> str:
    """Format the utilization as a table, with a column for groups if there are any."""
    is_grouped = any(row.group for row in rows)
    head = ("Group", "Resource", "Allocatable", "At the end", "Mean", "Peak")
    cells = [head, *(_cells(row) for row in rows)]
    if not is_grouped:
        cells = [row[1:] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _cells(row: Utilization) -> tuple[str, ...]:
    amounts = (row.requested, row.mean, row.peak)
    shares = (f"{format_amount(row.resource, item)} ({_percent(item, row.allocatable)})" for item in amounts)
    return row.group or "-", row.resource, format_amount(row.resource, row.allocatable), *shares


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:.0f}%" if total else "-"


def format_amount(resource: str, amount: float) -> str:
    """Format an amount. Bytes get a unit.

    >>> format_amount("memory", 3 * 2**29), format_amount("cpu", 2.5), format_amount("pods", 110.0)
    ('1.5Gi', '2.5', '110')
    """
    if resource == "memory" or resource.startswith(("hugepages-", "ephemeral-storage")):
        for unit, size in _SIZES:
            if amount >= size:
                return f"{amount / size:.1f}".removesuffix(".0") + unit
    return f"{amount:.1f}".removesuffix(".0")


def format_seconds(seconds: float) -> str:
    """Format seconds as a Go duration with few digits.

    >>> format_seconds(90.0), format_seconds(0.0123), format_seconds(12.3456), format_seconds(3600.7)
    ('1m30s', '12ms', '12.3s', '1h0m1s')
    """
    digits = 3 if seconds < 1 else 1 if seconds < 60 else 0
    return str(Duration(round(round(seconds, digits) * 1e9)))
