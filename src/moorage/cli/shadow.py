"""`moorage shadow`: what a shadow found out."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.starting import start_lightly

app = typer.Typer(help="What the configuration of `moorage scheduler --shadow` would have done.", no_args_is_help=True)


@app.callback()
def shadow() -> None:
    """Look at what a shadow would have done."""


@app.command()
def report(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `moorage scheduler --shadow-log FILE` has written.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say how often a shadow would have decided otherwise, where, and which plugin made the difference."""
    start_lightly()
    import msgspec

    from moorage.insight.shadow.report import read_report, report_lines

    found = read_report(file)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
        return
    for line in report_lines(found):
        typer.echo(line)
