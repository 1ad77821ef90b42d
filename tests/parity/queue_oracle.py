"""Compare our queue with kube-scheduler's on random histories, or record the results of kube-scheduler.

python -m tests.parity.queue_oracle --oracle PATH --seed 1 --n 200
python -m tests.parity.queue_oracle --oracle PATH --seed 1 --n 20 --record
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.parity.queue_histories import history
from tests.parity.queue_replay import Json, replay

GOLDENS = Path(__file__).parent / "queue"


def ask(oracle: str, histories: dict[int, Json]) -> dict[int, Json]:
    """Replay histories with the oracle, by seed."""
    lines = "".join(
        json.dumps({"id": seed, **devices_requested}) + "\n" for seed, devices_requested in histories.items()
    )
    command = [oracle, "queue", "--stream"]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=5 + len(histories))
    # Times are complete milliseconds, except for rounding errors of Go's nanoseconds.
    read = json.JSONDecoder(parse_float=lambda text: round(float(text), 3)).decode
    return {answer["id"]: answer for answer in map(read, ran.stdout.splitlines())}


def first_difference(batch: Json, upstream: list[Json]) -> str | None:
    """Return the first step after which our queue differs from upstream's, and the difference."""
    for number, (step, actual, report) in enumerate(zip(batch["steps"], replay(batch), upstream, strict=True)):
        if actual != report:
            pods = sorted(actual["pods"].keys() | report["pods"].keys())
            parts = [
                f"{key}: ours {actual.get(key)}, theirs {report.get(key)}" for key in ("time", "popped", "nominated")
            ]
            parts += [f"{pod}: ours {actual['pods'].get(pod)}, theirs {report['pods'].get(pod)}" for pod in pods]
            differing = [part for part in parts if len(set(part.partition(": ours ")[2].split(", theirs ", 1))) > 1]
            return f"step {number}, {json.dumps(step)}\n    " + "\n    ".join(differing)
    return None


def main() -> int:
    """Compare or record."""
    parser = argparse.ArgumentParser(description="Compare our queue with kube-scheduler's on random histories.")
    parser.add_argument("--oracle", required=True, help="the oracle's binary; conformance/control-plane builds it")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--n", type=int, default=100, help="how many histories")
    parser.add_argument("--length", type=int, default=120, help="steps of each history")
    parser.add_argument("--record", action="store_true", help="write the oracle's answers to the golden files")
    options = parser.parse_args()
    histories = {seed: history(seed, options.length) for seed in range(options.seed, options.seed + options.n)}
    differing = 0
    for seed, answer in ask(options.oracle, histories).items():
        problem = answer.get("error") or first_difference(histories[seed], answer["steps"])
        if problem is not None:
            differing += 1
            sys.stdout.write(f"seed {seed}: {problem}\n")
        elif options.record:
            golden = {**histories[seed], "reports": answer["steps"]}
            (GOLDENS / f"seed-{seed}.json").write_text(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    sys.stdout.write(f"{len(histories)} histories, {differing} differ\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
