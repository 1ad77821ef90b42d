"""`moorage snapshot`: save the scheduling-relevant objects of a live cluster to a file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli.options import ContextOption, KubeconfigOption, QuietOption, reading_progress
from moorage.cli.startup import start_lightly


def snapshot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Output file; the extension .gz compresses it.")],
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Replace all names, consistently.")] = False,
    annotations: Annotated[bool, typer.Option("--annotations", help="Include annotations.")] = False,
    all_fields: Annotated[
        bool,
        typer.Option("--all-fields", help="Include every field: env, commands and annotations may contain secrets."),
    ] = False,
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    quiet: QuietOption = False,
) -> None:
    """Save a live cluster to a file.

    The snapshot contains nodes, pods, volumes, devices, disruption budgets and workloads, each kind at one resource
    version. The cluster is only read. Secrets are never read; env, commands and annotations are left out.

    Use the snapshot in other commands: moorage explain POD --snapshot FILE, moorage simulate --snapshot FILE.
    """
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.insight import Anonymizer, ClusterSource, count_kinds, read_server, write_snapshot

    if anonymize and (all_fields or annotations):
        problem = "annotations, env and commands cannot be anonymized"
        raise InputError("--anonymize", problem, hint="omit --all-fields and --annotations")
    source = ClusterSource(kubeconfig=kubeconfig, context=context)
    with reading_progress(shown=not quiet and sys.stderr.isatty()) as progress:
        read, _, server = read_server(source, with_annotations=annotations, whole=all_fields, progress=progress)
    contents = Anonymizer().anonymized(read.contents) if anonymize else read.contents
    write_snapshot(file, contents, source="" if anonymize else server, versions=read.versions)
    if not quiet:
        counts = count_kinds(contents)
        typer.echo(f"{file}: {counts.get('Node', 0)} nodes, {counts.get('Pod', 0)} pods, {len(contents)} objects")
