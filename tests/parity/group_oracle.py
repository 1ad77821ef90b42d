"""Run kube-scheduler on the groups of `group_rows`, and store the results for the fast suite.

python -m tests.parity.group_oracle --record            all of them
python -m tests.parity.group_oracle Q3 T                print the results of rows with these prefixes
"""

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.conformance.oracle import find_binary
from tests.parity.group_rows import ROWS
from tests.parity.group_rows.parts import Json

RECORDED: Final = Path(__file__).parent / "group_rows" / "rows.jsonl.gz"


def ask(names: list[str]) -> dict[str, Json]:
    """Replay rows with the oracle; return its reports by name."""
    request = ({"id": name, "featureGates": ROWS[name][0], "steps": ROWS[name][1]} for name in names)
    lines = "".join(json.dumps(row) + "\n" for row in request)
    command = [find_binary(), "queue", "--stream"]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=300)
    answers = {answer["id"]: answer for answer in map(json.loads, ran.stdout.splitlines())}
    if broken := {name: answer["error"] for name, answer in answers.items() if "error" in answer}:
        raise SystemExit(f"the oracle could not replay: {broken}")
    return answers


def recorded() -> dict[str, list[Json]]:
    """Read kube-scheduler's reports for each row."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {row["id"]: row["steps"] for row in map(json.loads, lines)}


def main() -> int:
    """Record or print."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.group_oracle", description=__doc__)
    parser.add_argument("rows", nargs="*", help="how names of rows begin")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    answers = ask([name for name in ROWS if not options.rows or name.startswith(tuple(options.rows))])
    if options.record:
        text = "".join(json.dumps(answer, sort_keys=True, separators=(",", ":")) + "\n" for answer in answers.values())
        RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
        return 0
    for name, answer in answers.items():
        sys.stdout.write(f"{name}\n")
        for step, report in zip(ROWS[name][1], answer["steps"], strict=True):
            if step["do"] != "advance":
                message = {key: part for key, part in step.items() if key != "object"}
                obj = step.get("object")
                named = f" {obj['kind']} {obj['metadata']['name']}" if obj else ""
                sys.stdout.write(f"  {json.dumps(message)}{named}\n    {json.dumps(report)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
