"""The report of an experiment: one HTML page without scripts and external resources."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage import __version__
from moorage.lab.experiment import Experiment
from moorage.lab.report.conclusions import (
    Finding,
    Scene,
    conclusions,
    find_baseline,
    group_by_scene,
    render_differences,
    summarize,
)
from moorage.lab.report.measures import Interval, Measure, choose_time_unit, find_pareto_front, format_wait
from moorage.lab.report.svg import COLORS, Dot, Line, bar_groups, interval_chart, line_chart, scatter
from moorage.lab.trial import PointRow, TrialResult

STYLE: Final = Path(__file__).with_name("report.css")
_GAINS: Final = ("allocation.gpu", "allocation.cpu")
_COSTS: Final = ("cost.used", "energy.used", "wait.p95", "fragmentation", "nodes.used", "spread.cpu")
_CHARTED: Final = (
    *("allocation.gpu", "allocation.cpu", "fragmentation", "wait.p95", "evictions", "spread.cpu"),
    *("cost.used", "energy.used"),
)


_DISTRIBUTIONS: Final = (
    ("jct", "Job completion time", ""),
    ("queueing", "Queueing of jobs", ""),
    ("slowdown", "Slowdown of jobs", "times the time on an empty cluster"),
)
"""The key, the title and the unit of each distribution. No unit means a time."""
MAX_REASONS: Final = 8


def report_page(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    """Return the page. The same rows give the same page."""
    names = [entry.name for entry in experiment.configurations]
    baseline = experiment.baseline_name
    exact = [entry.label for entry in experiment.traces if experiment.is_exact(entry)]
    scenes = group_by_scene(names, results, exact)
    parts = [_header(experiment, results), _failures(results), summarize(scenes, baseline)]
    parts += [_scene(scene, baseline, is_only=len(scenes) == 1) for scene in scenes]
    parts.append(_method(experiment, results))
    if experiment.options.arrivals_only:
        parts.insert(3, arrivals_as_html(results))
    title = escape(experiment.name)
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE.read_text(encoding='utf-8')}</style>"
    )
    body = "".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>{body}</main></body></html>\n'


def _header(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    seeds = len({result.trial.seed for result in results}) or 1  # fixed traces run once
    pods = sum(result.trial.pods for result in results)
    facts = (
        (len(experiment.configurations), "policies"),
        (len(experiment.traces), "traces" if len(experiment.traces) > 1 else "trace"),
        (len(experiment.clusters), "clusters" if len(experiment.clusters) > 1 else "cluster"),
        (seeds, "seeds" if seeds > 1 else "seed"),
        (len(results), "trials"),
        (pods, "pods scheduled"),
    )
    items = "".join(f"<li><b>{count:,}</b> {escape(label)}</li>" for count, label in facts)
    title = f'<p class="kicker">Moorage lab</p><h1>{escape(experiment.name)}</h1>'
    return f'<header>{title}<ul class="facts">{items}</ul></header>'


def _scene(scene: Scene, baseline: str, *, is_only: bool) -> str:
    compared = find_baseline(scene, baseline)
    heading = "" if is_only else f"<h2 class=scene>{escape(scene.trace)} on {escape(scene.cluster)}</h2>"
    legend = "".join(
        f'<li><i class="swatch c{index % COLORS}"></i>{escape(name)}</li>' for index, name in enumerate(scene.names)
    )
    return (
        f'<section>{heading}<ul class="legend">{legend}</ul>{conclusions(scene, compared)}{_table(scene, compared)}'
        f"{_charts(scene)}{_pareto(scene)}{_waiting(scene)}{_distributions(scene)}{_reasons(scene)}"
        f"{render_differences(scene, compared)}</section>"
    )


def _table(scene: Scene, baseline: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in scene.names)
    rows = "".join(_table_row(scene, measure, baseline) for measure in scene.measures())
    statistics = "Exact values of one run" if scene.is_exact else "Median of all seeds with its 95% confidence interval"
    return (
        f"<h2>All measures</h2><p class=quiet>{statistics}. "
        f"Green and red: {'' if scene.is_exact else 'significantly '}better or worse than {escape(baseline)}.</p>"
        f'<div class="scroll"><table><thead><tr><th>Measure</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _table_row(scene: Scene, measure: Measure, baseline: str) -> str:
    cells = []
    for name in scene.names:
        finding = scene.find(measure, name, baseline)
        if finding is None:
            cells.append("<td>–</td>")
            continue
        kind = {1: "good", -1: "bad", 0: ""}[finding.verdict]
        value = finding.value
        low, high = measure.format(value.low), measure.format(value.high)
        interval = f"{low} – {high}" if low != high else ""
        cells.append(
            f'<td class="{kind}"><b>{escape(measure.format(value.median))}</b><small>{escape(interval)}</small></td>'
        )
    about = f"<small>{escape(measure.about)}</small>" if measure.about else ""
    return f"<tr><th>{escape(measure.title)}{about}</th>{''.join(cells)}</tr>"


def _figure(title: str, chart: str, note: str = "") -> str:
    about = f'<p class="quiet">{escape(note)}</p>' if note else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{about}{chart}</figure>"


def _charts(scene: Scene) -> str:
    figures = []
    by_arrivals = scene.counts_arrivals
    along = "as pods arrive" if by_arrivals else "over time"
    for title, field in (("GPUs allocated", "gpu"), ("CPU allocated", "cpu"), ("GPU fragmentation", "fragmentation")):
        lines = scene.lines(field)
        if any(max(line.high) > 0 for line in lines):
            unit, divisor = choose_time_unit(max(line.x[-1] for line in lines))
            if by_arrivals:
                unit, divisor = "requested, in % of the cluster", 1.0
            lines = [replace(line, x=[x / divisor for x in line.x]) for line in lines]
            chart = line_chart(title, lines, unit, "{:g}".format, lambda share: f"{100 * share:g}%")
            note = "" if scene.is_exact else "Median of all seeds; the band is their range."
            figures.append(_figure(f"{title} {along}", chart, note))
    for measure in scene.measures():
        intervals = scene.intervals(measure)
        if measure.key in _CHARTED and _is_visible(measure, intervals.values()):
            figures.append(
                _figure(measure.title, interval_chart(measure.title, intervals, measure.format), measure.about)
            )
    return f'<h2>Charts</h2><div class="figures">{"".join(figures)}</div>'


def _is_visible(measure: Measure, intervals: Iterable[Interval]) -> bool:
    """Return whether a chart shows any difference between or within the policies."""
    return len({measure.format(number) for item in intervals for number in (item.low, item.median, item.high)}) > 1


def _pareto(scene: Scene) -> str:
    """Draw the first gain against the first cost in which the policies differ."""
    available = {measure.key: measure for measure in scene.measures()}
    gain = next((available[key] for key in _GAINS if key in available), None)
    candidates = (available[key] for key in _COSTS if key in available)
    cost = next((measure for measure in candidates if _differs(scene, measure)), None)
    if gain is None or cost is None or len(scene.names) < 2:
        return ""
    gains, costs = scene.intervals(gain), scene.intervals(cost)
    dots = [Dot(name, costs[name], gains[name]) for name in scene.names if name in costs and name in gains]
    front = find_pareto_front([(dot.x.median, dot.y.median) for dot in dots])
    title = "Pareto front"
    chart = scatter(title, dots, front, (cost.title, cost.format), (gain.title, gain.format))
    best = ", ".join(dots[index].name for index in front)
    note = f"Horizontal: {cost.title} (less is better). Vertical: {gain.title} (more is better). Not dominated: {best}."
    return f'<h2>Gain and cost</h2><div class="figures wide">{_figure(title, chart, note)}</div>'


def _differs(scene: Scene, measure: Measure) -> bool:
    return len({interval.median for interval in scene.intervals(measure).values()}) > 1


def _waiting(scene: Scene) -> str:
    figures = []
    for quantile, title in (("p50", "Median wait"), ("p95", "95th percentile of the wait")):
        groups = []
        for kind in scene.classes():
            intervals = scene.intervals(Measure(f"wait.{quantile}.{kind}", title, -1, "seconds"))
            medians = [intervals[name].median if name in intervals else 0.0 for name in scene.names]
            groups.append((kind, medians))
        if any(value for _, values in groups for value in values):
            figures.append(_figure(f"{title}, by class", bar_groups(title, groups, format_wait)))
    return f'<h2>Waiting times</h2><div class="figures">{"".join(figures)}</div>' if figures else ""


def _distributions(scene: Scene) -> str:
    """Draw the share of jobs below each value, for each policy: the median of all seeds."""
    figures = []
    for key, title, fixed_unit in _DISTRIBUTIONS:
        curves_by_name = {
            name: np.median(np.array(curves), axis=0)
            for name in scene.names
            if (curves := [result.curves[key] for result in scene.by_name[name] if key in result.curves])
        }
        longest = max((float(curve[-1]) for curve in curves_by_name.values()), default=0.0)
        unit, divisor = (fixed_unit, 1.0) if fixed_unit else choose_time_unit(longest)
        lines = []
        for name, curve in curves_by_name.items():
            y = [percent / 100 for percent in range(len(curve))]
            lines.append(Line(name, (curve / divisor).tolist(), y, y, y))
        if lines and max(max(line.x) for line in lines) > min(min(line.x) for line in lines):
            chart = line_chart(title, lines, unit, "{:g}".format, lambda share: f"{100 * share:g}%")
            figures.append(_figure(title, chart, "Share of jobs with at most this value."))
    return f'<h2>Distributions</h2><div class="figures">{"".join(figures)}</div>' if figures else ""


def _reasons(scene: Scene) -> str:
    """List the last reasons of pods without a node, per seed."""
    counts = {name: sum((Counter(result.reasons) for result in scene.by_name[name]), Counter()) for name in scene.names}
    total: Counter[str] = sum(counts.values(), Counter())
    if not total:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in scene.names)
    rows = "".join(
        f"<tr><th>{escape(reason or 'no attempt before the end')}</th>"
        + "".join(f"<td>{counts[name][reason] / len(scene.by_name[name]):,.1f}</td>" for name in scene.names)
        + "</tr>"
        for reason, _ in total.most_common(MAX_REASONS)
    )
    return (
        "<h2>Pods without a node</h2><p class=quiet>Mean number of pods per seed, by their last reason.</p>"
        f'<div class="scroll"><table><thead><tr><th>Reason</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def measures_as_rows(experiment: Experiment, results: Sequence[TrialResult]) -> Iterator[tuple[str, ...]]:
    """Yield all measures of the report as a table with a header: median and interval for each policy."""
    names = [entry.name for entry in experiment.configurations]
    yield "trace", "cluster", "measure", "configuration", "median", "low", "high", "seeds"
    for scene in group_by_scene(names, results):
        for measure in scene.measures():
            for name, value in scene.intervals(measure).items():
                numbers = (f"{number:.9g}" for number in (value.median, value.low, value.high))
                yield scene.trace, scene.cluster, measure.key, name, *numbers, str(value.count)


def measures_as_csv(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    """Return the measures as CSV."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(measures_as_rows(experiment, results))
    return text.getvalue()


def measures_as_latex(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    """Return the measures as LaTeX, a table for each trace and cluster. They need the package booktabs."""
    names = [entry.name for entry in experiment.configurations]
    exact = [entry.label for entry in experiment.traces if experiment.is_exact(entry)]
    scenes = group_by_scene(names, results, exact)
    return "\n".join(_latex_table(scene, experiment.baseline_name) for scene in scenes)


def _latex_table(scene: Scene, baseline: str) -> str:
    compared = find_baseline(scene, baseline)
    lines = ["\\begin{table*}", "\\centering\\small", f"\\caption{{{_latex_caption(scene, compared)}}}"]
    lines += [f"\\begin{{tabular}}{{l{'r' * len(scene.names)}}}", "\\toprule"]
    lines.append(" & ".join(["", *map(_escape_latex, scene.names)]) + r" \\")
    lines.append("\\midrule")
    for measure in scene.measures():
        findings = [scene.find(measure, name, compared) for name in scene.names]
        arrow = {1: r" $\uparrow$", -1: r" $\downarrow$", 0: ""}[measure.better]
        lines.append(" & ".join([_escape_latex(measure.title) + arrow, *(_latex_cell(f) for f in findings)]) + r" \\")
        intervals = [_latex_interval(finding) for finding in findings]
        if any(intervals):
            lines.append(" & ".join(["", *intervals]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table*}"]) + "\n"


def _latex_caption(scene: Scene, baseline: str) -> str:
    seeds = max(len(scene.by_name[name]) for name in scene.names)
    if scene.is_exact:
        values = "Exact values of one run: the trace is fixed"
    else:
        values = f"Median of {seeds} seeds and its 95\\% bootstrap interval" if seeds > 1 else "Values of one seed"
    compared = f"Bold: {'' if scene.is_exact else 'significantly '}better than {_escape_latex(baseline)}; italic: worse"
    arrows = r"$\uparrow$: more is better; $\downarrow$: less is better"
    return f"{_escape_latex(scene.trace)} on {_escape_latex(scene.cluster)}. {values}. {compared}. {arrows}."


def _latex_cell(finding: Finding | None) -> str:
    if finding is None:
        return "--"
    text = _escape_latex(finding.measure.format(finding.value.median))
    return {1: f"\\textbf{{{text}}}", -1: f"\\textit{{{text}}}", 0: text}[finding.verdict]


def _latex_interval(finding: Finding | None) -> str:
    if finding is None:
        return ""
    low, high = (_escape_latex(finding.measure.format(number)) for number in (finding.value.low, finding.value.high))
    unit = next((unit for unit in _LATEX_UNITS if low.endswith(unit) and high.endswith(unit)), "")
    return f"{{\\scriptsize {low.removesuffix(unit)}--{high}}}" if low != high else ""


_LATEX_UNITS: Final = ("\\%", " hours", " days", " kWh")
"""Units that follow the second number of an interval only."""


def _escape_latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$"}
    return "".join(special.get(letter, f"\\{letter}" if letter in "&%$#_{}" else letter) for letter in text)


def _failures(results: Sequence[TrialResult]) -> str:
    failed_trials = [result.trial for result in results if result.trial.error]
    if not failed_trials:
        return ""
    items = "".join(
        f"<li><b>{escape(row.configuration)}</b> on {escape(row.cluster)} with {escape(row.trace)}, seed {row.seed}: "
        f"{escape(row.error)}</li>"
        for row in failed_trials
    )
    return f'<section class="failed"><h2>Failed trials</h2><ul>{items}</ul></section>'


def _method(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    options = experiment.options
    sentences = [
        "Each trial runs the real scheduler with a deployable configuration in virtual time: pods arrive, run and "
        "finish as in the trace, and bindings take no time.",
        "Each seed is one repetition with another generated trace or another order of the pods. All policies use the "
        "same seeds.",
        "Intervals are bootstrapped (2,000 resamples, 95%); differences are computed seed by seed. A fixed trace "
        "without randomness runs once, and its results are exact for this trace.",
    ]
    if options.arrivals_only:
        sentences.append("Pods arrive one by one, and no pod finishes.")
    if options.inflate:
        sentences.append(
            f"Clones of random pods are added until {100 * options.inflate:g}% of the cluster is requested."
        )
    if overcommitted := sum(result.trial.measures.get("overcommitted", 0.0) for result in results):
        sentences.append(f"{overcommitted:,.0f} placements exceeded the capacity of a node: a policy lacks a filter.")
    lines = "".join(f"<li>{escape(line)}</li>" for line in sentences)
    return (
        f"<footer><h2>Method</h2><ul>{lines}</ul><p class=quiet>Moorage {escape(__version__)}; "
        "trials.jsonl, points.jsonl, pods.jsonl and jobs.jsonl in the same directory contain all numbers. measures.csv "
        "and measures.tex contain the tables, and figures/ contains the charts as SVG and PDF.</p></footer>"
    )


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
    """Return the cells by trace and cluster, and configuration, or empty without GPUs or enough requests."""
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
    statistics = f"mean of {seeds} seeds" if seeds > 1 else "one seed"
    yield f"GPUs allocated in %, {statistics}, when {shares} of them are requested"
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
        allocated_rows.append(title + "".join(_format_allocated(cell) for cell in policy_cells) + "</tr>")
        for index, percent in enumerate(FRAGMENTED_AT):
            at = f"<tr><th>{escape(_title(scene, cells))}, {percent}%</th>"
            fragmented = ("–" if cell is None else f"{cell.fragmented[index]:.1f}" for cell in policy_cells)
            fragmentation_rows.append(at + "".join(f"<td>{percentage}</td>" for percentage in fragmented) + "</tr>")
    shares = " / ".join(f"{percent}%" for percent in ALLOCATED_AT)
    return (
        "<section><h2>GPUs allocated, in %</h2><p class=quiet>Mean and standard deviation of all seeds when "
        f"{shares} of the cluster's GPUs are requested.</p>{_html_table(head, allocated_rows)}"
        f"<h2>GPU fragmentation, in % of all GPUs</h2><p class=quiet>Mean of all seeds, by the requested "
        f"share of the cluster's GPUs.</p>"
        f"{_html_table(head, fragmentation_rows)}</section>"
    )


def _html_table(head: str, rows: Sequence[str]) -> str:
    return (
        f'<div class="scroll"><table><thead><tr><th>Pods</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _format_allocated(cell: ArrivalCell | None) -> str:
    if cell is None:
        return "<td>–</td>"
    values = " / ".join(f"{value:.2f}" for value in cell.allocated)
    deviation = f"<small>± {cell.deviation:.2f}</small>" if cell.seeds > 1 else ""
    return f"<td><b>{values}</b>{deviation}</td>"
