"""`python -m benchmarks.lab`: measure the duration, memory, profile and growth of a trial.

Each row runs in a separate process. CPU time, one core.
"""

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from moorage.lab import (
    Conditions,
    ConfigurationEntry,
    NodePool,
    PolicyText,
    Trial,
    build_cluster,
    changed_config,
    generate,
    preset_cluster,
    run_trial,
)

SIZES: Final = ((1_000, 10_000), (5_000, 50_000), (10_000, 100_000))
OPENB: Final = ("FGD", "GpuBestFit", "GpuRandom")
ROOMS: Final = ("engine", "plugins", "state", "queue", "framework", "api", "lab", "simulator", "assembly")


def openb(policy: str) -> Trial:
    """Return the published experiment with synthetic pods: 1,213 nodes, and pods that request 130% of their GPUs."""
    entry = ConfigurationEntry(policy, enabled=("GpuShare",), disabled=("DefaultPreemption",), scores={policy: 1})
    config = json.dumps(changed_config(entry))
    conditions = Conditions(shuffle=True, inflate=1.3, arrivals_only=True, skip_unplaced=True, ties="name")
    return Trial(generate("openb", 1), preset_cluster("openb"), PolicyText(policy, config), 1, conditions)


def default_profile(nodes: int, pods: int) -> Trial:
    """Return services and jobs that arrive and end on many nodes, under the default profile."""
    pools = (NodePool("general", nodes, "32", "128Gi", zones=("a", "b", "c")),)
    trace = generate("batch", 1, pods=pods, pods_per_hour=nodes * 26.0)
    return Trial(trace, build_cluster("large", pools, "benchmark"), PolicyText("default"), 1)


def thousand_per_second(nodes: int, pods: int) -> Trial:
    """Return jobs, 1,000 of them in each second of virtual time."""
    trial = default_profile(nodes, 0)
    return replace(trial, trace=generate("batch", 1, pods=pods, pods_per_hour=3_600_000.0))


def own_shapes(nodes: int, pods: int) -> Trial:
    """Return the same with pods of almost entirely different requests."""
    trial = default_profile(nodes, pods)
    lines = tuple(
        replace(line, cpu_milli=line.cpu_milli + number % 997, memory_mib=line.memory_mib + number % 1009)
        for number, line in enumerate(trial.trace.pods)
    )
    return replace(trial, trace=replace(trial.trace, pods=lines))


def make_trial(case: str) -> Trial:
    """Return the trial of a case."""
    name, *numbers = case.split(":")
    if not numbers:
        return openb(name)
    makers = {"default": default_profile, "thousand": thousand_per_second, "own": own_shapes}
    return makers[name](int(numbers[0]), int(numbers[1]))


def measure(case: str, *, profiled: bool) -> dict[str, Any]:
    """Run one case here."""
    from moorage.common.memory import relax_gc, retain_freed_memory

    relax_gc()
    retain_freed_memory()
    trial = make_trial(case)
    run_trial(Trial(generate("web", 1, pods=1), preset_cluster("web"), trial.policy, 1))  # what is imported late
    profile = cProfile.Profile()
    began = time.process_time()
    result = profile.runcall(run_trial, trial) if profiled else run_trial(trial)
    seconds = time.process_time() - began
    row = {
        "case": case,
        "nodes": len(trial.cluster.nodes),
        "pods": result.trial.pods,
        "attempts": int(result.trial.measures["attempts"]),
        "seconds": round(seconds, 1),
        "pods_per_second": round(result.trial.pods / seconds),
        "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    return row | ({"where": where_time_goes(profile)} if profiled else {})


def where_time_goes(profile: cProfile.Profile) -> str:
    """Return the share of time per package; calls that leave Moorage count for the caller."""
    spent: Counter[str] = Counter()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, _), (_, _, own, _, callers) in stats.items():
        room = _room(file)
        if room:
            spent[room] += own
        else:
            for (caller, _, _), (_, _, share, _) in callers.items():
                spent[_room(caller) or "other"] += share
    total = sum(spent.values())
    return ", ".join(f"{room} {100 * part / total:.0f}%" for room, part in spent.most_common(6))


def _room(file: str) -> str:
    parts = Path(file).parts
    return parts[parts.index("moorage") + 1] if "moorage" in parts and "src" in parts else ""


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "cases", nargs="*", help="only these: FGD, default:10000:100000, thousand:130000:60000, own:..."
    )
    parser.add_argument("--profile", action="store_true", help="profile the trial, which doubles its duration")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        sys.stdout.write(json.dumps(measure(options.one, profiled=options.profile)) + "\n")
        return
    rows = []
    for case in options.cases or (*OPENB, *(f"default:{nodes}:{pods}" for nodes, pods in SIZES)):
        command = [sys.executable, "-m", "benchmarks.lab", "--one", case, *(["--profile"] if options.profile else [])]
        process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(process.stdout.splitlines()[-1]))
    table = Table(*(name.replace("_", " ") for name in rows[0]))
    for row in rows:
        table.add_row(*(f"{value:,}" if not isinstance(value, str) else value for value in row.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
