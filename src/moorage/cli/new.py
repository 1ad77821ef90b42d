"""`moorage new`: create a project with a plugin, its tests and its deployment files."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class PluginKind(StrEnum):
    """Kinds of plugins that a project can start with."""

    FILTER = "filter"
    SCORE = "score"
    RESOURCE = "resource"
    QUEUE_SORT = "queue-sort"
    RESERVE = "reserve"
    POST_FILTER = "post-filter"
    BIND = "bind"


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the project, such as spot-only.")],
    kind: Annotated[
        PluginKind,
        typer.Option(
            "--kind",
            help="Plugin type. filter rejects nodes, score rates them, resource reads a custom resource, queue-sort "
            "orders the queue, reserve reserves resources and delays binding, post-filter handles pods without a "
            "feasible node, and bind binds pods.",
        ),
    ] = PluginKind.FILTER,
    directory: Annotated[
        Path | None, typer.Option("--directory", metavar="DIR", help="Directory to create (default: ./NAME).")
    ] = None,
) -> None:
    """Create a plugin project.

    The project contains a Python package with a plugin, tests, a scheduler configuration, a Dockerfile and manifests.
    Its tests pass, and it runs on `moorage up` without changes. Existing files are never overwritten.
    """
    from moorage.cli.new_project.project import check_name, write_project
    from moorage.scheduler.config import KNOWN_PLUGINS

    names = check_name(name, known_plugins=KNOWN_PLUGINS)
    target = directory or Path(names.project)
    files = write_project(names, kind, target)
    typer.echo(f"Created {target} with {len(files)} files. The plugin is in {target / 'src' / names.package}/plugin.py")
    definition = " -f deploy/definition.yaml" if kind is PluginKind.RESOURCE else ""
    typer.echo("\nNext steps:")
    typer.echo(f"  cd {shlex.quote(str(target))}")
    typer.echo("  python -m pytest")
    typer.echo("  PYTHONPATH=src moorage up --nodes 3 --shape cpu=4 --config deploy/scheduler.yaml \\")
    typer.echo(f"    --plugin {names.package}:{names.plugin}{definition} -f nodes.yaml -f workload.yaml")
    typer.echo("\nREADME.md describes how to deploy it to a cluster.")
