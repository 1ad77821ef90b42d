"""`python -m tests.conformance.run [--drawn N]`: a fixed budget of comparisons, with fixed seeds and a drawn one."""

import argparse
import sys
import time
from typing import Final

from rich.console import Console

from tests.conformance.changes import prove
from tests.conformance.fuzz import compare, features_of, report
from tests.conformance.fuzzer import Options
from tests.conformance.oracle import Oracle, find_binary
from tests.parity.queue_histories import history
from tests.parity.queue_oracle import ask, first_difference

QUEUE_HISTORIES: Final = 60
CHANGES: Final = 30
"""Clusters whose pending pods are explained, of each sort."""
HISTORY_STEPS: Final = 120


def main() -> int:
    """Run the budget; 1 when the sides differ anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--drawn", type=int, default=int(time.time()), help="the seed beside the fixed ones (default: the time)"
    )
    drawn = parser.parse_args().drawn
    console = Console(soft_wrap=True)
    differing = _decisions(f"drawn-{drawn}", console)
    differing += _changes(f"drawn-{drawn}", console)
    differing += _queues(1, console) + _queues(drawn, console)
    return 1 if differing else 0


def _decisions(drawn: str, console: Console) -> int:
    """Compare decisions on random clusters: with volumes, devices, groups and alpha gates, and limited searches."""
    budget = [
        *(Options(seed, count) for seed, count in (("fixed", 1_200), (drawn, 60))),
        *(Options(seed, count, features_of("all")) for seed, count in (("fixed", 1_000), (drawn, 40))),
        *(Options(seed, 8, search="config") for seed in ("fixed", drawn)),
        *(Options(seed, count, features_of("groups")) for seed, count in (("fixed", 200), (drawn, 40))),
        *(Options(seed, count, features_of("groups,devices")) for seed, count in (("fixed", 100), (drawn, 20))),
        *(Options(seed, count, features_of("groups,devices,alphas")) for seed, count in (("fixed", 60), (drawn, 20))),
    ]
    differing = 0
    with Oracle() as oracle:
        for options in budget:
            features = "".join(f" {name}" for name in sorted(options.features))
            console.print(f"seed {options.seed}, search {options.search}{features}", highlight=False)
            outcome = compare(options, oracle, console)
            report(outcome, options, console)
            differing += outcome.differing
    return differing


def _changes(drawn: str, console: Console) -> int:
    """Have kube-scheduler's code judge the changes that explain offers for pending pods."""
    wrong = 0
    with Oracle() as oracle:
        budget = (("fixed", CHANGES, ""), ("fixed", CHANGES, "all"), (drawn, 10, "all"), ("fixed", 20, "groups"))
        for seed, count, features in budget:
            tally = prove(seed, count, features, oracle, console)
            console.print(f"changes, seed {seed} {features}: {tally}", highlight=False)
            wrong += len(tally.wrong)
    return wrong


def _queues(first: int, console: Console) -> int:
    """Compare what the scheduling queue does in random histories."""
    histories = {seed: history(seed, HISTORY_STEPS) for seed in range(first, first + QUEUE_HISTORIES)}
    differing = 0
    for seed, answer in ask(find_binary(), histories).items():
        problem = answer.get("error") or first_difference(histories[seed], answer["steps"])
        if problem is not None:
            differing += 1
            console.print(f"queue history {seed}: {problem}", highlight=False)
    console.print(f"{len(histories)} queue histories from seed {first}, {differing} differ", highlight=False)
    return differing


if __name__ == "__main__":
    sys.exit(main())
