"""The subcommands that typer parses.

Each command has a module, which imports its dependencies when it runs: `moorage --help` remains fast. A command line
imports only the module of its command.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from moorage import __version__
from moorage.cli import options
from moorage.cli.scheduler import NAME as SCHEDULER

SECTIONS: Final = {
    "Start here": ("up", "explain", "new"),
    "Run the scheduler": ("scheduler", "config", "shadow", "promote", "extender"),
    "Inspect and plan": ("ui", "simulate", "capacity", "plan", "when", "whatif", "snapshot", "mcp"),
    "Compare policies": ("lab", "record"),
}
"""The commands as `moorage --help` groups them."""
GROUPS: Final = ("config", "shadow", "plan", "whatif", "lab")
"""Commands with subcommands."""
ORDER: Final = (
    *(*GROUPS, "up", "explain", "new", "promote", "extender", "ui", "simulate", "capacity", "when", "mcp"),
    *("snapshot", "record", SCHEDULER),
)
MODULES: Final = {"up": "up.command"}
"""Modules of commands with another name than the command."""


class _Sections(options.CommandGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in SECTIONS.items():
            self.write_commands(formatter, title, names)
        formatter.write_paragraph()
        formatter.write_text("Run 'moorage COMMAND --help' for the options of a command.")


def make_app(names: Iterable[str] = ORDER) -> typer.Typer:
    """Return the command line with these commands."""
    app = options.make_group("A Kubernetes scheduler in Python, compatible with kube-scheduler.", _Sections)
    app.callback()(_options)
    for name in names:
        if name == SCHEDULER:
            app.command(name, add_help_option=False)(_scheduler)
            continue
        module = import_module(f"moorage.cli.{MODULES.get(name, name)}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(cls=options.Command)(getattr(module, name))
    return app


def _scheduler() -> None:
    """Run the scheduler on a cluster, with kube-scheduler's flags."""


def run_command(arguments: Sequence[str], name: str) -> int:
    """Run a command line and return its exit code. Raise InputError for invalid usage."""
    # typer inspects the parameters of all registered commands, so only the called command is registered.
    app = make_app(arguments[:1] if arguments[:1] and arguments[0] in ORDER else ORDER)
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except options.UsageError as error:
        raise options.describe_usage_error(error) from error


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"moorage {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options of `moorage` itself. Their callbacks do the work."""
