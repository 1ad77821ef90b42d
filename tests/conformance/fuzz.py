"""`python -m tests.conformance.fuzz --seed 1 --n 500`: compare both sides on random clusters."""

import argparse
import logging
import sys
from functools import partial
from pathlib import Path

import structlog
from rich.console import Console

from moorage.common.version import RELEASE
from moorage.kube.features import version_pair
from tests.conformance.fuzzer import Decide, Fuzzer, Options, Outcome
from tests.conformance.generator.cluster import EXTRA_FEATURES, GATED_FEATURES
from tests.conformance.oracle import Oracle
from tests.conformance.ours import decide, decide_as_next

FEATURES_HELP = f"comma-separated, of {', '.join((*EXTRA_FEATURES, *GATED_FEATURES))}; all: {', '.join(EXTRA_FEATURES)}"


def main() -> int:
    """Run the command line; return 1 if the sides differ."""
    arguments = _parser().parse_args()
    options = Options(
        seed=arguments.seed,
        count=arguments.n,
        features=find_features(arguments.features),
        search=arguments.search,
        without=tuple(filter(None, arguments.without.split(","))),
        first=arguments.first,
        show=arguments.show,
        shrinks=not arguments.no_shrink,
        save=arguments.save,
        release=arguments.emulated_version,
    )
    console = Console(soft_wrap=True)
    # No kube-scheduler of the next release exists: Moorage is compared with today's.
    with Oracle(emulated=RELEASE if is_next(options.release) else options.release) as oracle:
        outcome = compare(options, oracle, console)
    if arguments.stats:
        console.print(outcome.coverage.table())
    report(outcome, options, console)
    return 1 if outcome.differing else 0


def compare(options: Options, oracle: Oracle, console: Console) -> Outcome:
    """Run the fuzzer with Moorage."""
    silence_logs()
    ours: Decide = decide_as_next if is_next(options.release) else partial(decide, release=options.release)
    return Fuzzer(options, oracle, ours, console).run()


def is_next(release: str) -> bool:
    """Return whether this is the release that is being prepared."""
    return version_pair(release) > version_pair(RELEASE)


def silence_logs() -> None:
    """Silence the log of plugins, which is not compared."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def report(outcome: Outcome, options: Options, console: Console) -> None:
    """Print the differences, and in the last line the number of comparisons."""
    for seed in outcome.refused[:5]:
        console.print(f"the oracle refused the cluster of seed {seed}", highlight=False)
    if len(outcome.clusters) > options.show:
        console.print(
            "also differing:", *(case.seed for case in outcome.clusters[options.show :][:20]), highlight=False
        )
    for kinds, count in outcome.kinds.most_common(20):
        console.print(f"{count} clusters differ in: {kinds}", highlight=False)
    console.print(str(outcome), highlight=False)


def find_features(text: str) -> frozenset[str]:
    """Read a comma-separated list of features; ``all`` selects features without a feature gate."""
    names = frozenset(filter(None, text.split(",")))
    existing = (*EXTRA_FEATURES, *GATED_FEATURES)
    if unknown := names - {*existing, "all"}:
        raise SystemExit(f"--features: {', '.join(sorted(unknown))} is not one of {', '.join(existing)}")
    return names - {"all"} | frozenset(EXTRA_FEATURES) if "all" in names else names


def add_choice_of_clusters(parser: argparse.ArgumentParser) -> None:
    """Add the options that select clusters."""
    parser.add_argument("--seed", default="1")
    parser.add_argument("--n", type=int, default=200, help="how many clusters")
    parser.add_argument("--first", type=int, default=0, help="the number of the first cluster of the seed")
    parser.add_argument("--features", default="", help=FEATURES_HELP)
    parser.add_argument("--search", choices=("all", "config"), default="all")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.fuzz", description=__doc__)
    add_choice_of_clusters(parser)
    parser.add_argument(
        "--emulated-version",
        default=RELEASE,
        help="an older release: compare with its gates; the next release: compare its behavior with today's gates",
    )
    parser.add_argument("--without", default="", help="plugins that are switched off on both sides, comma-separated")
    parser.add_argument("--show", type=int, default=3, help="how many differing clusters to shrink and print")
    parser.add_argument("--no-shrink", action="store_true", help="print them as they are")
    parser.add_argument("--save", type=Path, help="a directory for the shrunk clusters")
    parser.add_argument("--stats", action="store_true", help="print which plugins and reasons occurred")
    return parser


if __name__ == "__main__":
    sys.exit(main())
