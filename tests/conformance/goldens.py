"""Cases with kube-scheduler's results, stored so that the fast suite checks parity without Go.

python -m tests.conformance.goldens record --n 100 --into basics     record random clusters
python -m tests.conformance.goldens keep case.json ...               add clusters that `fuzz --save` wrote
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.conformance.fuzz import add_choice_of_clusters, find_features
from tests.conformance.generator import Case, generate
from tests.conformance.oracle import Oracle, OracleError

DIRECTORY: Final = Path(__file__).parents[1] / "parity" / "decisions"


class Golden(NamedTuple):
    """A request and kube-scheduler's response."""

    case: Case
    decisions: list[dict[str, Any]]


def read(path: Path) -> Iterator[Golden]:
    """Read the cases of a file, one per line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            content = json.loads(line)
            yield Golden(parse_case(content), content["decisions"])


def write(path: Path, goldens: Iterable[Golden]) -> None:
    """Write cases reproducibly."""
    text = "".join(json.dumps(_line(golden), sort_keys=True, separators=(",", ":")) + "\n" for golden in goldens)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def parse_case(content: dict[str, Any]) -> Case:
    """Read a case from plain data."""
    return Case(
        seed=content["seed"],
        objects=content["objects"],
        config=content.get("config"),
        search=content.get("search", "all"),
        feature_gates=content.get("featureGates", {}),
    )


def _line(golden: Golden) -> dict[str, Any]:
    request = golden.case.request(0)
    del request["id"]
    return {"seed": golden.case.seed, **request, "decisions": golden.decisions}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.goldens")
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record", help="record random clusters with kube-scheduler's answers")
    add_choice_of_clusters(recording)
    recording.add_argument("--into", required=True, help="the name of the file in tests/parity/decisions")
    recording.set_defaults(run=_record)
    keeping = commands.add_parser("keep", help="add clusters that `fuzz --save` wrote")
    keeping.add_argument("files", nargs="+", type=Path)
    keeping.add_argument("--into", default="found")
    keeping.set_defaults(run=_keep)
    arguments = parser.parse_args()
    arguments.run(arguments)


def _record(arguments: argparse.Namespace) -> None:
    recorded = []
    with Oracle() as oracle:
        for number in range(arguments.first, arguments.first + arguments.n):
            seed, features = f"{arguments.seed}/{number}", find_features(arguments.features)
            case = generate(seed, features=features, search=arguments.search)
            try:
                recorded.append(Golden(case, oracle.decide(case)))
            except OracleError as error:
                sys.stderr.write(f"left out {case.seed}: {error}\n")
    write(DIRECTORY / f"{arguments.into}.jsonl.gz", recorded)


def _keep(arguments: argparse.Namespace) -> None:
    path = DIRECTORY / f"{arguments.into}.jsonl.gz"
    stored = list(read(path)) if path.exists() else []
    with Oracle() as oracle:
        for file in arguments.files:
            case = parse_case(json.loads(file.read_text()))
            if all(golden.case != case for golden in stored):
                stored.append(Golden(case, oracle.decide(case)))
    write(path, stored)


if __name__ == "__main__":
    main()
