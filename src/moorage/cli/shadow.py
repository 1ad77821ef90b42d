"""`moorage shadow`: evaluate the log of a shadow configuration."""

from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.command_classes import CommandGroup
from moorage.cli.options import AnswerFormat, AnswerOption, print_json
from moorage.cli.startup import start_lightly

app = typer.Typer(
    cls=CommandGroup,
    help="Report what a shadow configuration would have done.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def shadow() -> None:
    """Report what a shadow configuration would have done."""


@app.command()
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Log written by `moorage scheduler --shadow-log FILE`.")],
    output: AnswerOption = AnswerFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Compare the decisions of a shadow with the actual ones.

    Reports how often they differ, for which pods, and which plugin caused the difference.
    """
    start_lightly()
    from moorage.insight import read_report, report_lines

    summary = read_report(file)
    if as_json or output is AnswerFormat.JSON:
        print_json(summary)
        return
    for line in report_lines(summary):
        typer.echo(line)
