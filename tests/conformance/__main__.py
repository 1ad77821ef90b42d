"""The command line of the differential check: see the package."""

import argparse
import json
import logging
import sys
from pathlib import Path

import structlog
from rich.console import Console

from tests.conformance import goldens
from tests.conformance.fuzz import Fuzzer, Options
from tests.conformance.generator import generate
from tests.conformance.generator.cluster import EXTRA_FEATURES
from tests.conformance.oracle import Oracle, OracleError


def main() -> int:
    """Run a command; 1 when the sides differ."""
    arguments = _parser().parse_args()
    run: int = arguments.run(arguments)
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    commands = parser.add_subparsers(required=True)

    compare = commands.add_parser("fuzz", help="compare both sides on random clusters")
    _add_choice_of_clusters(compare)
    compare.add_argument("--first", type=int, default=0, help="the number of the first cluster of the seed")
    compare.add_argument("--without", default="", help="plugins that are switched off on both sides, comma-separated")
    compare.add_argument("--show", type=int, default=3, help="how many differing clusters to shrink and print")
    compare.add_argument("--no-shrink", action="store_true", help="print them as they are")
    compare.add_argument("--save", type=Path, help="a folder for the shrunk clusters")
    compare.add_argument("--stats", action="store_true", help="print which plugins and reasons occurred")
    compare.set_defaults(run=_fuzz)

    record = commands.add_parser("record", help="record random clusters with kube-scheduler's answers")
    _add_choice_of_clusters(record)
    record.add_argument("--into", required=True, help="the name of the file in tests/parity/decisions")
    record.set_defaults(run=_record)

    keep = commands.add_parser("keep", help="add shrunk clusters that --save wrote to a golden file")
    keep.add_argument("files", nargs="+", type=Path)
    keep.add_argument("--into", default="found")
    keep.set_defaults(run=_keep)
    return parser


def _add_choice_of_clusters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", default="1")
    parser.add_argument("--n", type=int, default=200, help="how many clusters")
    parser.add_argument("--features", default="", help=f"comma-separated, of {', '.join(EXTRA_FEATURES)}")
    parser.add_argument("--search", choices=("all", "config"), default="all")


def _features(arguments: argparse.Namespace) -> frozenset[str]:
    return frozenset(filter(None, arguments.features.split(",")))


def _fuzz(arguments: argparse.Namespace) -> int:
    from tests.conformance.ours import decide

    options = Options(
        seed=arguments.seed,
        count=arguments.n,
        features=_features(arguments),
        search=arguments.search,
        without=tuple(filter(None, arguments.without.split(","))),
        first=arguments.first,
        show=arguments.show,
        shrinks=not arguments.no_shrink,
        save=arguments.save,
    )
    # What plugins log while they decide is not what is compared.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    console = Console(soft_wrap=True)
    with Oracle() as oracle:
        outcome = Fuzzer(options, oracle, decide, console).run()
    if arguments.stats:
        console.print(outcome.coverage.table())
    for seed in outcome.refused[:5]:
        console.print(f"the oracle refused the cluster of seed {seed}", highlight=False)
    if len(outcome.clusters) > options.show:
        console.print(
            "also differing:", *(case.seed for case in outcome.clusters[options.show :][:20]), highlight=False
        )
    for kinds, count in outcome.kinds.most_common(20):
        console.print(f"{count} clusters differ in: {kinds}", highlight=False)
    console.print(str(outcome), highlight=False)
    return 1 if outcome.differing else 0


def _record(arguments: argparse.Namespace) -> int:
    kept = []
    with Oracle() as oracle:
        for number in range(arguments.n):
            case = generate(f"{arguments.seed}/{number}", features=_features(arguments), search=arguments.search)
            try:
                kept.append(goldens.Golden(case, oracle.decide(case)))
            except OracleError as error:
                sys.stderr.write(f"left out {case.seed}: {error}\n")
    goldens.write(goldens.FOLDER / f"{arguments.into}.jsonl.gz", kept)
    return 0


def _keep(arguments: argparse.Namespace) -> int:
    path = goldens.FOLDER / f"{arguments.into}.jsonl.gz"
    kept = list(goldens.read(path)) if path.exists() else []
    with Oracle() as oracle:
        for file in arguments.files:
            case = goldens.case_of(json.loads(file.read_text()))
            if all(golden.case != case for golden in kept):
                kept.append(goldens.Golden(case, oracle.decide(case)))
    goldens.write(path, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
