"""`moorage lab`: policies compared on traces and clusters."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import tune
from moorage.cli.shared import VerbosityOption, log_trials_as_asked
from moorage.cli.starting import start_lightly
from moorage.cli.trials import (
    Machinery,
    OnOption,
    QuietOption,
    RayAddressOption,
    WorkersOption,
    running,
    trials_progress,
)

app = typer.Typer(
    help="Compare policies on traces and clusters, in virtual time.", no_args_is_help=True, rich_markup_mode=None
)
EXIT_FAILED = 1
OutFile = Annotated[
    Path,
    typer.Option("--out", "-o", metavar="FILE", help="Where to; the ending says the form: .jsonl, .csv, .parquet."),
]
app.command()(tune.tune)


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="A YAML file: see docs/reference/lab.md.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where rows and report go; EXPERIMENT-results.")
    ] = None,
    workers: WorkersOption = 0,
    on: OnOption = Machinery.CORES,
    ray_address: RayAddressOption = "",
    open_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    quiet: QuietOption = False,
    verbosity: VerbosityOption = None,
) -> None:
    """Run an experiment: traces, clusters, configurations and seeds, each with all others; write rows and a report.

    Trials that are done are kept: the same command goes on where it was stopped. The same seeds give the same rows.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    from moorage.lab.experiment import load_experiment
    from moorage.lab.report.arrivals import arrivals_as_text
    from moorage.lab.report.page import report_page
    from moorage.lab.results import Results
    from moorage.lab.running import run_experiment

    loaded = load_experiment(experiment)
    loaded.check_policies()
    results = Results(out or experiment.with_name(f"{experiment.stem}-results"))
    with (
        running(on, ray_address, workers, total=len(loaded)) as run_trials,
        trials_progress("trials", shown=not quiet and sys.stderr.isatty()) as show,
    ):
        trials = run_experiment(loaded, results, run_trials, show=show)
    results.combine(trials)
    report = results.write_report(report_page(loaded.experiment, trials))
    failed = [result.trial for result in trials if result.trial.error]
    for row in failed:
        typer.echo(f"failed: {row.configuration}, {row.trace}, {row.cluster}, seed {row.seed}: {row.error}", err=True)
    if loaded.experiment.options.arrivals_only:
        for line in arrivals_as_text(trials):
            typer.echo(line)
    typer.echo(f"{len(trials) - len(failed)} of {len(trials)} trials; report: {report}")
    if open_report:
        typer.launch(report.resolve().as_uri())
    if failed:
        raise typer.Exit(EXIT_FAILED)


@app.command("import")
def import_(
    form: Annotated[str, typer.Argument(metavar="FORM", help="What the files are: openb.")],
    pods: Annotated[Path, typer.Option("--pods", metavar="FILE", help="The list of pods.")],
    out: OutFile,
    nodes: Annotated[Path | None, typer.Option("--nodes", metavar="FILE", help="The list of nodes.")] = None,
    cluster_out: Annotated[
        Path | None, typer.Option("--cluster-out", metavar="FILE", help="Where the nodes go, as CSV.")
    ] = None,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="Keep nodes without GPUs.")] = False,
) -> None:
    """Turn a public trace into one of ours: `moorage lab import openb --nodes N.csv --pods P.csv -o trace.jsonl`."""
    start_lightly(with_numpy=True)
    from moorage.common.errors import InputError
    from moorage.lab.cluster_files import write_nodes_csv
    from moorage.lab.importing import import_nodes, import_pods
    from moorage.lab.trace_files import write_trace

    if form != "openb":
        hint = "write openb; other traces are taken as CSV or JSON lines, see docs/reference/lab.md"
        raise InputError("FORM", f"{form!r} is not a form that can be imported", hint=hint)
    trace = import_pods(pods)
    write_trace(out, trace)
    typer.echo(f"{out}: {len(trace.pods)} pods, {sum(pod.gpu_asked for pod in trace.pods) / 1000:g} GPUs asked for")
    if nodes is not None:
        to = cluster_out or out.with_name(f"{out.stem}-nodes.csv")
        cluster = import_nodes(nodes, gpu_only=not all_nodes)
        write_nodes_csv(to, cluster.nodes)
        typer.echo(f"{to}: {len(cluster.nodes)} nodes")


@app.command()
def generate(
    out: OutFile,
    preset: Annotated[str, typer.Option("--preset", help="web, batch, training, mixed or openb.")] = "mixed",
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another trace.")] = 1,
    pods: Annotated[int | None, typer.Option("--pods", min=1, max=10_000_000, help="How many pods.")] = None,
    per_hour: Annotated[float | None, typer.Option("--per-hour", help="How many arrive in an hour.")] = None,
    cluster_out: Annotated[
        Path | None, typer.Option("--cluster-out", metavar="FILE", help="Where the preset's nodes go, as CSV.")
    ] = None,
) -> None:
    """Make up a trace: what arrives, what it asks for and how long it runs follow the preset, and the seed."""
    start_lightly()
    from moorage.common.errors import InputError
    from moorage.lab.cluster_files import write_nodes_csv
    from moorage.lab.generating import generate as make
    from moorage.lab.presets import preset_cluster
    from moorage.lab.trace_files import write_trace

    if per_hour is not None and not 0 < per_hour < float("inf"):
        raise InputError("--per-hour", f"{per_hour:g} pods an hour", hint="write a number above 0")
    trace = make(preset, seed, pods=pods, pods_per_hour=per_hour)
    write_trace(out, trace)
    last = trace.pods[-1].arrives if trace.pods else 0.0
    typer.echo(f"{out}: {len(trace.pods)} pods in {last / 3600:.1f} hours")
    if cluster_out is not None:
        cluster = preset_cluster(preset)
        write_nodes_csv(cluster_out, cluster.nodes)
        typer.echo(f"{cluster_out}: {len(cluster.nodes)} nodes")
