"""`python -m tests.conformance.run [--random-seed N]`: run comparisons with fixed seeds and a variable one."""

import argparse
import sys
import time
from typing import Final

from rich.console import Console

from moorage.common.version import RELEASE
from tests.conformance import configurations
from tests.conformance.answers import Comparison
from tests.conformance.changes import prove, prove_situations
from tests.conformance.fuzz import compare, find_features, report
from tests.conformance.fuzzer import Options
from tests.conformance.oracle import Oracle, find_binary
from tests.conformance.plans import prove as prove_plans
from tests.parity.queue_histories import history
from tests.parity.queue_oracle import ask, first_difference

QUEUE_HISTORIES: Final = 60
CONFIGURATIONS: Final = 400
CHANGES: Final = 30
"""Number of clusters of each kind with pending pods to explain."""
PLANS: Final = 20
"""Number of clusters of each kind for which plans are made."""
HISTORY_STEPS: Final = 120


def main() -> int:
    """Run the budget; return 1 if there are differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--random-seed",
        type=int,
        default=int(time.time()),
        help="seed in addition to the fixed ones (default: the time)",
    )
    seed = parser.parse_args().random_seed
    console = Console(soft_wrap=True)
    differing = _decisions(f"random-{seed}", console)
    differing += _configurations("fixed", console) + _configurations(f"random-{seed}", console)
    differing += _changes(f"random-{seed}", console)
    differing += _plans(f"random-{seed}", console)
    differing += _queues(1, console) + _queues(seed, console)
    return 1 if differing else 0


def _decisions(random_seed: str, console: Console) -> int:
    """Compare decisions on random clusters: with volumes, devices, groups and alpha gates, and limited searches."""
    budget = [
        *(Options(seed, count) for seed, count in (("fixed", 1_200), (random_seed, 60))),
        *(Options(seed, count, find_features("all")) for seed, count in (("fixed", 1_000), (random_seed, 40))),
        *(Options(seed, 8, search="config") for seed in ("fixed", random_seed)),
        *(Options(seed, count, find_features("groups")) for seed, count in (("fixed", 200), (random_seed, 40))),
        *(Options(seed, count, find_features("groups,devices")) for seed, count in (("fixed", 100), (random_seed, 20))),
        *(
            Options(seed, count, find_features("groups,devices,alphas"))
            for seed, count in (("fixed", 60), (random_seed, 20))
        ),
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


def _configurations(seed: str, console: Console) -> int:
    """Complete random configurations, some of them invalid."""
    configs = [configurations.make(number, seed) for number in range(CONFIGURATIONS)]
    result = Comparison([f"{seed}/{number}" for number in range(CONFIGURATIONS)])
    ours = [configurations.complete(config, RELEASE) for config in configs]
    result.ours(RELEASE, configurations.ask(find_binary(), configs), ours, [configurations.classify] * CONFIGURATIONS)
    console.print("\n".join(result.as_markdown(f"configurations, seed {seed}")), highlight=False, markup=False)
    return result.counts.total()


def _changes(random_seed: str, console: Console) -> int:
    """Check the suggestions of explain for pending pods with kube-scheduler's code."""
    wrong = 0
    with Oracle() as oracle:
        tally = prove_situations(oracle, console)
        console.print(f"changes, usual situations: {tally}", highlight=False)
        wrong += len(tally.wrong)
        budget = (("fixed", CHANGES, ""), ("fixed", CHANGES, "all"), (random_seed, 10, "all"), ("fixed", 20, "groups"))
        for seed, count, features in budget:
            tally = prove(seed, count, features, oracle, console)
            console.print(f"changes, seed {seed} {features}: {tally}", highlight=False)
            wrong += len(tally.wrong)
    return wrong


def _plans(random_seed: str, console: Console) -> int:
    """Check plans step by step with kube-scheduler's code."""
    wrong = 0
    with Oracle() as oracle:
        budget = (("fixed", PLANS, ""), ("fixed", PLANS, "all"), (random_seed, PLANS, "all"), ("fixed", 15, "groups"))
        for seed, count, features in budget:
            tally = prove_plans(seed, count, features, oracle, console)
            console.print(f"plans, seed {seed} {features}: {tally}", highlight=False)
            wrong += len(tally.wrong)
    return wrong


def _queues(first: int, console: Console) -> int:
    """Compare the scheduling queues in random histories."""
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
