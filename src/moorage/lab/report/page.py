"""An experiment as one HTML page that needs nothing else: no scripts, no fonts, no pictures from elsewhere."""

from collections.abc import Sequence
from html import escape
from typing import Final

from moorage.lab.experiment import Experiment
from moorage.lab.report.arrivals import arrivals_as_html
from moorage.lab.report.conclusions import compared_with, conclusions, in_short
from moorage.lab.report.differences import Differences, MovedPod, differences_of
from moorage.lab.report.measures import MEASURES, Measure
from moorage.lab.report.scenes import Scene, scenes_of
from moorage.lab.report.statistics import pareto_front
from moorage.lab.report.style import STYLE
from moorage.lab.report.svg import COLOURS, Dot, bar_groups, interval_chart, line_chart, scatter
from moorage.lab.rows import PointRow, TrialResult

MAX_PODS: Final = 100
"""Maximum number of listed pods per comparison; the rows contain all."""
_BY_KEY: Final = {measure.key: measure for measure in MEASURES}
_GAINS: Final = ("allocation.gpu", "allocation.cpu")
_COSTS: Final = ("cost.used", "energy.used", "wait.p95", "fragmentation", "nodes.used", "spread.cpu")
_CHARTED: Final = (
    *("allocation.gpu", "allocation.cpu", "fragmentation", "wait.p95", "evictions", "spread.cpu"),
    *("cost.used", "energy.used"),
)


def report_page(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    """Write the page; the same rows give the same page."""
    names = [entry.name for entry in experiment.configurations]
    baseline = experiment.compared_with
    scenes = scenes_of(names, results)
    parts = [_header(experiment, results), in_short(scenes, baseline)]
    parts += [_scene(scene, baseline, is_only=len(scenes) == 1) for scene in scenes]
    parts += [_failures(results), _method(experiment, results)]
    if experiment.options.arrivals_only:
        parts.insert(2, arrivals_as_html(results))
    title = escape(experiment.name)
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style>"
    )
    body = "".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>{body}</main></body></html>\n'


def _header(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    seeds = len(experiment.seed_list)
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
    compared = compared_with(scene, baseline)
    heading = "" if is_only else f"<h2 class=scene>{escape(scene.trace)} on {escape(scene.cluster)}</h2>"
    return (
        f"<section>{heading}{_legend(scene)}{conclusions(scene, compared)}{_table(scene, compared)}"
        f"{_charts(scene)}{_pareto(scene)}{_waiting(scene)}{_elsewhere(scene, compared)}</section>"
    )


def _legend(scene: Scene) -> str:
    items = "".join(
        f'<li><i class="swatch c{index % COLOURS}"></i>{escape(name)}</li>' for index, name in enumerate(scene.names)
    )
    return f'<ul class="legend">{items}</ul>'


def _table(scene: Scene, baseline: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in scene.names)
    rows = "".join(_table_row(scene, measure, baseline) for measure in scene.measures())
    return (
        "<h2>All measures</h2><p class=quiet>Median of all seeds, and where it lies with 95% confidence. "
        f"Green and red: surely better or worse than {escape(baseline)}.</p>"
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
        sure = f"{measure.shown(value.low)} – {measure.shown(value.high)}" if value.low != value.high else ""
        cells.append(
            f'<td class="{kind}"><b>{escape(measure.shown(value.median))}</b><small>{escape(sure)}</small></td>'
        )
    about = f"<small>{escape(measure.about)}</small>" if measure.about else ""
    return f"<tr><th>{escape(measure.title)}{about}</th>{''.join(cells)}</tr>"


def _figure(title: str, drawn: str, note: str = "") -> str:
    about = f'<p class="quiet">{escape(note)}</p>' if note else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{about}{drawn}</figure>"


def _charts(scene: Scene) -> str:
    figures = _over_time(scene)
    there = {measure.key for measure in scene.measures()}
    for key in _CHARTED:
        if key not in there:
            continue
        measure = _BY_KEY[key]
        findings = [(name, scene.find(measure, name, name)) for name in scene.names]
        values = [(name, item.value) for name, item in findings if item is not None]
        drawn = interval_chart(
            measure.title, [name for name, _ in values], [value for _, value in values], measure.shown
        )
        figures.append(_figure(measure.title, drawn, measure.about))
    return f'<h2>How they differ</h2><div class="figures">{"".join(figures)}</div>'


def _over_time(scene: Scene) -> list[str]:
    def percent(share: float) -> str:
        return f"{100 * share:g}%"

    def gpu(point: PointRow) -> float | None:
        return point.gpu

    def cpu(point: PointRow) -> float | None:
        return point.cpu

    x_title = "arrived, in % of the cluster's capacity" if scene.counts_arrivals else "hours"
    figures = []
    has_gpus = any(point.gpu for name in scene.names for r in scene.by_name[name] for point in r.points)
    series = [("GPUs allocated", gpu)] if has_gpus else []
    series += [("CPU allocated", cpu), ("GPU fragmentation", lambda point: point.fragmentation)]
    for title, amount in series:
        lines = scene.lines(amount)
        if lines and any(max(line.high) > 0 for line in lines):
            drawn = line_chart(title, lines, x_title, lambda number: f"{number:g}", percent)
            along = "as pods arrive" if scene.counts_arrivals else "as time goes by"
            figures.append(_figure(f"{title}, {along}", drawn, "Median of all seeds; the band is their range."))
    return figures


def _pareto(scene: Scene) -> str:
    there = {measure.key for measure in scene.measures()}
    gain = next((key for key in _GAINS if key in there), None)
    cost = next((key for key in _COSTS if key in there and not _is_same(scene, key)), None)
    if gain is None or cost is None or len(scene.names) < 2:
        return ""
    gains, costs = _BY_KEY[gain], _BY_KEY[cost]
    dots = []
    for name in scene.names:
        x, y = scene.find(costs, name, name), scene.find(gains, name, name)
        if x is not None and y is not None:
            dots.append(Dot(name, x.value, y.value))
    front = pareto_front([(dot.x.median, dot.y.median) for dot in dots])
    title = "Gain and cost (Pareto front)"
    drawn = scatter(title, dots, front, (costs.title, costs.shown), (gains.title, gains.shown))
    best = ", ".join(dots[index].name for index in front)
    note = f"{costs.title} to the right, {gains.title} upwards: left and up is better. Not dominated: {best}."
    return f'<h2>What it costs</h2><div class="figures wide">{_figure(title, drawn, note)}</div>'


def _is_same(scene: Scene, key: str) -> bool:
    findings = [scene.find(_BY_KEY[key], name, name) for name in scene.names]
    return len({item.value.median for item in findings if item is not None}) < 2


def _waiting(scene: Scene) -> str:
    figures = []
    for quantile, title in (("p50", "Median wait"), ("p95", "95th percentile of the wait")):
        groups = []
        for kind in scene.classes():
            measure = Measure(f"wait.{quantile}.{kind}", title, -1, "seconds")
            findings = [scene.find(measure, name, name) for name in scene.names]
            groups.append((kind, [item.value.median if item is not None else 0.0 for item in findings]))
        if any(value for _, values in groups for value in values):
            figures.append(_figure(f"{title}, by class", bar_groups(title, groups, _BY_KEY["wait.p95"].shown)))
    return f'<h2>Waiting times</h2><div class="figures">{"".join(figures)}</div>' if figures else ""


def _elsewhere(scene: Scene, baseline: str) -> str:
    """List the pods that went elsewhere, of the first seed that both have."""
    parts = []
    by_seed = {result.trial.seed: result for result in scene.by_name[baseline] if result.pods}
    for name in scene.names:
        compared = next((r for r in scene.by_name[name] if r.trial.seed in by_seed and r.pods), None)
        if name == baseline or compared is None:
            continue
        before = {row.pod: row for row in by_seed[compared.trial.seed].pods}
        differences = differences_of(before, {row.pod: row for row in compared.pods})
        parts.append(_compared_pods(name, baseline, compared.trial.seed, differences))
    return f"<h2>Which pods went elsewhere</h2>{''.join(parts)}" if parts else ""


def _compared_pods(name: str, baseline: str, seed: int, differences: Differences) -> str:
    sentences = [f"{differences.elsewhere:,} of {differences.pods:,} pods went to another node"]
    sentences += (
        [f"{differences.sooner:,} got one sooner, {differences.later:,} later"]
        if differences.sooner or differences.later
        else []
    )
    sentences += [f"{differences.only_after:,} got one only here"] if differences.only_after else []
    sentences += [f"{differences.only_before:,} got one only under {baseline}"] if differences.only_before else []
    rows = "".join(_moved(pod) for pod in differences.moved[:MAX_PODS])
    head = f"<tr><th>Pod</th><th>Class</th><th>{escape(baseline)}</th><th>{escape(name)}</th><th>Waited</th></tr>"
    more = (
        f"<p class=quiet>{len(differences.moved) - MAX_PODS:,} more are in pods.jsonl.</p>"
        if len(differences.moved) > MAX_PODS
        else ""
    )
    return (
        f"<details><summary><b>{escape(name)}</b>, seed {seed}: {escape('; '.join(sentences))}.</summary>"
        f'<div class="scroll"><table class="pods"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        f"{more}</details>"
    )


def _moved(pod: MovedPod) -> str:
    format_seconds = _BY_KEY["wait.p95"].shown
    waits = [
        ("never" if waited is None else format_seconds(waited)) for waited in (pod.waited_before, pod.waited_after)
    ]
    waited = waits[0] if waits[0] == waits[1] else f"{waits[0]} → {waits[1]}"
    cells = (pod.pod, pod.kind or "–", pod.before or "–", pod.after or "–", waited)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _failures(results: Sequence[TrialResult]) -> str:
    failed = [result.trial for result in results if result.trial.error]
    if not failed:
        return ""
    items = "".join(
        f"<li><b>{escape(row.configuration)}</b> on {escape(row.cluster)} with {escape(row.trace)}, seed {row.seed}: "
        f"{escape(row.error)}</li>"
        for row in failed
    )
    return f'<section class="failed"><h2>Trials that failed</h2><ul>{items}</ul></section>'


def _method(experiment: Experiment, results: Sequence[TrialResult]) -> str:
    from moorage import __version__

    options = experiment.options
    sentences = [
        "Every trial is the real scheduler with the configuration as it would be deployed, in virtual time: pods "
        "arrive, run and finish as in the trace, and bindings take no time.",
        "A seed is one repetition: another made-up trace, or another order of the pods, and the same for every policy.",
        "Intervals are bootstrapped (2,000 resamples, 95%); differences are taken seed by seed.",
    ]
    if options.arrivals_only:
        sentences.append("Pods arrive one by one, and no pod finishes.")
    if options.inflate:
        sentences.append(
            f"Clones of random pods are added until {100 * options.inflate:g}% of the cluster is requested."
        )
    if overcommitted := sum(result.trial.measures.get("overcommitted", 0.0) for result in results):
        sentences.append(f"{overcommitted:,.0f} times a node was given more than it has: a policy lacks a filter.")
    lines = "".join(f"<li>{escape(line)}</li>" for line in sentences)
    return (
        f"<footer><h2>How this was measured</h2><ul>{lines}</ul><p class=quiet>Moorage {escape(__version__)}; "
        "trials.jsonl, points.jsonl and pods.jsonl in the same folder contain every number in it.</p></footer>"
    )
