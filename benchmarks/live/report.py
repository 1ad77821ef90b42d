"""`make bench-report`: the page under docs/records/bench with its plots and raw data."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.live import goals, records, workload
from benchmarks.live.charts import Bars, bar_chart
from benchmarks.live.limits import explanation
from benchmarks.live.medians import GOAL_NODES, IDLE, OTHERS, Comparison, comparisons, latencies
from benchmarks.live.schedulers import OURS, THEIRS
from benchmarks.live.session import RAW

DIRECTORY: Final = Path("docs") / "records" / "bench"
METHOD: Final = Path(__file__).with_name("method.md")
START: Final = "start"
FIRST_BIND: Final = 10.0
"""Goal for the seconds to the first binding with 15,000 nodes and 100,000 pods."""
SERIES: Final = (OURS, THEIRS)
COLUMNS: Final = (
    ("pods/s", "pods_per_second", 0),
    ("CPU ms/pod", "cpu_ms_per_pod", 2),
    ("after the first bind", "cpu_ms_per_pod_after_start", 2),
    ("server ms/pod", "server_cpu_ms_per_pod", 2),
    ("first bind s", "seconds_to_first_bind", 1),
    ("peak MiB", "peak_mib", 0),
    ("idle", "idle_share", 2),
    ("others", "others_share", 2),
)
"""The columns of the large tables: title, figure, and number of digits."""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=RAW, help="file with the raw data (default: %(default)s)")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="output directory (default: %(default)s)")
    options = parser.parse_args()
    if not options.json.exists():
        sys.exit(f"bench-report: {options.json} does not exist: run `make bench` first, or pass RAW=file")
    write(records.read(options.json), options.json, options.directory)


def write(content: Mapping[str, Any], raw: Path, directory: Path) -> None:
    """Write the page, its plots and its raw data."""
    directory.mkdir(parents=True, exist_ok=True)
    name = content["date"]
    for figure, drawing in plots(content).items():
        (directory / f"{name}-{figure}.svg").write_text(drawing)
    (directory / f"{name}.md").write_text(page(content))
    if raw.resolve() != (directory / f"{name}.json").resolve():
        shutil.copy(raw, directory / f"{name}.json")
    sys.stdout.write(f"{directory / name}.md\n")


def plots(content: Mapping[str, Any]) -> dict[str, str]:
    """Draw CPU and speed at each size, by the name of the plot."""
    drawn = {}
    drains = [each for each in _drains(content) if each.ours and each.theirs]
    for nodes in sorted({each.nodes for each in drains}):
        here = [each for each in drains if each.nodes == nodes]
        cpu = [_bars(each, "cpu_ms_per_pod", _cpu_goal(each)) for each in here]
        speed = [_bars(each, "pods_per_second") for each in here]
        drawn[f"cpu-{nodes}"] = bar_chart(f"CPU ms per pod, {nodes:,} nodes (less is better)", SERIES, cpu, 2)
        drawn[f"speed-{nodes}"] = bar_chart(f"Pods per second, {nodes:,} nodes (more is better)", SERIES, speed)
    return drawn


def page(content: Mapping[str, Any]) -> str:
    """Write the page as Markdown."""
    parts = [
        *_head(content),
        *_next_goals(content),
        *_goals(content),
        *_all_rows(content),
        *_start(content),
        *_latency(content),
    ]
    return "\n".join([*parts, *_correctness(content), METHOD.read_text()])


def _head(content: Mapping[str, Any]) -> Iterator[str]:
    machine, versions = content["machine"], content["versions"]
    yield f"# Moorage and kube-scheduler, {content['date']}\n"
    yield f"Machine: {machine['cores']} cores ({machine['cpu']}), {machine['memory_gib']} GiB, {machine['system']};"
    yield "etcd, the API server, the scheduler and the benchmark share it."
    yield f"Versions: {', '.join(f'{name} {text}' for name, text in versions.items())}."
    builds = sorted({f"{row['date']}, moorage {row['moorage']}" for row in _rows(content)})
    if builds != [f"{content['date']}, moorage {versions['moorage']}"]:
        yield f"**Combines several runs**: {'; '.join(builds)}."
    yield f"Raw data: [{content['date']}.json]({content['date']}.json)."
    yield "Repeat it with `make bench-goals BEFORE=../other`, or with `make bench WORKLOADS=all NODES=1000,5000,15000`,"
    yield "`make bench-start` and `bench-latency`; `make bench-report` writes this page.\n"


def _next_goals(content: Mapping[str, Any]) -> Iterator[str]:
    """Show the rows of `benchmarks/goals.yaml` that were measured."""
    verdicts = [each for row in goals.load() for each in goals.judged(row, content)]
    if not verdicts:
        return
    yield "## The goals of the second round\n"
    yield "*Less CPU* and *speed* are factors against kube-scheduler (in engine rows, against the earlier code)."
    yield "Other rows are shares of its figure: the ratio of the medians, and the ratio of each round. CPU covers the"
    yield "complete process from its start. *At least* and *at most*: kube-scheduler was stopped before it finished.\n"
    yield from _table(
        ("row", "pods", "what", "ours", "theirs", "ratio", "rounds", "goal", ""),
        [_next_goal(each) for each in verdicts],
    )
    yield f"\n{sum(each.is_met for each in verdicts)} of {len(verdicts)} are met.\n"
    for name, limit in dict.fromkeys((_named(each.row), each.row.limit) for each in verdicts if not each.is_met):
        yield f"- **{name}**: {limit or 'not investigated yet.'}"
    yield ""
    yield from _memory(content)


def _memory(content: Mapping[str, Any]) -> Iterator[str]:
    """Return the memory of each row next to that of the earlier code, if it was measured."""
    measured = [(row, peaks) for row in goals.load() if goals.BEFORE in (peaks := goals.peaks(row, content))]
    if measured:
        yield "Memory of the same rows, peak MiB of all processes, medians; the earlier code had one turn per row.\n"
        yield from _table(
            ("row", "ours", "earlier code", "kube-scheduler"),
            [
                (_named(row), *(_whole(peaks.get(name)) for name in (OURS, goals.BEFORE, THEIRS)))
                for row, peaks in measured
            ],
        )
        yield ""


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _named(row: goals.GoalRow) -> str:
    title = f"engine alone, {row.engine}" if row.engine else workload.load(row.workload, row.nodes).title
    return f"{title}, {row.nodes:,} nodes"


def _next_goal(each: goals.Verdict) -> Sequence[str]:
    row, measure = each.row, each.measure
    sign = "≥" if measure.is_more_better else "≤"
    bound, unit = ("at least ", "×") if measure.is_more_better else ("at most ", "")
    return (
        _named(row),
        f"{row.pods:,}" if row.pods else "",
        measure.title,
        f"{each.ours:,.1f} {measure.unit}",
        f"{each.theirs:,.1f} {measure.unit}",
        f"{bound if each.is_bound_only else ''}**{each.ratio:.2f}{unit}**",
        ", ".join(f"{ratio:.2f}" for ratio in each.ratios),
        f"{sign} {each.goal:g}{unit}",
        "met" if each.is_met else "missed",
    )


def _goals(content: Mapping[str, Any]) -> Iterator[str]:
    rows = [each for each in _drains(content) if each.judgement]
    if not rows:
        return
    yield f"## The goals, at {GOAL_NODES:,} nodes\n"
    yield "Milliseconds depend on the machine, so goals are ratios: *less CPU* is kube-scheduler's CPU in this run"
    yield "divided by ours, and the goal comes from the design table (0.6 ms where kube-scheduler takes 3.1:"
    yield "5.2 times)."
    yield "A row is met when both goals are, or when our CPU is at its goal and no core is idle"
    yield f"(less than {IDLE:.0%} of the machine, with less than {OTHERS:.0%} taken by other programs).\n"
    yield from _table(
        (
            "workload",
            "CPU ms/pod",
            "kube-scheduler",
            "less CPU",
            "goal",
            "pods/s",
            "kube-scheduler",
            "faster",
            "goal",
            "idle",
            "",
        ),
        [
            (
                each.title,
                f"**{each.ours['cpu_ms_per_pod']:.2f}**",
                f"{each.theirs['cpu_ms_per_pod']:.2f}",
                f"**{each.cpu_ratio:.1f}×**",
                f"≥ {each.goal.less_cpu:.1f}×" if each.goal else "",
                f"**{each.ours['pods_per_second']:,.0f}**",
                f"{each.theirs['pods_per_second']:,.0f}",
                f"**{each.speedup:.1f}×**",
                f"≥ {each.goal.speedup:g}×" if each.goal else "",
                f"{each.ours['idle_share']:.0%}",
                each.judgement,
            )
            for each in rows
        ],
    )
    met = sum(each.judgement != "missed" for each in rows)
    yield f"\n{met} of {len(rows)} rows are met.\n"
    yield from (f"- {explanation(each, content['machine']['cores'])}" for each in rows if each.judgement != "met")
    if met < len(rows):
        yield "\nExplanations and rejected experiments: [benchmarks](../../benchmarks.md)."
    yield ""


def _all_rows(content: Mapping[str, Any]) -> Iterator[str]:
    drains = _drains(content)
    for nodes in sorted({each.nodes for each in drains}):
        yield f"## {nodes:,} nodes\n"
        if any(each.nodes == nodes and each.ours and each.theirs for each in drains):
            yield f"![CPU per pod]({content['date']}-cpu-{nodes}.svg)\n"
            yield f"![Pods per second]({content['date']}-speed-{nodes}.svg)\n"
        yield "Ours / kube-scheduler's, medians over the rounds.\n"
        yield from _table(
            ("workload", "pods", "rounds", *(title for title, _, _ in COLUMNS)),
            [_row(each) for each in drains if each.nodes == nodes],
        )
        yield ""


def _row(each: Comparison) -> Sequence[str]:
    figures = (_pair(each, figure, digits) for _, figure, digits in COLUMNS)
    return (each.title, f"{each.pods:,}", str(each.rounds), *figures)


def _start(content: Mapping[str, Any]) -> Iterator[str]:
    rows = [each for each in comparisons(content.get("drain", ())) if each.workload == START]
    if not rows:
        return
    yield "## Start-up\n"
    yield "A scheduler starts with existing nodes and pods; 100 pods are pending. Ours / kube-scheduler's.\n"
    yield from _table(
        ("nodes", "existing pods", "seconds to the first bind", "peak MiB", "goals"),
        [
            (
                f"{each.nodes:,}",
                f"{20 * each.nodes // 3:,}",
                _pair(each, "seconds_to_first_bind", 1),
                _pair(each, "peak_mib", 0),
                _start_verdict(each),
            )
            for each in rows
        ],
    )
    yield ""


def _start_verdict(each: Comparison) -> str:
    in_time = each.ours and each.ours["seconds_to_first_bind"] <= FIRST_BIND
    in_memory = each.ours and each.theirs and each.ours["peak_mib"] <= each.theirs["peak_mib"]
    text = f"first bind within {FIRST_BIND:g} s: {'met' if in_time else 'missed'}"
    return f"{text}; no more memory: {'met' if in_memory else 'missed'}"


def _latency(content: Mapping[str, Any]) -> Iterator[str]:
    rows = latencies(content.get("latency", ()))
    if not rows:
        return
    yield "## Latency\n"
    yield "From the watch event of a pod to that of its binding, observed by one watcher, at a steady rate.\n"
    yield from _table(
        ("scheduler", "nodes", "pods/s", "p50 ms", "p90 ms", "p99 ms", "longest ms", "CPU ms/pod"),
        [
            (
                each["scheduler"],
                f"{each['nodes']:,}",
                *(f"{each[name]:,.1f}" for name in ("rate", "p50", "p90", "p99", "p100", "cpu_ms_per_pod")),
            )
            for each in rows
        ],
    )
    yield ""


def _correctness(content: Mapping[str, Any]) -> Iterator[str]:
    wrong = [row for row in _rows(content) if row.get("problems")]
    yield "## Correctness\n"
    drains, latency_rounds = len(content.get("drain", ())), len(content.get("latency", ()))
    yield f"The cluster was checked after {drains} drains: every pod bound once or reported, no node over capacity,"
    yield f"every required constraint kept. In {latency_rounds} rounds of latency, only that all pods were bound."
    yield f"{len(wrong)} had problems.\n"
    for row in wrong:
        where = f"{row['workload']}, {row['nodes']:,} nodes, {row['scheduler']}, round {row['number']}"
        yield f"- {where}: {row['problems'][0]}"
    yield ""


def _rows(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for section in ("drain", "latency", "engine") for row in content.get(section, ())]


def _drains(content: Mapping[str, Any]) -> list[Comparison]:
    return [each for each in comparisons(content.get("drain", ())) if each.workload != START]


def _cpu_goal(each: Comparison) -> float | None:
    """Return the CPU per pod at which this run would meet the goal."""
    return each.theirs["cpu_ms_per_pod"] / each.goal_here.less_cpu if each.goal_here else None


def _bars(each: Comparison, figure: str, goal: float | None = None) -> Bars:
    return Bars(each.workload, (each.ours[figure], each.theirs[figure]), goal)


def _pair(each: Comparison, figure: str, digits: int) -> str:
    return " / ".join(f"{side[figure]:,.{digits}f}" if side else "–" for side in (each.ours, each.theirs))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
