"""`make paper-fgd OPENB=dir`: the published comparison of GPU policies from the files of the trace.

Imports the lists of pods in the directory, runs six policies on ten seeds, and prints own values, published values and
t-values. Lists that are missing are named and skipped. ``--ties`` repeats the default list with the other rules for
nodes of equal score. Finished trials are saved: the same command continues after an interrupt.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import typer

from benchmarks.paper_fgd_published import ALLOCATED, ALLOCATED_AT, FRAGMENTED, FRAGMENTED_AT, POLICIES, SEEDS
from moorage.cli.main import run as run_command
from moorage.common.errors import InputError
from moorage.lab import (
    Results,
    TrialResult,
    import_nodes,
    import_pods,
    load_experiment,
    write_nodes_csv,
    write_pods,
)

EXPERIMENT: Final = Path(__file__).parents[1] / "examples/lab/published-table.yaml"
NODES: Final = "openb_node_list_gpu_node.csv"
TIES: Final = ("shuffled", "name", "upstream", "random")


def prepare(source: Path, target: Path) -> list[str]:
    """Import the nodes and the lists of pods; return the names of the lists that exist."""
    target.mkdir(parents=True, exist_ok=True)
    write_nodes_csv(target / "openb-nodes.csv", import_nodes(source / NODES).nodes)
    lists = [name for name in ALLOCATED if (source / f"openb_pod_list_{name}.csv").exists()]
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
    for name in ALLOCATED:
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


def t_value(values: Sequence[float], expected: float, deviation: float = 0.0, count: int = 1) -> float | None:
    """Return Welch's t of some values against others with this mean and standard deviation; ``None`` for one value."""
    if len(values) < 2:
        return None
    error = sqrt(stdev(values) ** 2 / len(values) + deviation**2 / count)
    return (fmean(values) - expected) / error if error else None


def table(results: Sequence[TrialResult], lists: Sequence[str]) -> Iterator[str]:
    """Yield the comparison as Markdown."""
    if missing := [name for name in ALLOCATED if name not in lists]:
        yield f"\n{describe_missing(missing)}"
    for index, percent in enumerate(ALLOCATED_AT):
        yield f"\n### GPU allocation in % when {percent}% of the GPUs are requested\n"
        yield from _compare("pods", [(trace, percent, ALLOCATED[trace], index, trace) for trace in lists], results)
    for trace in lists:
        yield f"\n### Fragmentation in % of all GPUs, {trace} list\n"
        shares = [(trace, percent, FRAGMENTED[trace], i, f"{percent}%") for i, percent in enumerate(FRAGMENTED_AT)]
        yield from _compare("requested", shares, results, field="fragmentation")
    yield "\n### FGD against each policy, seed by seed, at 130%\n"
    yield "| pods | policy | FGD is better by (points) | paired t |\n|---|---|---|---|"
    for trace in lists:
        ours = collect(results, trace, "FGD", ALLOCATED_AT[-1], "gpu")
        for policy in POLICIES[:-1]:
            others = collect(results, trace, policy, ALLOCATED_AT[-1], "gpu")
            differences = [mine - other for mine, other in zip(ours, others, strict=True)]
            if differences:
                t = t_value(differences, 0.0)
                yield f"| {trace} | {policy} | {fmean(differences):+.2f} | {'–' if t is None else f'{t:.1f}'} |"


def _compare(
    label: str,
    rows: Sequence[tuple[str, int, Sequence[Sequence[tuple[float, float]]], int, str]],
    results: Sequence[TrialResult],
    field: str = "gpu",
) -> Iterator[str]:
    """Yield a table of published and own values. A row is a list, a requested share, values, their index and a name."""
    yield f"| {label} | policy | published | s.d. | own | s.d. | difference | t |\n|---|---|---|---|---|---|---|---|"
    for trace, percent, published, index, name in rows:
        for policy, columns in zip(POLICIES, published, strict=True):
            if values := collect(results, trace, policy, percent, field):
                mean, deviation = columns[index]
                t = t_value(values, mean, deviation, SEEDS)
                spread = f"{stdev(values):.2f}" if len(values) > 1 else "–"
                yield (
                    f"| {name} | {policy} | {mean:.2f} | {deviation:.2f} | {fmean(values):.2f} | {spread} "
                    f"| {fmean(values) - mean:+.2f} | {'–' if t is None else f'{t:+.1f}'} |"
                )


def describe_missing(missing: Sequence[str]) -> str:
    """Name the files of missing lists."""
    files = ", ".join(f"openb_pod_list_{name}.csv" for name in missing)
    return f"Skipped, because the file is missing: {files}."


def ties_table(by_rule: Mapping[str, Sequence[TrialResult]]) -> Iterator[str]:
    """Yield the allocation at 130% under each rule for ties."""
    yield "\n### Rules for nodes of equal score, default list, at 130%\n"
    yield f"| ties | {' | '.join(POLICIES)} |\n|---|{'---|' * len(POLICIES)}"
    for rule, results in by_rule.items():
        means = (collect(results, "default", policy, ALLOCATED_AT[-1], "gpu") for policy in POLICIES)
        yield f"| {rule} | {' | '.join(f'{fmean(values):.2f}' if values else '–' for values in means)} |"


def run(path: Path, workers: int) -> list[TrialResult]:
    """Run or resume an experiment with `moorage lab run`, which writes its report and figures. Return its trials."""
    directory = path.with_name(f"{path.stem}-results")
    status = run_command(["lab", "run", str(path), "--out", str(directory), "--workers", str(workers)])
    if status:
        raise SystemExit(status)
    loaded, results = load_experiment(path), Results(directory)
    return [result for trial in loaded.trials() if (result := results.find(trial)) is not None]


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
        if missing := [name for name in ALLOCATED if name not in lists]:
            typer.echo(describe_missing(missing))
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
