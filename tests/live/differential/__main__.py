"""`python -m tests.live.differential --seed 1 --n 20`: compare kube-scheduler and Moorage on the same pods."""

import argparse
import logging
import sys
from pathlib import Path

import structlog
from rich.console import Console

from tests.live.differential.groups import FLAGS, compare, make_group_scene
from tests.live.differential.runner import Account, Differential
from tests.support.control_plane import control_plane


def main() -> int:
    """Run the command line; return 1 if there are differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.differential", description=__doc__)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--n", type=int, default=20, help="how many clusters")
    parser.add_argument("--first", type=int, default=0, help="the number of the first cluster of the seed")
    parser.add_argument("--stats", action="store_true", help="print what was seen, and what the API server refused")
    parser.add_argument("--save", type=Path, help="a directory for the clusters that the differing pods found")
    parser.add_argument("--groups", action="store_true", help="groups of pods, with their feature gate on")
    arguments = parser.parse_args()
    # Log lines of the check for random ties are not compared.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    console = Console(soft_wrap=True)
    if arguments.groups:
        return _groups(arguments, console)
    with control_plane() as plane:
        account = Differential(plane, console, arguments.save).run(arguments.seed, arguments.first, arguments.n)
    if arguments.stats:
        _print_stats(account, console)
    console.print(str(account), highlight=False)
    return 1 if account.found else 0


def _groups(arguments: argparse.Namespace, console: Console) -> int:
    count = differing = 0
    with control_plane(*FLAGS) as plane:
        for number in range(arguments.first, arguments.first + arguments.n):
            mismatches, fates = compare(plane, make_group_scene(f"{arguments.seed}/{number}"))
            count += len(fates)
            differing += bool(mismatches)
            for item in mismatches:
                console.print(f"seed {arguments.seed}/{number}, {item}", markup=False, highlight=False)
    console.print(f"{arguments.n} clusters, {count} groups, {differing} differences", highlight=False)
    return 1 if differing else 0


def _print_stats(account: Account, console: Console) -> None:
    for reason, count in account.refused.most_common(20):
        console.print(f"{count} refused: {reason}", markup=False, highlight=False)
    console.print(", ".join(f"{count} {kind}" for kind, count in account.seen.most_common()), highlight=False)
    console.print(f"{account.chances} ended by a draw, {account.fleeting} differed once only", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
