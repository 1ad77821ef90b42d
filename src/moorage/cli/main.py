"""The `moorage` command: its subcommands, and one clear message for whatever a user got wrong.

Each subcommand has a module of its own here, which imports what it needs when it runs: `moorage --help` stays fast.
"""

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from moorage import __version__
from moorage.cli import config, scheduler, simulate, up
from moorage.errors import ConfigErrors, MoorageError

#: A mistake in a file, a flag or the usage; the scheduler leaves with what kube-scheduler leaves with.
EXIT_INPUT: Final = 2
EXIT_SCHEDULER: Final = 1
EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    name="moorage",
    help="The Kubernetes scheduler in Python.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help and usage errors: importing rich for them would double the start-up time
    pretty_exceptions_enable=False,
)
app.add_typer(config.app, name="config")
app.command()(simulate.simulate)
app.command()(up.up)


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code: 2 for a user's mistake, 1 if it is the scheduler's, 130 for Ctrl-C.

    The scheduler reads its flags itself, in kube-scheduler's syntax; typer only lists the command.
    """
    is_scheduler = [*arguments[:1]] == [scheduler.NAME]
    try:
        if is_scheduler:
            return scheduler.run(arguments[1:])
        app(list(arguments), prog_name="moorage")
    except SystemExit as leaving:
        return int(leaving.code or 0)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except MoorageError as error:
        typer.echo(f"error: {explain(error)}", err=True)
        return EXIT_SCHEDULER if is_scheduler else EXIT_INPUT
    return 0


def explain(error: MoorageError) -> str:
    """Put an error in words for a terminal; notes on it say which file it is about."""
    about = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    if not isinstance(error, ConfigErrors) or len(error.errors) == 1:
        return f"{about}{error}"
    lines = str(error).replace("\n", "\n  ")
    return f"{about}{len(error.errors)} problems\n  {lines}"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"moorage {__version__}")
        raise typer.Exit


@app.command(scheduler.NAME, add_help_option=False)
def _scheduler() -> None:
    """Run the scheduler on a cluster; takes kube-scheduler's flags."""


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run before every subcommand; its options do their work in callbacks."""
