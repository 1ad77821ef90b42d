"""Calibration of `moorage when`: forecasts at arrivals of replayed traces, compared with the starts that follow.

    python -m benchmarks.forecasts [--data DIR] [--forecasts 60] [--draws 19] [--json FILE] [--pods 900] [TRACE ...]

Generated traces need no files; the others are read from DIR if they exist. GENERATOR-SEED@LOAD is a generated
trace; philly-WEEK and philly-WEEK-VC are an ISO week of all or of one virtual cluster of the complete philly.csv. The
clusters are sized so that pods wait. A forecast sees only pods that had arrived, and durations of pods that had ended.
It is corrected by the earlier forecasts of the same trace with known starts. Only pods that failed in the first attempt
are forecast, because the start of the others is trivial.
"""

import argparse
import csv
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from moorage.lab import (
    Calibration,
    Conditions,
    ForecastRow,
    LabCluster,
    NodePool,
    PolicyText,
    Trace,
    TracePod,
    Trial,
    build_cluster,
    calibrate,
    generate,
    import_pods,
    read_trace,
)

GPUS = 8
DAY = 86_400.0
LARGEST_VC = "6214e9"
"""The virtual cluster with most jobs in the sample of the Philly trace."""


def size_cluster(trace: Trace, load: float) -> LabCluster:
    """Build GPU nodes (or CPU nodes for a trace without GPUs) with the mean demand as capacity, divided by a load."""
    span = max(pod.arrives for pod in trace.pods) or 1.0
    has_gpus = any(pod.gpus for pod in trace.pods)
    work = sum((pod.gpu_request / 1000 if has_gpus else pod.cpu_milli / 1000) * (pod.runs or 0.0) for pod in trace.pods)
    per_node = GPUS if has_gpus else 32
    count = max(2, round(work / span / load / per_node))
    pool = NodePool("pool", count, "960" if has_gpus else "32", "8Ti", pods=1000, gpus=GPUS if has_gpus else 0)
    return build_cluster("sized", (pool,), "benchmarks.forecasts")


def read_philly(path: Path, select: Callable[[str], bool], name: str) -> Trace:
    """Read jobs of some virtual clusters; the sample has few jobs before its last four days."""
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if select(row["cluster"])]
    moments = [datetime.fromisoformat(row["timestamp"]).timestamp() for row in rows]
    first = max(moments) - 3.9 * DAY
    jobs = [(moment, number) for number, moment in enumerate(moments) if moment >= first]
    pods = []
    for moment, number in sorted(jobs):
        row = rows[number]
        gpus = min(int(row["num_gpus"]), GPUS)
        pods.append(
            TracePod(
                name=f"job-{number}",
                arrives=moment - first,
                runs=float(row["duration"]),
                gpus=gpus,
                gpu_milli=1000 if gpus else 0,
                kind=f"{gpus} GPUs",
            )
        )
    return Trace(name, tuple(pods))


def read_philly_week(path: Path, week: int, vc: str, name: str) -> Trace:
    """Read the jobs of an ISO week; their class is the virtual cluster, or the number of GPUs if there is only one."""
    pods = []
    with path.open(encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            moment = datetime.fromisoformat(row["timestamp"])
            if moment.isocalendar()[1] == week and vc in ("", row["cluster"]):
                gpus = min(int(row["num_gpus"]), GPUS)
                pods.append(
                    TracePod(
                        name=f"job-{number}",
                        arrives=moment.timestamp(),
                        runs=float(row["duration"]),
                        gpus=gpus,
                        gpu_milli=1000 if gpus else 0,
                        kind=f"{gpus} GPUs" if vc else row["cluster"],
                    )
                )
    return Trace(name, _rebase(pods))


def _rebase(pods: Iterable[TracePod]) -> tuple[TracePod, ...]:
    ordered = sorted(pods, key=lambda pod: pod.arrives)
    return tuple(replace(pod, arrives=pod.arrives - ordered[0].arrives) for pod in ordered)


def list_trials(data: Path | None, names: list[str], pods: int = 900) -> Iterator[Trial]:
    """Return the trials: trace, sized cluster, default profile."""
    for name, load, seed, count in (
        ("training", 0.9, 11, 600),
        ("training", 1.1, 12, 500),
        ("training", 1.0, 21, 1200),
        ("training", 1.2, 22, 900),
        ("batch", 1.0, 13, 1500),
        ("mixed", 1.2, 14, 1200),
    ):
        title = f"{name}-{seed}"
        if not names or title in names:
            trace = generate(name, seed, pods=count)
            trace = Trace(title, tuple(replace(pod, fails=0) for pod in trace.pods))
            yield Trial(trace, size_cluster(trace, load), PolicyText("default"), seed, Conditions())
    for title in names:
        if match := re.fullmatch(r"(training|batch|mixed)-(\d+)@([\d.]+)", title):
            name, seed = match[1], int(match[2])
            trace = Trace(title, tuple(replace(pod, fails=0) for pod in generate(name, seed, pods=pods).pods))
            yield Trial(trace, size_cluster(trace, float(match[3])), PolicyText("default"), seed, Conditions())
        elif data is not None and (match := re.fullmatch(r"philly-(\d+)(?:-(\w+))?(?:@([\d.]+))?", title)):
            trace = read_philly_week(data / "philly.csv", int(match[1]), match[2] or "", title)
            yield Trial(trace, size_cluster(trace, float(match[3] or 0.9)), PolicyText("default"), 1, Conditions())
    if data is None:
        return
    readers: dict[str, tuple[float, Callable[[], Trace]]] = {
        "philly-large": (
            0.9,
            lambda: read_philly(data / "philly-4000.csv", lambda vc: vc == LARGEST_VC, "philly-large"),
        ),
        "philly-others": (
            0.9,
            lambda: read_philly(data / "philly-4000.csv", lambda vc: vc != LARGEST_VC, "philly-others"),
        ),
        "openb": (1.0, lambda: _read_openb(data / "openb_pod_list_default.csv")),
    }
    for title, (load, read) in readers.items():
        if not names or title in names:
            trace = read()
            yield Trial(trace, size_cluster(trace, load), PolicyText("default"), 1, Conditions())


def _read_openb(path: Path) -> Trace:
    """Read the pods of the last days, in which most pods arrive, without their GPU models."""
    pods = list(import_pods("openb", path))
    last = max(pod.arrives for pod in pods)
    recent = [replace(pod, gpu_models=(), kind=pod.kind) for pod in pods if pod.arrives > last - 14 * DAY]
    return Trace("openb", _rebase(recent))


def main(arguments: list[str]) -> None:
    """Print one row of the table after each trace."""
    parser = argparse.ArgumentParser(description="Calibration of `moorage when`.")
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="names of traces, or files; all by default")
    parser.add_argument("--data", type=Path, help="directory with philly-4000.csv and openb_pod_list_default.csv")
    parser.add_argument(
        "--load", type=float, default=1.0, help="demand of a trace in a file, as a share of its cluster"
    )
    parser.add_argument("--pods", type=int, default=900, help="number of pods of GENERATOR-SEED@LOAD")
    parser.add_argument("--forecasts", type=int, default=60)
    parser.add_argument("--draws", type=int, default=19)
    parser.add_argument("--json", type=Path, help="append each forecast to this file, one object per line")
    options = parser.parse_args(arguments)
    files = [Path(name) for name in options.traces if "@" not in name and Path(name).suffix]
    names = [name for name in options.traces if Path(name) not in files]
    trials = list(list_trials(options.data, names, options.pods)) if names or not files else []
    for path in files:
        trace = read_trace(path)
        trials.append(Trial(trace, size_cluster(trace, options.load), PolicyText("default"), 1, Conditions()))
    sys.stdout.write(
        "| trace | nodes | waiting pods | forecasts | unknown | inside 80% | uncorrected | before p10 | after p90 "
        "| error | naive | gain |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
    for trial in trials:
        began = time.monotonic()
        result = calibrate(
            trial,
            forecasts=options.forecasts,
            draws=options.draws,
            progress=_show,
            on_row=partial(_append, options.json, trial.trace.name),
        )
        sys.stdout.write(f"{_row(trial, result)}\n")
        sys.stdout.flush()
        sys.stderr.write(f"\r{trial.trace.name}: {time.monotonic() - began:.0f} s\n")


def _append(path: Path | None, trace: str, row: ForecastRow) -> None:
    """Write a forecast immediately, so that an interrupted run also has a result."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"trace": trace, **to_builtins(row)}) + "\n")


def _show(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total}")


def _row(trial: Trial, result: Calibration) -> str:
    data = result.as_data()
    shares = " | ".join(f"{data[name]:.0%}" for name in ("coverage", "uncorrected", "below", "above"))
    errors = f"{data['medianError']:.0f} s | {data['naiveError']:.0f} s | {data['gain'] or 0:.0%}"
    return (
        f"| {data['trace']} | {len(trial.cluster.nodes)} | {data['waited']} of {data['pods']} | {data['forecasts']} | "
        f"{data['unknown']} | "
        f"{shares} | {errors} |"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
