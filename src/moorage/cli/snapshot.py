"""`moorage snapshot`: save what scheduling needs of a live cluster to a file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.shared import ContextOption, KubeconfigOption, reading_progress
from moorage.cli.starting import start_lightly


def snapshot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; a name that ends in .gz is compressed.")],
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Rename everything, consistently.")] = False,
    annotations: Annotated[bool, typer.Option("--annotations", help="Keep annotations.")] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Keep every field: env, commands and annotations, which may be secret.")
    ] = False,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")] = False,
) -> None:
    """Save what scheduling needs of a live cluster: nodes, pods, volumes, devices, budgets, workloads.

    The cluster is only read, each kind at one resource version. Secrets are not read at all, and env, commands and
    annotations stay behind. Use it with: moorage explain POD --snapshot FILE, moorage simulate --snapshot FILE.
    """
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.insight.whatif.anonymizing import Anonymizer
    from moorage.insight.whatif.reading import kinds_of_contents
    from moorage.insight.whatif.snapshot import write_snapshot
    from moorage.insight.whatif.sources import ClusterSource, read_server

    if anonymize and (whole or annotations):
        problem = "what annotations, env and commands say cannot be renamed"
        raise InputError("--anonymize", problem, hint="leave --whole and --annotations out")
    source = ClusterSource(kubeconfig=kubeconfig, context=context)
    with reading_progress(shown=not quiet and sys.stderr.isatty()) as progress:
        read, _, server = read_server(source, with_annotations=annotations, whole=whole, progress=progress)
    contents = Anonymizer().anonymized(read.contents) if anonymize else read.contents
    write_snapshot(file, contents, source="" if anonymize else server, versions=read.versions)
    if not quiet:
        counted = kinds_of_contents(contents)
        typer.echo(f"{file}: {counted.get('Node', 0)} nodes, {counted.get('Pod', 0)} pods, {len(contents)} objects")
