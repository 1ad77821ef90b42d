"""The `moorage` command: errors of the user end in one clear message.

`moorage scheduler` parses its flags itself and starts often, so the dependencies of other commands are not imported.
"""

import sys
from collections.abc import Sequence
from typing import Final

from moorage.cli import scheduler
from moorage.common.errors import MoorageError, explain

#: Exit codes: invalid input or usage; a failed scheduler, as kube-scheduler exits; Ctrl-C.
EXIT_INPUT: Final = 2
EXIT_SCHEDULER: Final = 1
EXIT_INTERRUPTED: Final = 130
UP: Final = "up"


def main() -> None:
    """Run the command line and exit with its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == [UP] and sys.platform == "linux":
        from moorage.common.forked_process import run_in_child

        sys.exit(run_in_child(lambda: run(arguments)))
    sys.exit(run(arguments))


def kubectl_plugin() -> None:
    """Run as `kubectl moorage`: the same commands under that name."""
    sys.exit(run(sys.argv[1:], name="kubectl moorage"))


def run(arguments: Sequence[str], *, name: str = "moorage") -> int:
    """Run one command line and return its exit code.

    The scheduler parses its flags itself, in kube-scheduler's syntax; typer only lists the command.
    """
    is_scheduler = [*arguments[:1]] == [scheduler.NAME]
    try:
        if is_scheduler:
            return scheduler.run(arguments[1:])
        from moorage.cli.commands import run_command

        return run_command(arguments, name)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MoorageError as error:
        sys.stderr.write(f"error: {explain(error)}\n")
        return EXIT_SCHEDULER if is_scheduler else EXIT_INPUT
