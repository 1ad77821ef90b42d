"""`moorage lab tune`: weights and arguments for an objective."""

import sys
from pathlib import Path
from typing import Annotated

import typer

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

EXIT_INTERRUPTED = 130


def tune(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="A YAML file with a section `tune`.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where rows and best.yaml go; EXPERIMENT-tuned.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed looks elsewhere first.")] = 1,
    workers: WorkersOption = 0,
    on: OnOption = Machinery.CORES,
    ray_address: RayAddressOption = "",
    quiet: QuietOption = False,
    verbosity: VerbosityOption = None,
) -> None:
    """Find weights and arguments that serve an objective, and write them as a KubeSchedulerConfiguration.

    Candidates that lag behind are given up early. The best is judged by seeds that the search did not see. Trials that
    are done are kept: the same command goes on where it was stopped.
    """
    start_lightly()
    log_trials_as_asked(verbosity)
    from moorage.lab.experiment import load_experiment
    from moorage.lab.results import Results
    from moorage.lab.tuning.tune import TuneOutcome, plan_of, report_lines
    from moorage.lab.tuning.tune import tune as search

    loaded = load_experiment(experiment)
    loaded.check_policies()
    plan = plan_of(loaded)
    results = Results(out or experiment.with_name(f"{experiment.stem}-tuned"))
    try:
        with (
            running(on, ray_address, workers, total=len(loaded)) as run,
            trials_progress("candidates", shown=not quiet and sys.stderr.isatty()) as show,
        ):
            outcome = search(loaded, plan, results, run, seed=seed, show=show)
    except KeyboardInterrupt as interrupt:
        so_far: TuneOutcome | None = getattr(interrupt, "outcome_so_far", None)
        for line in report_lines(so_far) if so_far is not None else ():
            typer.echo(line)
        typer.echo("stopped: the same command goes on from here", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    for line in report_lines(outcome):
        typer.echo(line)
