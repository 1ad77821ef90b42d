"""What commands share that run trials: where they run, and how far they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from moorage.lab.running import RunTrials, ShowTrials


class Machinery(StrEnum):
    """Where trials run."""

    CORES = "cores"
    RAY = "ray"


QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=0, help="How many processes on this machine; 0 is one for each core.")
]
OnOption = Annotated[
    Machinery, typer.Option("--on", help="Where trials run: on this machine's cores, or on Ray ('moorage[ray]').")
]
RayAddressOption = Annotated[
    str, typer.Option("--ray-address", metavar="HOST:PORT", help="The Ray cluster; without it, one is started here.")
]


@contextmanager
def running(on: Machinery, ray_address: str, workers: int, *, total: int) -> "Iterator[RunTrials]":
    """Give the way to run trials, as long as a block lasts."""
    from moorage.common.errors import InputError
    from moorage.lab.running import default_run

    if on is Machinery.RAY:
        from moorage.lab.on_ray import connected_to_ray

        with connected_to_ray(ray_address, workers) as run:
            yield run
        return
    if ray_address:
        raise InputError("--ray-address", "it is of no use without Ray", hint="write --on ray as well")
    yield default_run(total, workers)


@contextmanager
def trials_progress(what: str, *, shown: bool) -> "Iterator[ShowTrials | None]":
    """Show on the terminal how many trials (or whatever) are done; it leaves no trace."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)
