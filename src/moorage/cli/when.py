"""`moorage when`: forecast when a pod, a job or a pod group starts."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moorage.cli import options
from moorage.cli.explain import Namespace, find_missing_gates
from moorage.cli.startup import start_lightly
from moorage.common.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.insight import Forecast, QueueForecast

DEFAULT_CHECKS: Final = 20
CHECK_SECONDS: Final = 10.0
CHECK_DRAWS: Final = 15
Subject = Annotated[
    str,
    typer.Argument(
        metavar="POD",
        help="NAME, NAMESPACE/NAME, job/NAME, podgroup/NAME, or another workload (default: all pending pods).",
        show_default=False,
    ),
]
Checks = Annotated[
    int | None,
    typer.Option(
        "--checks",
        metavar="NUMBER",
        parser=options.number(0, 1000),
        help="Number of past starts in --history that calibrate the interval (0 to 1000; default: as many as 10 s "
        "allow, at most 20).",
        show_default=False,
    ),
]
Draws = Annotated[
    int,
    typer.Option(
        "--draws",
        metavar="NUMBER",
        parser=options.number(10, 10_000),
        help="Number of simulated futures (10 to 10000).",
    ),
]
Horizon = Annotated[
    str, typer.Option("--horizon", metavar="DURATION", help="End of the simulated futures, such as 24h or 7d.")
]
Now = Annotated[
    str,
    typer.Option(
        "--now",
        metavar="TIME",
        help="Time of the forecast, such as 2026-11-18T09:00:00Z (default: when the cluster was read; "
        "for files, the latest time in them).",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="NUMBER", parser=options.number(0), help="Seed of the random numbers.")
]
NoChanges = Annotated[
    bool, typer.Option("--no-changes", help="Do not search for changes that make the pod start earlier.")
]
Verbosity = Annotated[
    int | None,
    typer.Option(
        *("-v", "--v"),
        parser=options.parse_level,
        metavar="LEVEL",
        help="1 prints all dependencies; 2 to 10 also set the log verbosity.",
    ),
]


def when(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    subject: Subject = "",
    namespace: Namespace = "",
    history: options.History = None,
    class_label: options.ClassLabel = "",
    file: options.ClusterFiles = None,
    snapshot: options.Snapshot = "",
    config: options.LiveConfig = None,
    output: options.Answer = options.AnswerFormat.TEXT,
    checks: Checks = None,
    draws: Draws = 50,
    horizon: Horizon = "168h",
    now: Now = "",
    seed: Seed = 1,
    no_changes: NoChanges = False,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
    plugin: options.Plugins = None,
    feature_gates: options.FeatureGates = None,
    emulated_version: options.EmulatedVersion = "",
    verbosity: Verbosity = None,
    quiet: options.Quiet = False,
) -> None:
    """Forecast when a pod starts.

    Prints the start time as an 80% interval, the pods that must end or be scheduled first, changes that let the pod
    start earlier, and the assumptions. Without POD, prints the interval of each pending pod. The cluster is the live
    one that kubectl uses, a snapshot, or files. Nothing is written to it.

    The command simulates many possible futures in virtual time: running pods end, queued pods are scheduled, and
    other pods arrive. The annotation moorage.io/run-for sets how long a pod runs. Without it, the duration is drawn
    from similar pods in --history; otherwise one hour is assumed. activeDeadlineSeconds limits it.

    The exit code is 0 for every forecast, and 2 for invalid input.
    """
    start_lightly()
    options.configure_trial_logs(verbosity if verbosity != 1 else None)
    from moorage.insight import (
        ForecastOptions,
        check_moment,
        forecast_lines,
        forecast_queue,
        forecast_start,
        queue_lines,
    )
    from moorage.lab import check_history, is_decision_log, read_history

    seconds = options.parse_seconds(horizon, "--horizon")
    assert seconds is not None
    if class_label and history is None and subject:
        raise InputError("--class", "has no effect without --history", hint="add --history FILE")
    if checks and history is None:
        raise InputError("--checks", "has no effect without --history", hint="add --history FILE")
    moment = _parse_moment(now)
    past = read_history(history, class_label) if history is not None else []
    cluster = options.load_cluster(file, snapshot, kubeconfig, context, quiet=quiet)
    gates = options.GateFlags(feature_gates, emulated_version)
    policy = options.load_live_policy(config, cluster, plugin, gates, quiet=quiet)
    if implied := find_missing_gates(cluster, policy, feature_gates or []):
        policy = options.load_live_policy(
            config, cluster, plugin, gates._replace(gates=[*(feature_gates or []), *implied]), quiet=quiet
        )
        options.print_note(f"the cluster has pod groups; assuming --feature-gates {','.join(implied)}", quiet=quiet)
    with options.prints_to_stderr(), cluster.session(policy) as session, _progress(quiet=quiet) as progress:
        if moment is not None:
            check_moment(session, moment)
        recalibration = None
        if history is not None and (checks or (checks is None and not is_decision_log(history))):
            with suppress(TimeoutError):
                recalibration = check_history(
                    history,
                    class_label,
                    list(session.objects.all()),
                    session.given_policy,
                    forecasts=checks or DEFAULT_CHECKS,
                    draws=CHECK_DRAWS,
                    seconds=CHECK_SECONDS if checks is None else inf,
                    progress=progress,
                )
        settings = ForecastOptions(
            class_label=class_label,
            past=past,
            past_name=str(history or ""),
            draws=draws,
            horizon=seconds,
            now=cluster.taken_at if moment is None else moment,
            seed=seed,
            with_changes=not no_changes,
            recalibration=recalibration,
            progress=progress,
        )
        forecast: Forecast | QueueForecast
        if subject:
            forecast = forecast_start(session, subject, namespace or cluster.namespace, settings)
            lines = forecast_lines(forecast, is_verbose=bool(verbosity))
        else:
            forecast = forecast_queue(session, settings, namespace=namespace)
            lines = queue_lines(forecast, is_verbose=bool(verbosity))
    if output is options.AnswerFormat.JSON:
        options.print_json(forecast.as_data())
        return
    for line in lines:
        typer.echo(line)


def _parse_moment(text: str) -> float | None:
    from moorage.kube.api.meta import parse_time

    try:
        return parse_time(text) if text else None
    except ValueError as error:
        raise InputError(
            "--now", f"{text!r} is not a time", hint="write a time such as 2026-11-18T09:00:00Z"
        ) from error


@contextmanager
def _progress(*, quiet: bool) -> "Iterator[Callable[[int, int], None]]":
    """Show a progress bar of the simulated futures."""
    with options.progress_bar(quiet=quiet) as bar:
        if bar is None:
            yield lambda _done, _total: None
            return
        task = bar.add_task("simulated futures", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
