"""`moorage lab`: compare scheduling policies on traces and clusters."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from moorage.cli import options
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError

if TYPE_CHECKING:
    from moorage.lab import JobSettings, LoadedExperiment, Results, RunTrials, ShowTrials, TracePod, TrialResult

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
LINE_SECONDS = 10.0
"""Interval of progress lines without a terminal."""

app = options.make_group("Compare scheduling policies on traces, in virtual time.")


class Backend(StrEnum):
    """Backends that run trials."""

    CORES = "cores"
    RAY = "ray"
    KUBERNETES = "kubernetes"


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
RunOnOption = Annotated[
    Backend,
    typer.Option(
        "--on", help="Run trials on the cores of this machine, on Ray (moorage[ray]), or as a Job on Kubernetes."
    ),
]
OnOption = Annotated[
    Backend,
    typer.Option(
        "--on", metavar="<cores|ray>", help="Run trials on the cores of this machine, or on Ray (moorage[ray])."
    ),
]
RayAddressOption = Annotated[
    str,
    typer.Option("--ray-address", metavar="HOST:PORT", help="Ray cluster to use (default: a new local one)."),
]


@app.command(cls=options.Command)
def run(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    experiment: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="YAML file with traces, clusters and configurations.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory for results and report (default: EXPERIMENT-results)."),
    ] = None,
    workers: WorkersOption = 0,
    on: RunOnOption = Backend.CORES,
    ray_address: RayAddressOption = "",
    image: Annotated[
        str, typer.Option("--image", metavar="NAME", help="Image with moorage (for --on kubernetes).")
    ] = "",
    claim: Annotated[
        str,
        typer.Option(
            "--claim", metavar="NAME", help="PersistentVolumeClaim with the experiment (for --on kubernetes)."
        ),
    ] = "",
    claim_dir: Annotated[
        Path | None,
        typer.Option(
            "--claim-dir",
            metavar="DIR",
            help="Local mount point of the claim (default: the directory of the experiment).",
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Namespace of the Job (for --on kubernetes).")
    ] = "default",
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="INDEX/NUMBER",
            help="Run one part of the trials, without a report: 0/4 is the first of four.",
        ),
    ] = "",
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
    from moorage.lab import (
        JobSettings,
        Results,
        arrivals_as_text,
        load_experiment,
        run_experiment,
    )

    loaded_experiment = load_experiment(experiment)
    loaded_experiment.check_policies()
    results = Results(out or experiment.with_name(f"{experiment.stem}-results"))
    if shard:
        _run_shard(loaded_experiment, results, _parse_shard(shard), workers, quiet=quiet)
        return
    job = None
    if on is Backend.KUBERNETES:
        if not image or not claim:
            raise InputError(
                "--on kubernetes",
                "needs --image and --claim",
                hint="pass an image and a claim for the results",
            )
        job = JobSettings(image, claim, claim_dir or experiment.parent, namespace, workers, kubeconfig, context)
    is_interrupted = False
    trials: list[TrialResult] = []
    with (
        _open_run(on, ray_address, workers, job, experiment, results, total=len(loaded_experiment)) as run_trials,
        _trials_progress("trials", quiet=quiet) as progress,
        _interruptible(progress) as show,
    ):
        try:
            trials = run_experiment(loaded_experiment, results, run_trials, show=show)
        except KeyboardInterrupt:
            is_interrupted = True
            trials = [result for trial in loaded_experiment.trials() if (result := results.find(trial)) is not None]
    report = _write_report(loaded_experiment, results, trials)
    if is_interrupted:
        typer.echo(
            f"interrupted; {len(trials)} of {len(loaded_experiment)} trials are stored; report: {report}", err=True
        )
        typer.echo("run the same command to resume", err=True)
        raise typer.Exit(EXIT_INTERRUPTED)
    failed_trials = [result.trial for result in trials if result.trial.error]
    for row in failed_trials:
        typer.echo(f"failed: {row.configuration}, {row.trace}, {row.cluster}, seed {row.seed}: {row.error}", err=True)
    if loaded_experiment.experiment.options.arrivals_only:
        for line in arrivals_as_text(trials):
            typer.echo(line)
    typer.echo(f"{len(trials) - len(failed_trials)} of {len(trials)} trials; report: {report}")
    if open_report:
        typer.launch(report.resolve().as_uri())
    if failed_trials:
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

    The best candidate is written as a KubeSchedulerConfiguration. It is evaluated on seeds that the search did
    not use. Bad candidates are stopped early. The same command resumes an interrupted search.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.lab import Results, TuneOutcome, load_experiment, load_plan, report_lines
    from moorage.lab import tune as search

    loaded_experiment = load_experiment(experiment)
    loaded_experiment.check_policies()
    plan = load_plan(loaded_experiment)
    results = Results(out or experiment.with_name(f"{experiment.stem}-tuned"))
    try:
        with (
            _open_backend(on, ray_address, workers, total=len(loaded_experiment)) as run_trials,
            _trials_progress("candidates", quiet=quiet) as progress,
            _interruptible(progress) as show,
        ):
            outcome = search(loaded_experiment, plan, results, run_trials, seed=seed, show=show)
    except KeyboardInterrupt as interrupt:
        partial_outcome: TuneOutcome | None = getattr(interrupt, "outcome_so_far", None)
        for line in report_lines(partial_outcome) if partial_outcome is not None else ():
            typer.echo(line)
        typer.echo("interrupted; run the same command to resume", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for line in report_lines(outcome):
        typer.echo(line)


@app.command(cls=options.Command)
def evolve(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="YAML file with an `evolve` section.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory for plugin and lineage (default: EXPERIMENT-evolved)."),
    ] = None,
    propose: Annotated[
        str,
        typer.Option(
            "--propose",
            metavar="COMMAND",
            help="Command that proposes code: JSON on standard input, Python on standard output "
            "(default: a built-in genetic search).",
        ),
    ] = "",
    seed: Seed = 1,
    workers: WorkersOption = 0,
    quiet: options.Quiet = False,
    verbosity: options.Verbosity = None,
) -> None:
    """Search for a score function that optimizes an objective.

    Candidates run in separate processes with limits. The best candidate is evaluated on traces that the search did not
    use, and written as a plugin if it is better than the baseline. The same command resumes an interrupted search.
    """
    start_lightly()
    options.configure_trial_logs(verbosity)
    from moorage.lab import EvolveOutcome, Results, describe_outcome, load_evolve_plan, load_experiment
    from moorage.lab import evolve as search

    loaded_experiment = load_experiment(experiment)
    loaded_experiment.check_policies()
    plan = load_evolve_plan(loaded_experiment)
    results = Results(out or experiment.with_name(f"{experiment.stem}-evolved"))
    try:
        with _trials_progress("candidates", quiet=quiet) as progress, _interruptible(progress) as show:
            outcome = search(loaded_experiment, plan, results, seed=seed, workers=workers, command=propose, show=show)
    except KeyboardInterrupt as interrupt:
        partial_outcome: EvolveOutcome | None = getattr(interrupt, "outcome_so_far", None)
        for line in describe_outcome(partial_outcome) if partial_outcome is not None else ():
            typer.echo(line)
        typer.echo("interrupted; run the same command to resume", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for line in describe_outcome(outcome):
        typer.echo(line)


@app.command("import", cls=options.Command)
def import_(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    format_: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help="acme, dlrm, gavel, helios, openb, pai, philly or simkube."),
    ],
    pods: Annotated[Path, typer.Option("--pods", metavar="FILE", help="List of pods or jobs.")],
    out: OutFile,
    nodes: Annotated[Path | None, typer.Option("--nodes", metavar="FILE", help="List of nodes (openb).")] = None,
    cluster_out: Annotated[
        Path | None,
        typer.Option(
            "--cluster-out",
            metavar="FILE",
            help="Output file for the nodes, as CSV (default: OUT-nodes.csv).",
            callback=NODES_FILE,
        ),
    ] = None,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="Include nodes without GPUs (openb).")] = False,
    cpu_per_gpu: Annotated[
        int,
        typer.Option(
            "--cpu-per-gpu",
            metavar="MILLI",
            parser=options.number(0),
            help="CPU request per GPU, in thousandths of a core, if the trace has no CPU requests.",
        ),
    ] = 0,
    memory_per_gpu: Annotated[
        int,
        typer.Option(
            "--memory-per-gpu",
            metavar="MIB",
            parser=options.number(0),
            help="Memory request per GPU, in MiB, if the trace has no memory requests.",
        ),
    ] = 0,
    gpus_per_pod: Annotated[
        int,
        typer.Option(
            "--gpus-per-pod",
            metavar="NUMBER",
            parser=options.number(0, 1000),
            help="GPUs per pod; jobs with more GPUs are split into several pods. 0 means 8 for philly, and no split "
            "for other formats.",
        ),
    ] = 0,
    throughputs: Annotated[
        str,
        typer.Option(
            "--throughputs",
            metavar="FILE",
            help="Throughput table: steps per second of each job type and GPU model (gavel).",
        ),
    ] = "",
    worker: Annotated[
        str, typer.Option("--worker", metavar="NAME", help="GPU model to select in the throughput table (gavel).")
    ] = "v100",
    no_gangs: Annotated[bool, typer.Option("--no-gangs", help="Schedule the pods of a job one by one.")] = False,
) -> None:
    """Convert a public trace.

    Jobs with several pods become gangs, and pods are sorted by arrival. To use a trace in another format, describe its
    columns with a mapping in the experiment: see docs/how-to/import-traces.md.

    Example: moorage lab import openb --nodes nodes.csv --pods pods.csv --out trace.jsonl
    """
    start_lightly(with_numpy=True)
    from moorage.lab import (
        ImportOptions,
        Skipped,
        import_nodes,
        import_pods,
        sort_by_arrival,
        write_nodes_csv,
        write_pods,
    )

    if nodes is not None and format_ != "openb":
        raise InputError("--nodes", f"{format_} has no list of nodes", hint="write pools in the experiment")
    settings = ImportOptions(cpu_per_gpu, memory_per_gpu, gpus_per_pod, throughputs, worker, not no_gangs)
    skipped = Skipped()
    count, milli, last = 0, 0, 0.0
    jobs: set[str] = set()

    def imported() -> "Iterator[TracePod]":
        nonlocal count, milli, last
        for pod in sort_by_arrival(import_pods(format_, pods, settings, skipped)):
            count, milli, last = count + 1, milli + pod.gpu_request, pod.arrives
            if pod.job:
                jobs.add(pod.job)
            yield pod

    write_pods(out, imported())
    if not count:
        out.unlink(missing_ok=True)
        reasons = "; ".join(f"{number} rows {reason}" for reason, number in skipped.reasons.items())
        raise InputError(str(pods), f"there are no pods in the list{f': {reasons}' if reasons else ''}")
    of_jobs = f" ({_count(len(jobs), 'multi-pod job')})" if jobs else ""
    requested = _count(milli / 1000, "GPU")
    typer.echo(f"{out}: {_count(count, 'pod')}{of_jobs} requesting {requested}, arriving within {_describe_span(last)}")
    for reason, number in skipped.reasons.items():
        typer.echo(f"{number} rows {reason}")
    if nodes is not None:
        nodes_file = cluster_out or out.with_name(f"{out.stem}-nodes.csv")
        cluster = import_nodes(nodes, gpu_only=not all_nodes)
        write_nodes_csv(nodes_file, cluster.nodes)
        typer.echo(f"{nodes_file}: {len(cluster.nodes)} nodes")


def _count(number: float, noun: str) -> str:
    return f"{number:.10g} {noun}{'s' if number != 1 else ''}"


def _describe_span(seconds: float) -> str:
    """Return a duration in the largest unit of which it has two.

    >>> _describe_span(2932), _describe_span(90), _describe_span(86400 * 12.345), _describe_span(0)
    ('49 minutes', '90 seconds', '12.3 days', '0 seconds')
    """
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return _count(round(seconds / size, 0 if unit == "minute" else 1), unit)
    return _count(round(seconds), "second")


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
    typer.echo(f"{out}: {_count(len(trace.pods), 'pod')}, arriving within {_describe_span(last)}")
    if cluster_out is not None:
        cluster = preset_cluster(preset)
        write_nodes_csv(cluster_out, cluster.nodes)
        typer.echo(f"{cluster_out}: {len(cluster.nodes)} nodes")


def _write_report(experiment: "LoadedExperiment", results: "Results", trials: "list[TrialResult]") -> Path:
    """Write all rows, tables and figures, and the report. Return its path."""
    from moorage.lab import figures_as_files, measures_as_csv, measures_as_latex, report_page

    results.combine(trials)
    results.write("measures.csv", measures_as_csv(experiment.experiment, trials).encode())
    results.write("measures.tex", measures_as_latex(experiment.experiment, trials).encode())
    page = report_page(experiment.experiment, trials)
    for name, figure in figures_as_files(page):
        results.write(f"figures/{name}", figure)
    return results.write("report.html", page.encode())


def _parse_shard(text: str) -> tuple[int, int]:
    """Parse a shard such as 0/4."""
    index, separator, number = text.partition("/")
    if not (separator and index.isdecimal() and number.isdecimal() and int(index) < int(number)):
        raise InputError("--shard", f"{text!r} is not a shard", hint="write an index from 0 and a number: 0/4 to 3/4")
    return int(index), int(number)


def _run_shard(
    experiment: "LoadedExperiment", results: "Results", shard: tuple[int, int], workers: int, *, quiet: bool
) -> None:
    """Run a part of the trials. Failed ones are reported by the command that makes the report."""
    from moorage.lab import default_run, run_experiment

    with _trials_progress("trials", quiet=quiet) as progress, _interruptible(progress) as show:
        trials = run_experiment(experiment, results, default_run(len(experiment), workers), show=show, shard=shard)
    typer.echo(f"{len(trials)} trials of shard {shard[0]}/{shard[1]}; no report: run the command without --shard")


@contextmanager
def _open_run(
    on: Backend,
    ray_address: str,
    workers: int,
    job: "JobSettings | None",
    experiment: Path,
    results: "Results",
    *,
    total: int,
) -> "Iterator[RunTrials]":
    """Yield the function that runs the trials of an experiment."""
    from moorage.lab import run_on_kubernetes

    if job is not None:
        yield partial(run_on_kubernetes, settings=job, experiment=experiment, results=results)
        return
    with _open_backend(on, ray_address, workers, total=total) as run_trials:
        yield run_trials


@contextmanager
def _open_backend(on: Backend, ray_address: str, workers: int, *, total: int) -> "Iterator[RunTrials]":
    """Yield the function that runs trials."""
    from moorage.lab import default_run

    if on is Backend.RAY:
        from moorage.lab import connect_to_ray

        with connect_to_ray(ray_address, workers) as run_trials:
            yield run_trials
        return
    if on is Backend.KUBERNETES:
        raise InputError("--on", "only `moorage lab run` supports kubernetes", hint="write cores or ray")
    if ray_address:
        raise InputError("--ray-address", "only valid with --on ray", hint="add --on ray")
    yield default_run(total, workers)


@contextmanager
def _interruptible(show: "ShowTrials | None") -> "Iterator[ShowTrials]":
    """Stop on SIGTERM as on Ctrl-C. Yield a progress function that also stops.

    A signal handler may run at any point, for example before a new task is stored. A trial therefore ends between two
    callbacks of its loop, and a second signal ends it immediately. Python ignores an exception during a callback of its
    garbage collection, so the signal is also remembered until the next finished trial.
    """
    from moorage.common.virtual_time import interrupt_virtual_loop

    is_stopped = False

    def stop(_signal: int, _frame: object) -> None:
        nonlocal is_stopped
        is_first, is_stopped = not is_stopped, True
        if not (is_first and interrupt_virtual_loop()):
            raise KeyboardInterrupt

    def show_or_stop(done: int, total: int, name: str) -> None:
        if is_stopped:
            raise KeyboardInterrupt
        if show is not None:
            show(done, total, name)

    report_ignored = sys.unraisablehook

    def ignore_interrupt(unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            report_ignored(unraisable)

    sys.unraisablehook = ignore_interrupt
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield show_or_stop
    finally:
        sys.unraisablehook = report_ignored
        for number, handler in before.items():
            signal.signal(number, handler)


def _make_progress_lines(title: str) -> "ShowTrials":
    """Return a function that prints a line at most every ten seconds, for logs."""
    last = monotonic()

    def show(done: int, total: int, name: str) -> None:
        nonlocal last
        if monotonic() - last >= LINE_SECONDS:
            last = monotonic()
            typer.echo(f"{done} of {total} {title}: {name}", err=True)

    return show


@contextmanager
def _trials_progress(title: str, *, quiet: bool) -> "Iterator[ShowTrials | None]":
    """Show a transient progress bar of trials or candidates on a terminal, otherwise lines."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _make_progress_lines(title)
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
