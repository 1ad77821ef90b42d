"""`make paper-fgd OPENB=dir`: the published comparison of GPU policies from the files of the trace.

Imports the lists of pods in the directory, runs six policies on ten seeds, and prints own values, published values and
t-values. ``--ties`` repeats the default list with the other rules for nodes of equal score.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import typer

from moorage.common.errors import InputError
from moorage.lab import (
    Results,
    TrialResult,
    default_run,
    import_nodes,
    import_pods,
    load_experiment,
    report_page,
    run_experiment,
    write_nodes_csv,
    write_pods,
)

EXPERIMENT: Final = Path(__file__).parents[1] / "examples/lab/published-table.yaml"
NODES: Final = "openb_node_list_gpu_node.csv"
POLICIES: Final = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
PUBLISHED: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    "default": ((86.30, 87.47), (90.62, 90.85), (91.65, 91.88), (91.78, 92.00), (92.86, 93.08), (95.23, 95.39)),
    "gpushare100": ((78.90, 79.44), (81.98, 82.42), (82.22, 82.65), (82.13, 82.57), (84.62, 85.01), (86.64, 86.90)),
    "multigpu50": ((81.28, 90.27), (94.73, 94.85), (95.69, 95.81), (96.06, 96.18), (95.62, 95.74), (97.09, 97.18)),
}
"""GPU allocation in %, when 100% and 130% of the GPUs have been requested; mean of ten seeds."""
FRAGMENTED: Final = (
    *((14.9, 15.5, 15.9, 14.5, 13.5), (12.8, 11.4, 10.1, 9.4, 9.3), (13.0, 11.2, 9.4, 8.5, 8.2)),
    *((12.9, 11.1, 9.3, 8.4, 8.1), (11.7, 10.0, 8.3, 7.4, 7.1), (9.9, 8.0, 6.0, 5.0, 4.7)),
)
"""Fragmentation on the default list, in % of all GPUs."""
ALLOCATED_AT: Final = (100, 130)
FRAGMENTED_AT: Final = (40, 60, 80, 90, 100)
TIES: Final = ("shuffled", "name", "upstream", "random")


def prepare(source: Path, target: Path) -> list[str]:
    """Import the nodes and the lists of pods; return the names of the lists that exist."""
    target.mkdir(parents=True, exist_ok=True)
    write_nodes_csv(target / "openb-nodes.csv", import_nodes(source / NODES).nodes)
    lists = [name for name in PUBLISHED if (source / f"openb_pod_list_{name}.csv").exists()]
    for name in lists:
        pods = import_pods("openb", source / f"openb_pod_list_{name}.csv")
        # The order of the list is part of the published experiment: the seed shuffles it.
        write_pods(target / f"openb-{name}.jsonl", pods)
    if not lists:
        hint = f"download openb_pod_list_default.csv and {NODES} of cluster-trace-gpu-v2023"
        raise InputError(str(source), "there is no list of pods", hint=hint)
    return lists


def write_experiment(target: Path, lists: Sequence[str], seeds: int, ties: str) -> Path:
    """Write the published experiment for the lists that exist, with a number of seeds and a rule for ties."""
    text = EXPERIMENT.read_text(encoding="utf-8")
    for name in PUBLISHED:
        if name not in lists:
            text = re.sub(rf"  - {{name: {name},.*\n", "", text)
    text = re.sub(r"seeds: .*", f"seeds: {list(range(42, 42 + seeds))}", text)
    path = target / f"ties-{ties}.yaml"
    path.write_text(text.replace("ties: shuffled", f"ties: {ties}"), encoding="utf-8")
    return path


def collect(results: Sequence[TrialResult], trace: str, policy: str, percent: int, field: str) -> list[float]:
    """Return a percentage of each seed, when a share of the GPUs has been requested."""
    values = []
    for result in results:
        if (result.trial.trace, result.trial.configuration) == (trace, policy):
            point = next((point for point in result.points if point.asked >= percent / 100 - 1e-9), None)
            if point is not None:
                values.append(100 * float(getattr(point, field)))
    return values


def t_value(values: Sequence[float], expected: float) -> float | None:
    """Return Student's t of the mean of some values against an expected one; ``None`` for fewer than two."""
    spread = stdev(values) if len(values) > 1 else 0.0
    return (fmean(values) - expected) / (spread / sqrt(len(values))) if spread else None


def table(results: Sequence[TrialResult], lists: Sequence[str]) -> Iterator[str]:
    """Yield the comparison as Markdown."""
    for percent, index in zip(ALLOCATED_AT, range(len(ALLOCATED_AT)), strict=True):
        yield f"\n### GPU allocation in % when {percent}% of the GPUs are requested\n"
        yield "| pods | policy | published | own | s.d. | difference | t |\n|---|---|---|---|---|---|---|"
        for trace in lists:
            for policy, published in zip(POLICIES, PUBLISHED[trace], strict=True):
                values = collect(results, trace, policy, percent, "gpu")
                if values:
                    yield _row(f"{trace} | {policy}", published[index], values, digits=2)
    if "default" in lists:
        yield "\n### Fragmentation in % of all GPUs, default list\n"
        yield "| requested | policy | published | own | s.d. | difference | t |\n|---|---|---|---|---|---|---|"
        for index, percent in enumerate(FRAGMENTED_AT):
            for policy, curve in zip(POLICIES, FRAGMENTED, strict=True):
                values = collect(results, "default", policy, percent, "fragmentation")
                if values:
                    yield _row(f"{percent}% | {policy}", curve[index], values, digits=1)
    yield "\n### FGD against each policy, seed by seed, at 130%\n"
    yield "| pods | policy | FGD is better by | paired t |\n|---|---|---|---|"
    for trace in lists:
        ours = collect(results, trace, "FGD", ALLOCATED_AT[-1], "gpu")
        for policy in POLICIES[:-1]:
            others = collect(results, trace, policy, ALLOCATED_AT[-1], "gpu")
            differences = [mine - other for mine, other in zip(ours, others, strict=True)]
            if differences:
                t = t_value(differences, 0.0)
                yield f"| {trace} | {policy} | {fmean(differences):+.2f} | {'–' if t is None else f'{t:.1f}'} |"


def _row(label: str, published: float, values: Sequence[float], *, digits: int) -> str:
    mean, t = fmean(values), t_value(values, published)
    spread = f"{stdev(values):.2f}" if len(values) > 1 else "–"
    return (
        f"| {label} | {published:.{digits}f} | {mean:.{digits}f} | {spread} | {mean - published:+.{digits}f} "
        f"| {'–' if t is None else f'{t:+.1f}'} |"
    )


def ties_table(by_rule: Mapping[str, Sequence[TrialResult]]) -> Iterator[str]:
    """Yield the allocation at 130% under each rule for ties."""
    yield "\n### Rules for nodes of equal score, default list, at 130%\n"
    yield f"| ties | {' | '.join(POLICIES)} |\n|---|{'---|' * len(POLICIES)}"
    for rule, results in by_rule.items():
        means = (collect(results, "default", policy, ALLOCATED_AT[-1], "gpu") for policy in POLICIES)
        yield f"| {rule} | {' | '.join(f'{fmean(values):.2f}' if values else '–' for values in means)} |"


def run(path: Path, workers: int) -> list[TrialResult]:
    """Run or resume an experiment, and write its report."""
    loaded = load_experiment(path)
    results = Results(path.with_name(f"{path.stem}-results"))
    trials = run_experiment(loaded, results, default_run(len(loaded), workers), show=_show)
    results.combine(trials)
    report = results.write("report.html", report_page(loaded.experiment, trials).encode())
    typer.echo(f"report: {report}")
    return trials


def _show(done: int, total: int, name: str) -> None:
    typer.echo(f"{done} of {total}: {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("openb", type=Path, help="directory with the files of cluster-trace-gpu-v2023")
    parser.add_argument("--out", type=Path, default=Path(".bench/paper-fgd"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--ties", action="store_true", help="also run the other rules for nodes of equal score")
    options = parser.parse_args(arguments)
    try:
        lists = prepare(options.openb, options.out)
        results = run(write_experiment(options.out, lists, options.seeds, TIES[0]), options.workers)
        lines = [f"# FGD, {options.seeds} seeds", *table(results, lists)]
        if options.ties and "default" in lists:
            others = {
                rule: run(write_experiment(options.out, ["default"], options.seeds, rule), options.workers)
                for rule in TIES[1:]
            }
            lines += ties_table({TIES[0]: results, **others})
    except InputError as error:
        typer.echo(f"error: {error}")
        return 2
    text = "\n".join(lines) + "\n"
    (options.out / "table.md").write_text(text, encoding="utf-8")
    typer.echo(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
