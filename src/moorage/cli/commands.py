"""The subcommands that typer parses.

Each command has a module, which imports its dependencies when it runs: `moorage --help` remains fast.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from moorage import __version__
from moorage.cli import (
    capacity,
    config,
    explain,
    extender,
    lab,
    mcp,
    new,
    options,
    plan,
    promote,
    record,
    scheduler,
    shadow,
    simulate,
    snapshot,
    ui,
    whatif,
    when,
)
from moorage.cli.up import command as up

SECTIONS: Final = {
    "Start here": ("up", "explain", "new"),
    "Run the scheduler": ("scheduler", "config", "shadow", "promote", "extender"),
    "Inspect and plan": ("ui", "simulate", "capacity", "plan", "when", "whatif", "snapshot", "mcp"),
    "Compare policies": ("lab", "record"),
}
"""The commands as `moorage --help` groups them."""


class _Sections(options.CommandGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in SECTIONS.items():
            self.write_commands(formatter, title, names)
        formatter.write_paragraph()
        formatter.write_text("Run 'moorage COMMAND --help' for the options of a command.")


app = options.make_group("The Kubernetes scheduler in Python.", _Sections)
for _group in (config, shadow, plan, whatif, lab):
    app.add_typer(_group.app, name=_group.__name__.rpartition(".")[2])
for _command in (
    *(up.up, explain.explain, new.new, promote.promote, extender.extender, ui.ui, simulate.simulate),
    *(capacity.capacity, when.when, mcp.mcp, snapshot.snapshot, record.record),
):
    app.command(cls=options.Command)(_command)


@app.command(scheduler.NAME, add_help_option=False)
def _scheduler() -> None:
    """Run the scheduler on a cluster, with kube-scheduler's flags."""


def run_command(arguments: Sequence[str], name: str) -> int:
    """Run a command line and return its exit code; raise InputError for invalid usage."""
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except options.UsageError as error:
        raise options.describe_usage_error(error) from error


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
