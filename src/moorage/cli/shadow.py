"""`moorage shadow`: evaluate the log of a shadow configuration."""

from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly

app = options.make_group("""Compare a second configuration with the active one.

The scheduler evaluates the second configuration with `moorage scheduler --shadow FILE`, without
changing the cluster.
""")


@app.callback()
def shadow() -> None:
    """Make `report` a subcommand, though it is the only one."""


@app.command(cls=options.Command)
def report(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Log written by `moorage scheduler --shadow-log FILE`.")],
    output: options.Answer = options.AnswerFormat.TEXT,
) -> None:
    """Compare the decisions of a shadow with the actual ones.

    Reports how often they differ, for which pods, and which plugin caused the difference.
    """
    start_lightly()
    from moorage.insight import read_report, report_lines

    summary = read_report(file)
    if output is options.AnswerFormat.JSON:
        options.print_json(summary)
        return
    for line in report_lines(summary):
        typer.echo(line)
