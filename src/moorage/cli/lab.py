"""`moorage lab`: compare scheduling policies on traces and clusters."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError

if TYPE_CHECKING:
    from moorage.lab import RunTrials, ShowTrials

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

app = options.make_group("Compare scheduling policies on traces, in virtual time.")


class Backend(StrEnum):
    """Backends that run trials."""

    CORES = "cores"
    RAY = "ray"


OutFile = Annotated[Path, typer.Option("--out", metavar="FILE", help=options.TRACE_HELP, callback=options.TRACE_FILE)]
Seed = Annotated[
    int, typer.Option("--seed", metavar="NUMBER", parser=options.number(0), help="Seed of the random numbers.")
]
NODES_FILE = options.with_extension(".csv")
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="NUMBER",
        parser=options.number(0),
        help="Number of processes on this machine; 0 means one per core.",
    ),
]
OnOption = Annotated[
    Backend, typer.Option("--on", help="Run trials on the cores of this machine, or on Ray (moorage[ray]).")
]
RayAddressOption = Annotated[
    str,
    typer.Option("--ray-address", metavar="HOST:PORT", help="Ray cluster to use (default: a new local one)."),
]


@app.command(cls=options.Command)
def run(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    experiment: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="YAML file; docs/reference/lab.md describes the format.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory for rows and report (default: EXPERIMENT-results)."),
    ] = None,
    workers: WorkersOption = 0,
    on: OnOption = Backend.CORES,
    ray_address: RayAddressOption = "",
    open_report: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    quiet: options.Quiet = False,
    verbosity: options.Verbosity = None,
) -> None:
    """Run an experiment and write a report.

    An experiment runs one trial for each combination of trace, cluster, configuration and seed. Finished trials are
    saved: the same command resumes an interrupted experiment. The same seeds produce the same results.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.lab import Results, arrivals_as_text, load_experiment, report_page, run_experiment

    loaded = load_experiment(experiment)
    loaded.check_policies()
    results = Results(out or experiment.with_name(f"{experiment.stem}-results"))
    with (
        _open_backend(on, ray_address, workers, total=len(loaded)) as run_trials,
        _trials_progress("trials", quiet=quiet) as show,
    ):
        trials = run_experiment(loaded, results, run_trials, show=show)
    results.combine(trials)
    report = results.write("report.html", report_page(loaded.experiment, trials).encode())
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


@app.command(cls=options.Command)
def tune(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="YAML file with a `tune` section.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory for rows and best.yaml (default: EXPERIMENT-tuned)."),
    ] = None,
    seed: Seed = 1,
    workers: WorkersOption = 0,
    on: OnOption = Backend.CORES,
    ray_address: RayAddressOption = "",
    quiet: options.Quiet = False,
    verbosity: options.Verbosity = None,
) -> None:
    """Search for the weights and arguments that optimize an objective.

    The best candidate is written as a KubeSchedulerConfiguration. Bad candidates are stopped early. The best one is
    evaluated on seeds that the search did not use. The same command resumes an interrupted search.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.lab import Results, TuneOutcome, load_experiment, load_plan, report_lines
    from moorage.lab import tune as search

    loaded = load_experiment(experiment)
    loaded.check_policies()
    plan = load_plan(loaded)
    results = Results(out or experiment.with_name(f"{experiment.stem}-tuned"))
    try:
        with (
            _open_backend(on, ray_address, workers, total=len(loaded)) as run_trials,
            _trials_progress("candidates", quiet=quiet) as show,
        ):
            outcome = search(loaded, plan, results, run_trials, seed=seed, show=show)
    except KeyboardInterrupt as interrupt:
        partial_outcome: TuneOutcome | None = getattr(interrupt, "outcome_so_far", None)
        for line in report_lines(partial_outcome) if partial_outcome is not None else ():
            typer.echo(line)
        typer.echo("interrupted; run the same command to resume", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for line in report_lines(outcome):
        typer.echo(line)


@app.command("import", cls=options.Command)
def import_(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="Format of the trace; only openb is supported.")],
    pods: Annotated[Path, typer.Option("--pods", metavar="FILE", help="List of pods.")],
    out: OutFile,
    nodes: Annotated[Path | None, typer.Option("--nodes", metavar="FILE", help="List of nodes.")] = None,
    cluster_out: Annotated[
        Path | None,
        typer.Option(
            "--cluster-out",
            metavar="FILE",
            help="Output file for the nodes, as CSV (default: OUT-nodes.csv).",
            callback=NODES_FILE,
        ),
    ] = None,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="Include nodes without GPUs.")] = False,
) -> None:
    """Convert a public trace.

    Example: moorage lab import openb --nodes nodes.csv --pods pods.csv --out trace.jsonl
    """
    start_lightly(with_numpy=True)
    from moorage.lab import import_nodes, import_pods, write_nodes_csv, write_trace

    if format_ != "openb":
        hint = "the only format is openb; convert other traces to CSV or JSON lines, see docs/reference/lab.md"
        raise InputError("FORMAT", f"{format_!r} is not supported", hint=hint)
    trace = import_pods(pods)
    write_trace(out, trace)
    gpus = sum(pod.gpu_request for pod in trace.pods) / 1000
    typer.echo(f"{out}: {len(trace.pods)} pods, which request {gpus:g} GPUs")
    if nodes is not None:
        nodes_file = cluster_out or out.with_name(f"{out.stem}-nodes.csv")
        cluster = import_nodes(nodes, gpu_only=not all_nodes)
        write_nodes_csv(nodes_file, cluster.nodes)
        typer.echo(f"{nodes_file}: {len(cluster.nodes)} nodes")


def _parse_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise typer.BadParameter(f"{text} is not a rate; use a number above 0")
    return rate


@app.command(cls=options.Command)
def generate(
    out: OutFile,
    preset: Annotated[
        str, typer.Option("--preset", metavar="NAME", help="Workload: web, batch, training, mixed or openb.")
    ] = "mixed",
    seed: Seed = 1,
    pods: Annotated[
        int | None,
        typer.Option("--pods", metavar="NUMBER", parser=options.number(1, 10_000_000), help="Number of pods."),
    ] = None,
    per_hour: Annotated[
        float | None,
        typer.Option("--per-hour", metavar="NUMBER", parser=_parse_rate, help="Number of pods that arrive per hour."),
    ] = None,
    cluster_out: Annotated[
        Path | None,
        typer.Option("--cluster-out", metavar="FILE", help="Output file for the nodes, as CSV.", callback=NODES_FILE),
    ] = None,
) -> None:
    """Generate a synthetic trace.

    The preset and the seed determine the arrival times, requests and run times of the pods.
    """
    start_lightly()
    from moorage.lab import generate as generate_trace
    from moorage.lab import preset_cluster, write_nodes_csv, write_trace

    trace = generate_trace(preset, seed, pods=pods, pods_per_hour=per_hour, where="--preset")
    write_trace(out, trace)
    last = trace.pods[-1].arrives if trace.pods else 0.0
    typer.echo(f"{out}: {len(trace.pods)} pods in {last / 3600:.1f} hours")
    if cluster_out is not None:
        cluster = preset_cluster(preset)
        write_nodes_csv(cluster_out, cluster.nodes)
        typer.echo(f"{cluster_out}: {len(cluster.nodes)} nodes")


@contextmanager
def _open_backend(on: Backend, ray_address: str, workers: int, *, total: int) -> "Iterator[RunTrials]":
    """Yield the function that runs trials."""
    from moorage.lab import default_run

    if on is Backend.RAY:
        from moorage.lab import connect_to_ray

        with connect_to_ray(ray_address, workers) as run_trials:
            yield run_trials
        return
    if ray_address:
        raise InputError("--ray-address", "only valid with --on ray", hint="add --on ray")
    yield default_run(total, workers)


@contextmanager
def _trials_progress(title: str, *, quiet: bool) -> "Iterator[ShowTrials | None]":
    """Show a transient progress bar of trials or candidates, on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)
