"""The subcommands that typer reads the command line for.

Each has a module of its own here, which imports what it needs when it runs: `moorage --help` stays fast.
"""

from typing import Annotated

import typer

from moorage import __version__
from moorage.cli import (
    capacity,
    config,
    explain,
    extender,
    lab,
    new,
    promote,
    record,
    scheduler,
    shadow,
    simulate,
    snapshot,
    ui,
    whatif,
)
from moorage.cli.up import command as up

app = typer.Typer(
    name="moorage",
    help="The Kubernetes scheduler in Python.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help and usage errors: importing rich for them would double the start-up time
    pretty_exceptions_enable=False,
)
app.add_typer(config.app, name="config")
app.command()(new.new)
app.command()(simulate.simulate)
app.command()(explain.explain)
app.command()(snapshot.snapshot)
app.command()(capacity.capacity)
app.add_typer(whatif.app, name="whatif")
app.add_typer(shadow.app, name="shadow")
app.add_typer(lab.app, name="lab")
app.command()(record.record)
app.command()(up.up)
app.command()(extender.extender)
app.command()(promote.promote)
app.command()(ui.ui)


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
