"""`python -m tests.hostile [--n 10000] [--seed SEED]`: send random and mutated requests to an embedded server.

It also evaluates a tenth as many random device selectors.

The default seed is random. It is printed first and repeats the same requests.
"""

import argparse
import faulthandler
import secrets
import sys

from tests.hostile import expressions
from tests.hostile.campaign import Campaign

#: A blocked server prints its stacks.
STUCK_SECONDS = 600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seed", default=secrets.token_hex(4))
    options = parser.parse_args()
    faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
    say(f"{options.n} requests, --seed {options.seed}")
    campaign = Campaign(options.seed)
    campaign.run(options.n)
    say(f"answers: {dict(sorted(campaign.statuses.items()))}")
    say(f"sent: {dict(campaign.ways.most_common())}")
    say(f"slowest: {campaign.slowest[0]:.2f} s, {campaign.slowest[1][:200]}")
    problems = [*campaign.problems, *expressions.problems(options.seed, options.n // 10)]
    for problem in problems:
        say(f"PROBLEM {problem}")
    say(f"{len(problems)} problems")
    return 1 if problems else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
