"""The summary of a report: significant differences from the baseline in words, and the pods that differ."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.lab.report.measures import (
    MEASURES,
    Interval,
    Measure,
    collect_values,
    compute_difference,
    compute_interval,
    format_wait,
    is_known_measure,
)
from moorage.lab.report.svg import COLORS, Line
from moorage.lab.trial import PodRow, TrialResult, TrialRow

GRID: Final = 120
LEAST_RELATIVE: Final = 0.005
"""Smaller differences relative to the baseline are not reported: they would be shown as 0%."""
ENOUGH_SEEDS: Final = 6
"""With fewer seeds, all of them agree by chance in more than 5% of cases: no difference is significant."""
FIRST: Final = ("allocation.gpu", "cost", "unplaced", "evictions", "jct.mean")
"""The measures that a summary begins with. Other measures follow in the order of the table."""


class Finding(Struct, frozen=True):
    """A measure of a configuration, and its difference from the baseline."""

    measure: Measure
    configuration: str
    value: Interval
    difference: Interval | None
    is_exact: bool = False
    """Whether no part of the trial is random: a visible difference is one."""

    @property
    def verdict(self) -> int:
        """+1 if significantly better than the baseline, -1 if significantly worse, otherwise 0."""
        if self.difference is None or (self.difference.count < ENOUGH_SEEDS and not self.is_exact):
            return 0
        if self.measure.format(abs(self.difference.median)) == self.measure.format(0.0):
            return 0  # too small to be visible
        baseline = abs(self.value.median - self.difference.median)
        if self.measure.form != "share" and abs(self.difference.median) < LEAST_RELATIVE * baseline:
            return 0
        sign = 1 if self.difference.is_above else -1 if self.difference.is_below else 0
        return sign * self.measure.better


class Scene:
    """All trials of a trace on one cluster that did not fail."""

    def __init__(
        self, trace: str, cluster: str, names: Sequence[str], results: Sequence[TrialResult], *, is_exact: bool = False
    ) -> None:
        self.trace, self.cluster, self.is_exact = trace, cluster, is_exact
        self.by_name = {name: [r for r in results if r.trial.configuration == name] for name in names}
        self.names = [name for name, policy_results in self.by_name.items() if policy_results]

    def rows(self, name: str) -> list[TrialRow]:
        """Return the measures of a configuration, a row for each seed."""
        trials = (result.trial for result in self.by_name[name])
        return [replace(row, measures={**row.measures, "unplaced": float(row.unplaced)}) for row in trials]

    def measures(self) -> list[Measure]:
        """Return the measures with a value other than 0."""
        rows = [row for name in self.names for row in self.rows(name)]
        nonzero_measures = [measure for measure in MEASURES if any(row.measures.get(measure.key) for row in rows)]
        return [*nonzero_measures, *(Measure(name, name, 0, "number") for name in self.own_measures(rows))]

    def own_measures(self, rows: Sequence[TrialRow]) -> list[str]:
        """Return the measures that the experiment defines."""
        return list(dict.fromkeys(name for row in rows for name in row.measures if not is_known_measure(name)))

    def find(self, measure: Measure, name: str, baseline: str) -> Finding | None:
        """Return a measure of a configuration, or ``None`` if its trials do not have it."""
        values = collect_values(self.rows(name), measure.key)
        if not values:
            return None
        compared = (
            collect_values(self.rows(baseline), measure.key) if name != baseline and baseline in self.names else {}
        )
        interval, difference = compute_interval(list(values.values())), compute_difference(values, compared)
        return Finding(measure, name, interval, difference, self.is_exact)

    def intervals(self, measure: Measure) -> dict[str, Interval]:
        """Return the interval of a measure by configuration. Configurations without it are omitted."""
        findings = ((name, self.find(measure, name, name)) for name in self.names)
        return {name: finding.value for name, finding in findings if finding is not None}

    @property
    def counts_arrivals(self) -> bool:
        """Whether pods arrived one by one, so that the requested share is the time axis."""
        return not any("wait.mean" in row.measures for name in self.names for row in self.rows(name))

    def lines(self, field: str) -> list[Line]:
        """Return a series of a field of the points for each configuration: the median of its seeds, and their range."""
        curves = []
        by_arrivals = self.counts_arrivals
        for name in self.names:
            series = [
                (
                    np.array([100 * point.asked if by_arrivals else point.at for point in result.points]),
                    np.array([getattr(point, field) for point in result.points], dtype=np.float64),
                )
                for result in self.by_name[name]
                if len(result.points) > 1 and getattr(result.points[0], field) is not None
            ]
            if series:
                # All curves of a configuration on one grid, up to the end of the shortest.
                grid = np.linspace(min(x[0] for x, _ in series), min(x[-1] for x, _ in series), GRID)
                heights = np.array([np.interp(grid, x, y) for x, y in series])
                columns = (grid, np.median(heights, axis=0), heights.min(axis=0), heights.max(axis=0))
                curves.append(Line(name, *(column.tolist() for column in columns)))
        return curves

    def classes(self) -> list[str]:
        """Return the classes of pods for waiting times."""
        prefix = "wait.p95."
        keys = dict.fromkeys(key for name in self.names for row in self.rows(name) for key in row.measures)
        return [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]


def group_by_scene(names: Sequence[str], results: Sequence[TrialResult], exact: Collection[str] = ()) -> list[Scene]:
    """Group successful trials by trace and cluster, in the order of the results; ``exact`` names fixed traces."""
    good = [result for result in results if not result.trial.error]
    pairs = dict.fromkeys((result.trial.trace, result.trial.cluster) for result in good)
    return [
        Scene(
            trace,
            cluster,
            names,
            [r for r in good if (r.trial.trace, r.trial.cluster) == (trace, cluster)],
            is_exact=trace in exact,
        )
        for trace, cluster in pairs
    ]


MAX_PODS: Final = 100
"""Maximum number of listed pods per comparison. The rows contain all."""


class MovedPod(Struct, frozen=True):
    """The results of two policies for one pod."""

    before: PodRow
    after: PodRow

    @property
    def delay(self) -> float:
        """The additional waiting time; infinite if the pod got no node."""
        before, after = (float("inf") if row.waited is None else row.waited for row in (self.before, self.after))
        return 0.0 if before == after else after - before


class Differences(Struct, frozen=True):
    """A comparison of all pods of a seed with the baseline."""

    pods: int
    other_node: int
    only_before: int
    """Number of pods that got a node only under the baseline."""
    only_after: int
    sooner: int
    later: int
    moved: Sequence[MovedPod]
    """Pods with another node or waiting time, largest differences first."""


def compare_pods(before: Mapping[str, PodRow], after: Mapping[str, PodRow]) -> Differences:
    """Compare the pods of two trials of a seed."""
    pairs = [MovedPod(row, after[name]) for name, row in before.items() if name in after]
    moved_pods = [pod for pod in pairs if pod.before.node != pod.after.node or pod.delay]
    waits = [(pod.before.waited is None, pod.after.waited is None) for pod in pairs]
    return Differences(
        pods=len(pairs),
        other_node=sum(
            1 for pod in moved_pods if pod.before.node and pod.after.node and pod.before.node != pod.after.node
        ),
        only_before=waits.count((False, True)),
        only_after=waits.count((True, False)),
        sooner=sum(1 for pod in pairs if pod.delay < 0),
        later=sum(1 for pod in pairs if pod.delay > 0),
        moved=sorted(moved_pods, key=lambda pod: (-abs(pod.delay), pod.before.pod)),
    )


def render_differences(scene: Scene, baseline: str) -> str:
    """Compare the pods of each policy with the baseline, for the first seed that both have."""
    parts = []
    by_seed = {result.trial.seed: result for result in scene.by_name[baseline] if result.pods}
    for name in scene.names:
        compared = next((r for r in scene.by_name[name] if r.trial.seed in by_seed and r.pods), None)
        if name != baseline and compared is not None:
            before = {row.pod: row for row in by_seed[compared.trial.seed].pods}
            differences = compare_pods(before, {row.pod: row for row in compared.pods})
            parts.append(_render_policy(name, baseline, compared.trial.seed, differences))
    return f"<h2>Pods with other results</h2>{''.join(parts)}" if parts else ""


def _render_policy(name: str, baseline: str, seed: int, differences: Differences) -> str:
    counts = {
        f"{differences.other_node:,} of {differences.pods:,} pods got another node": True,
        f"{differences.sooner:,} got a node sooner, {differences.later:,} later": differences.sooner
        or differences.later,
        f"{differences.only_after:,} got a node only under {name}": differences.only_after,
        f"{differences.only_before:,} got a node only under {baseline}": differences.only_before,
    }
    summary = "; ".join(text for text, is_relevant in counts.items() if is_relevant)
    rows = "".join(map(_render_pod, differences.moved[:MAX_PODS]))
    head = f"<tr><th>Pod</th><th>Class</th><th>{escape(baseline)}</th><th>{escape(name)}</th><th>Waited</th></tr>"
    count = len(differences.moved)
    truncation = f"<p class=quiet>The first {MAX_PODS} of {count:,} pods; pods.jsonl contains all.</p>"
    note = truncation if count > MAX_PODS else ""
    return (
        f"<details><summary><b>{escape(name)}</b>, seed {seed}: {escape(summary)}.</summary>"
        f'<div class="scroll"><table class="pods"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        f"{note}</details>"
    )


def _render_pod(pod: MovedPod) -> str:
    before, after = ("never" if row.waited is None else format_wait(row.waited) for row in (pod.before, pod.after))
    waited = before if before == after else f"{before} → {after}"
    cells = (pod.before.pod, pod.before.kind or "–", pod.before.node or "–", pod.after.node or "–", waited)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


MAX_LINES: Final = 6
"""Maximum number of differences per policy in the summary. The table contains all."""


def summarize(scenes: Sequence[Scene], baseline: str) -> str:
    """Summarize better and worse policies of each scene."""
    parts = []
    for scene in scenes:
        compared = find_baseline(scene, baseline)
        lines = _lines(scene, compared)
        if lines:
            title = f"<h3>{escape(scene.trace)} on {escape(scene.cluster)}</h3>" if len(scenes) > 1 else ""
            parts.append(f"{title}<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>")
    if not parts:
        return ""
    random_scenes = [scene for scene in scenes if not scene.is_exact]
    seeds = min((len(scene.by_name[name]) for scene in random_scenes for name in scene.names), default=ENOUGH_SEEDS)
    label = "One seed is" if seeds == 1 else f"{seeds} seeds are"
    hint = f"<p class=quiet>{label} not enough for significant results; use {ENOUGH_SEEDS} or more.</p>"
    parts += [hint] if seeds < ENOUGH_SEEDS else []
    return f'<section class="short"><h2>Summary</h2>{"".join(parts)}</section>'


def find_baseline(scene: Scene, baseline: str) -> str:
    """Return the baseline of a scene; another policy if all trials of the baseline failed."""
    return baseline if baseline in scene.names else scene.names[0]


def _lines(scene: Scene, baseline: str) -> list[str]:
    groups: dict[tuple[bool, bool], list[str]] = {}
    for name in scene.names:
        if name != baseline:
            significant = _find_significant(scene, name, baseline)
            better, worse = (next((f for f in significant if f.verdict == sign), None) for sign in (1, -1))
            facts = ", ".join(f"{f.measure.title}: {_amount(scene, f, baseline)}" for f in (better, worse) if f)
            label = f"<b>{escape(name)}</b>" + (f" ({escape(facts)})" if facts else "")
            groups.setdefault((better is not None, worse is not None), []).append(label)
    than, seeds = escape(baseline), len(scene.by_name[baseline])
    titles = {
        (True, False): f"Better than {than}, and not {'' if scene.is_exact else 'significantly '}worse in any measure",
        (True, True): f"Better than {than} in some measures, worse in others",
        (False, True): f"Worse than {than}",
        (False, False): f"No visible difference from {than}"
        if scene.is_exact
        else f"No significant difference from {than} with {seeds} {'seeds' if seeds > 1 else 'seed'}",
    }
    return [f"{title}: {', '.join(groups[kind])}." for kind, title in titles.items() if kind in groups]


def _find_significant(scene: Scene, name: str, baseline: str) -> list[Finding]:
    findings = (scene.find(measure, name, baseline) for measure in scene.measures())
    significant = [finding for finding in findings if finding is not None and finding.verdict]
    ranks = {key: rank for rank, key in enumerate(FIRST)}
    return sorted(significant, key=lambda finding: ranks.get(finding.measure.key, len(FIRST)))


def _amount(scene: Scene, finding: Finding, baseline: str) -> str:
    """Format a difference: shares in points, other values also relative to the baseline."""
    difference, measure = finding.difference, finding.measure
    assert difference is not None
    direction = "more" if difference.median > 0 else "less"
    amount = measure.format_size(difference.median)
    reference = scene.find(measure, baseline, baseline)
    if measure.form == "share" or reference is None or not reference.value.median:
        return f"{amount} {direction}"
    return f"{amount} or {abs(difference.median) / abs(reference.value.median):.0%} {direction}"


def conclusions(scene: Scene, baseline: str) -> str:
    """Describe for each policy its significant differences from the baseline."""
    cards = []
    for number, name in enumerate(scene.names):
        if name == baseline:
            continue
        lines = [
            f'<li class="{"good" if finding.verdict > 0 else "bad"}">{_sentence(scene, finding, baseline)}</li>'
            for finding in _find_significant(scene, name, baseline)
        ]
        items = "".join(lines[:MAX_LINES]) or "<li class=quiet>no significant difference</li>"
        cards.append(
            f'<article class="card"><h3><i class="swatch c{number % COLORS}"></i>{escape(name)}</h3>'
            f"<ul>{items}</ul></article>"
        )
    if not cards:
        return ""
    about = (
        "Exact differences: the trace is fixed, and the trials contain no randomness. "
        if scene.is_exact
        else "Differences with 95% confidence: the median over seeds and its interval. "
    ) + ("▲ is better, ▼ is worse; points are percentage points.")
    heading = f"<h2>Compared with {escape(baseline)}</h2><p class=quiet>{about}</p>"
    return f'{heading}<div class="cards">{"".join(cards)}</div>'


def _sentence(scene: Scene, finding: Finding, baseline: str) -> str:
    difference, measure = finding.difference, finding.measure
    assert difference is not None
    least, most = sorted((abs(difference.low), abs(difference.high)))
    between = "" if scene.is_exact else f"between {measure.format_size(least)} and {measure.format_size(most)}"
    amount = escape(_amount(scene, finding, baseline))
    return f"{escape(measure.title)}: <b>{amount}</b> <span class=quiet>{escape(between)}</span>"
