"""Allocation by requested share: the usual table for results of arrival experiments."""

from collections.abc import Iterator, Sequence
from html import escape
from statistics import fmean, stdev
from typing import Final

from msgspec import Struct

from moorage.lab.trial import PointRow, TrialResult

ALLOCATED_AT: Final = (100, 130)
FRAGMENTED_AT: Final = (40, 60, 80, 90, 100)


class ArrivalCell(Struct, frozen=True):
    """One policy on one trace: percentages at each requested share of the cluster, mean of all seeds."""

    allocated: tuple[float, ...]
    deviation: float
    """Standard deviation over the seeds, at the last share."""
    fragmented: tuple[float, ...]
    seeds: int


def arrival_cells(results: Sequence[TrialResult]) -> dict[tuple[str, str], dict[str, ArrivalCell]]:
    """Return the cells by trace and cluster, and configuration; empty without GPUs or enough requests."""
    grouped: dict[tuple[str, str], dict[str, list[tuple[PointRow, ...]]]] = {}
    for result in results:
        trial = result.trial
        if not trial.error and result.points and result.points[0].fragmentation is not None:
            scene = grouped.setdefault((trial.trace, trial.cluster), {})
            scene.setdefault(trial.configuration, []).append(result.points)
    cells = {
        scene: {name: cell for name, seeds in by_name.items() if (cell := _cell(seeds)) is not None}
        for scene, by_name in grouped.items()
    }
    return {scene: by_policy for scene, by_policy in cells.items() if by_policy}


def _cell(seeds: Sequence[tuple[PointRow, ...]]) -> ArrivalCell | None:
    allocated = [[_at(points, percent) for points in seeds] for percent in ALLOCATED_AT]
    fragmented = [[_at(points, percent) for points in seeds] for percent in FRAGMENTED_AT]
    percentages = [[100 * point.gpu for point in column if point is not None] for column in allocated]
    if any(len(column) != len(seeds) for column in percentages):
        return None
    fragmentation = [
        [100 * (point.fragmentation or 0.0) for point in column if point is not None] for column in fragmented
    ]
    spread = stdev(percentages[-1]) if len(seeds) > 1 else 0.0
    return ArrivalCell(tuple(map(fmean, percentages)), spread, tuple(map(fmean, fragmentation)), len(seeds))


def _at(points: Sequence[PointRow], percent: int) -> PointRow | None:
    """Return the first point with this requested share."""
    return next((point for point in points if point.asked >= percent / 100 - 1e-9), None)


def arrivals_as_text(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield the lines of the table as text."""
    cells = arrival_cells(results)
    if not cells:
        return
    names = list(dict.fromkeys(name for by_policy in cells.values() for name in by_policy))
    seeds = max(cell.seeds for by_policy in cells.values() for cell in by_policy.values())
    shares = " / ".join(f"{percent}%" for percent in ALLOCATED_AT)
    width = max(13, *(len(name) + 2 for name in names))
    first = max(10, *(len(_title(scene, cells)) + 2 for scene in cells))
    yield f"GPUs allocated in %, mean of {seeds} seeds, when {shares} of them are requested"
    yield "".ljust(first) + "".join(name.rjust(width) for name in names)
    for scene, by_policy in cells.items():
        texts = ("/".join(f"{value:.2f}" for value in by_policy[n].allocated) if n in by_policy else "–" for n in names)
        yield _title(scene, cells).ljust(first) + "".join(text.rjust(width) for text in texts)


def _title(scene: tuple[str, str], cells: dict[tuple[str, str], dict[str, ArrivalCell]]) -> str:
    has_several = len({cluster for _, cluster in cells}) > 1
    return f"{scene[0]} on {scene[1]}" if has_several else scene[0]


def arrivals_as_html(results: Sequence[TrialResult]) -> str:
    """Return the tables of allocation and fragmentation as HTML; empty unless pods arrived one by one."""
    cells = arrival_cells(results)
    if not cells:
        return ""
    names = list(dict.fromkeys(name for by_policy in cells.values() for name in by_policy))
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    allocated_rows, fragmentation_rows = [], []
    for scene, by_policy in cells.items():
        title = f"<tr><th>{escape(_title(scene, cells))}</th>"
        policy_cells = [by_policy.get(name) for name in names]
        allocated_rows.append(title + "".join(_allocated(cell) for cell in policy_cells) + "</tr>")
        for index, percent in enumerate(FRAGMENTED_AT):
            at = f"<tr><th>{escape(_title(scene, cells))}, {percent}%</th>"
            fragmented = ("–" if cell is None else f"{cell.fragmented[index]:.1f}" for cell in policy_cells)
            fragmentation_rows.append(at + "".join(f"<td>{percentage}</td>" for percentage in fragmented) + "</tr>")
    shares = " / ".join(f"{percent}%" for percent in ALLOCATED_AT)
    return (
        "<section><h2>GPUs allocated, in %</h2><p class=quiet>Mean and standard deviation of all seeds when "
        f"{shares} of the cluster's GPUs are requested.</p>{_html_table(head, allocated_rows)}"
        f"<h2>GPU fragmentation, in % of all GPUs</h2><p class=quiet>Mean of all seeds by requested "
        f"share of the cluster's GPUs.</p>"
        f"{_html_table(head, fragmentation_rows)}</section>"
    )


def _html_table(head: str, rows: Sequence[str]) -> str:
    return (
        f'<div class="scroll"><table><thead><tr><th>Pods</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _allocated(cell: ArrivalCell | None) -> str:
    if cell is None:
        return "<td>–</td>"
    values = " / ".join(f"{value:.2f}" for value in cell.allocated)
    return f"<td><b>{values}</b><small>± {cell.deviation:.2f}</small></td>"
