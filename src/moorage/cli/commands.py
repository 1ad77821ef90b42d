"""The subcommands that typer parses.

Each command has a module, which imports its dependencies when it runs: `moorage --help` stays fast.
"""

from typing import Annotated, Any, Final

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
from moorage.cli.command_classes import CommandGroup, old_names
from moorage.cli.up import command as up

SECTIONS: Final = {
    "Start here": ("up", "explain", "new"),
    "Run the scheduler": ("scheduler", "config", "shadow", "promote", "extender"),
    "Inspect and plan": ("ui", "simulate", "capacity", "whatif", "snapshot"),
    "Compare policies": ("lab", "record"),
}
"""The commands as `moorage --help` groups them."""


class _Sections(CommandGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in SECTIONS.items():
            self.write_commands(formatter, title, list(names))
        formatter.write_paragraph()
        formatter.write_text("Run 'moorage COMMAND --help' for the options of a command.")


app = typer.Typer(
    name="moorage",
    help="The Kubernetes scheduler in Python.",
    cls=_Sections,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help and usage errors: importing rich for them would double the start-up time
    pretty_exceptions_enable=False,
)
app.command()(up.up)
app.command(cls=old_names({"--seconds": "--timeout"}))(explain.explain)
app.command()(new.new)
app.add_typer(config.app, name="config")
app.add_typer(shadow.app, name="shadow")
app.command()(promote.promote)
app.command()(extender.extender)
app.command(cls=old_names({"--until": "--for", "--play": "--simulate", "--still": "--no-simulate"}))(ui.ui)
app.command(cls=old_names({"--until": "--for"}))(simulate.simulate)
app.command(cls=old_names({"--most": "--limit"}))(capacity.capacity)
app.add_typer(whatif.app, name="whatif")
app.command(cls=old_names({"--whole": "--all-fields"}))(snapshot.snapshot)
app.add_typer(lab.app, name="lab")
app.command()(record.record)


@app.command(scheduler.NAME, add_help_option=False)
def _scheduler() -> None:
    """Run the scheduler on a cluster, with kube-scheduler's flags."""


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"moorage {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options of `moorage` itself; their callbacks do the work."""
