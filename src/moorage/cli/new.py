"""`moorage new`: a project with a plugin, its tests and everything to bring it to a cluster."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.new_project.kinds import PluginKind


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name, such as spot-only.")],
    kind: Annotated[
        PluginKind,
        typer.Option("--kind", help="What the plugin does: rejects nodes, scores them, or looks at a custom resource."),
    ] = PluginKind.FILTER,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Where to; without it, ./NAME.")
    ] = None,
) -> None:
    """Write a project with a plugin of your own: package, tests, configuration, image and manifests.

    Its tests pass and it runs on `moorage up` as it is. Nothing that is there already is written over.
    """
    from moorage.cli.new_project.writing import names_of, write_project
    from moorage.scheduler.config import KNOWN_PLUGINS

    names = names_of(name, taken=KNOWN_PLUGINS)
    target = folder or Path(names.project)
    files = write_project(names, kind, target)
    typer.echo(f"{target}: {len(files)} files; the plugin is {target / 'src' / names.package / 'plugin.py'}")
    definition = " -f deploy/definition.yaml" if kind is PluginKind.RESOURCE else ""
    typer.echo("\nTry it:")
    typer.echo(f"  cd {shlex.quote(str(target))}")
    typer.echo("  python -m pytest")
    typer.echo("  PYTHONPATH=src moorage up --nodes 3 --shape cpu=4 --config deploy/scheduler.yaml \\")
    typer.echo(f"    --plugin {names.package}:{names.plugin}{definition} -f nodes.yaml -f workload.yaml")
    typer.echo("\nREADME.md has the way from there to a cluster.")
