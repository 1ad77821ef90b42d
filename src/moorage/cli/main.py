"""The `moorage` command: one clear message for whatever a user got wrong.

`moorage scheduler` reads its flags itself and starts often, so what the other commands need is not imported for it.
"""

import sys
from collections.abc import Sequence
from typing import Final

from moorage.cli import scheduler
from moorage.common.errors import MoorageError, explain

#: A mistake in a file, a flag or the usage; the scheduler leaves with what kube-scheduler leaves with.
EXIT_INPUT: Final = 2
EXIT_SCHEDULER: Final = 1
EXIT_INTERRUPTED: Final = 130
UP: Final = "up"


def main() -> None:
    """Run the command line and leave with its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == [UP] and sys.platform == "linux":
        from moorage.scheduler.daemon.endable import run_endable

        sys.exit(run_endable(lambda: run(arguments)))
    sys.exit(run(arguments))


def kubectl_plugin() -> None:
    """Be `kubectl moorage`: the same commands under the name that users have typed."""
    sys.exit(run(sys.argv[1:], name="kubectl moorage"))


def run(arguments: Sequence[str], *, name: str = "moorage") -> int:
    """Run one command line; return its exit code: 2 for a user's mistake, 1 if it is the scheduler's, 130 for Ctrl-C.

    The scheduler reads its flags itself, in kube-scheduler's syntax; typer only lists the command.
    """
    is_scheduler = [*arguments[:1]] == [scheduler.NAME]
    try:
        if is_scheduler:
            return scheduler.run(arguments[1:])
        from moorage.cli.commands import app

        app(list(arguments), prog_name=name)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MoorageError as error:
        sys.stderr.write(f"error: {explain(error)}\n")
        return EXIT_SCHEDULER if is_scheduler else EXIT_INPUT
    return 0
