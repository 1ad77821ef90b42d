"""`python -m tests.conformance.run`: a fixed budget of comparisons, with fixed seeds and fresh ones."""

import sys
from datetime import UTC, datetime

from rich.console import Console

from tests.conformance.fuzz import compare, features_of, report
from tests.conformance.fuzzer import Options
from tests.conformance.oracle import Oracle


def main() -> int:
    """Run the budget; 1 when the sides differ anywhere."""
    fresh = datetime.now(UTC).strftime("fresh-%Y%m%d%H%M%S")
    budget = [
        *(Options(seed, 400) for seed in ("fixed", fresh)),
        *(Options(seed, 200, features_of("all")) for seed in ("fixed", fresh)),
        *(Options(seed, 6, search="config") for seed in ("fixed", fresh)),
    ]
    console = Console(soft_wrap=True)
    differing = 0
    with Oracle() as oracle:
        for options in budget:
            features = "".join(f" {name}" for name in sorted(options.features))
            console.print(f"seed {options.seed}, search {options.search}{features}", highlight=False)
            outcome = compare(options, oracle, console)
            report(outcome, options, console)
            differing += outcome.differing
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
