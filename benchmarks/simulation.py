"""Measure `moorage simulate` with 1,000 nodes and 10,000 pods, in alternation with another checkout.

    python -m benchmarks.simulation [--against /path/to/other/checkout] [--times 3]

CPU seconds of the complete command, including the table; on a busy machine they vary less than elapsed time.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parents[1]
COMMAND: Final = (sys.executable, "-c", "from moorage.cli.main import main; raise SystemExit(main())")


def main() -> None:
    """Measure, and print a line for each checkout."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--against", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=10_000)
    options = parser.parse_args()
    trees = [HERE, *([options.against] if options.against else [])]
    took: dict[Path, list[float]] = {tree: [] for tree in trees}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(options.nodes, options.pods)}))
        for _ in range(options.times):
            for tree in trees:
                took[tree].append(cpu_seconds(tree, file))
    for tree, seconds in took.items():
        each = ", ".join(f"{item:.2f}" for item in seconds)
        sys.stdout.write(f"{statistics.median(seconds):6.2f} CPU s  {tree}  ({each})\n")


def cluster(nodes: int, pods: int) -> list[dict[str, Any]]:
    """Describe nodes in three zones, and pods of twenty apps that fit on them."""
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    return [
        *(
            _manifest("Node", f"n{i:05}", {"topology.kubernetes.io/zone": f"z{i % 3}"}, status={"allocatable": room})
            for i in range(nodes)
        ),
        *(
            _manifest(
                "Pod", f"p{i:06}", {"app": f"a{i % 20}"}, spec={"containers": [{"name": "c", "resources": resources}]}
            )
            for i in range(pods)
        ),
    ]


def _manifest(kind: str, name: str, labels: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}, **fields}


def cpu_seconds(tree: Path, file: Path) -> float:
    """Run the command of a checkout once."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [*COMMAND, "simulate", "--quiet", "--file", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
