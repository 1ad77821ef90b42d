"""`moorage snapshot`: save the scheduling-relevant objects of a live cluster to a file."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly


def snapshot(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Output file (.json, or .gz to compress it).",
            callback=options.with_extension(".json", ".gz"),
        ),
    ],
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Replace names consistently with pseudonyms.")] = False,
    annotations: Annotated[bool, typer.Option("--annotations", help="Include annotations.")] = False,
    all_fields: Annotated[
        bool,
        typer.Option(
            "--all-fields", help="Include all fields. Warning: env, commands and annotations may contain secrets."
        ),
    ] = False,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    quiet: options.Quiet = False,
) -> None:
    """Save a live cluster to a file.

    The snapshot contains nodes, pods, volumes, devices, disruption budgets and workloads. Each kind is listed at a
    single point in time. Nothing is written to the cluster. Secrets are never read. Environment variables, commands
    and annotations are omitted, except for the annotations that affect scheduling.

    Use the snapshot in other commands: moorage explain POD --snapshot FILE, moorage simulate --snapshot FILE.
    """
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.insight import Anonymizer, ClusterSource, read_server, write_snapshot

    if anonymize and (all_fields or annotations):
        problem = "annotations, env and commands cannot be anonymized"
        raise InputError("--anonymize", problem, hint="omit --all-fields and --annotations")
    source = ClusterSource(kubeconfig=kubeconfig, context=context, is_live=True)
    with options.reading_progress(quiet=quiet) as progress:
        read, _, server = read_server(source, with_annotations=annotations, all_fields=all_fields, progress=progress)
    contents = read.contents
    if anonymize:
        anonymizer = Anonymizer(contents)
        contents = anonymizer.anonymized()
        for expression in sorted(anonymizer.changed_expressions):
            typer.echo(f"note: {expression} depends on the letters of names; decisions may differ", err=True)
    write_snapshot(file, contents, source="" if anonymize else server, versions=read.versions)
    if not quiet:
        counts = Counter(content["kind"] for content in contents)
        typer.echo(f"{file}: {counts['Node']} nodes, {counts['Pod']} pods, {len(contents)} objects")
