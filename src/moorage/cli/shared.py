"""What several commands have in common: how plugins and feature gates are given."""

from typing import Annotated

import typer

GatesOption = Annotated[
    list[str] | None,
    typer.Option("--feature-gates", metavar="GATE=BOOL,...", help="Feature gates that differ from their defaults."),
]

PluginPaths = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="MODULE:CLASS", help="A third-party plugin; may be given several times."),
]
