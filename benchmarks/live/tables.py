"""The medians side by side, in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.live.medians import Comparison, comparisons, latencies


def show_drains(content: Mapping[str, Any]) -> None:
    """Print one line for each workload and size."""
    table = Table("workload", "nodes", "pods", "pods/s", "CPU ms/pod", "after start", "first bind s", "MiB", "idle", "")
    for each in comparisons(content.get("drain", [])):
        table.add_row(each.workload, f"{each.nodes:,}", f"{each.pods:,}", *_cells(each), _verdict(each))
    Console(width=150).print(table)


def show_latencies(content: Mapping[str, Any]) -> None:
    """Print one line for each size and scheduler."""
    table = Table("scheduler", "nodes", "pods/s", "p50 ms", "p90 ms", "p99 ms", "CPU ms/pod")
    for each in latencies(content.get("latency", [])):
        cells = (f"{each[name]:,.1f}" for name in ("rate", "p50", "p90", "p99", "cpu_ms_per_pod"))
        table.add_row(each["scheduler"], f"{each['nodes']:,}", *cells)
    Console(width=100).print(table)


def _cells(each: Comparison) -> Sequence[str]:
    return [
        _pair(each, "pods_per_second", 0),
        _pair(each, "cpu_ms_per_pod", 2),
        _pair(each, "cpu_ms_per_pod_after_start", 2),
        _pair(each, "seconds_to_first_bind", 1),
        _pair(each, "peak_mib", 0),
        _pair(each, "idle_share", 2),
    ]


def _pair(each: Comparison, figure: str, digits: int) -> str:
    sides = (each.ours, each.theirs)
    return " / ".join(f"{side[figure]:,.{digits}f}" if side else "–" for side in sides)


def _verdict(each: Comparison) -> str:
    return f"{each.problems} wrong" if each.problems else each.judgement
