"""Command classes for typer: grouped command lists, and hidden aliases for renamed options."""

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup


class CommandGroup(TyperGroup):
    """A group that lists its commands with complete summaries, which typer would cut to one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        self.write_commands(formatter, "Commands", list(self.commands))

    def write_commands(self, formatter: Any, title: str, names: list[str]) -> None:
        """Write one section of commands."""
        rows = [(name, self.commands[name].get_short_help_str(limit=1000)) for name in names]
        with formatter.section(title):
            formatter.write_dl(rows)


def old_names(aliases: Mapping[str, str]) -> type[TyperCommand]:
    """Return a command class that also accepts the former names of options, without listing them in the help.

    ``aliases`` maps each old spelling to the current one: ``{"--seconds": "--timeout"}``.
    """

    class CommandWithOldNames(TyperCommand):
        def make_parser(self, ctx: Any) -> Any:
            parser = super().make_parser(ctx)
            for old, current in aliases.items():
                option: Any = next(item for item in self.params if current in (*item.opts, *item.secondary_opts))
                if option.is_flag:
                    is_on = current in option.opts
                    parser.add_option(option, [old], option.name, action="store_const", const=is_on)
                else:
                    parser.add_option(option, [old], option.name, action="append" if option.multiple else "store")
            return parser

    return CommandWithOldNames
