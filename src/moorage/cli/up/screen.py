"""What `moorage up` shows: a live picture on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from moorage.cli.up.tally import Summary

LIVE_INTERVAL: Final = 0.5
PLAIN_INTERVAL: Final = 2.0
_COLORS: Final = {"Running": "green", "Succeeded": "blue", "Pending": "yellow", "Failed": "red"}


class Screen:
    """Where a cluster is shown; the picture is live if the console is a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.is_live = self.console.is_terminal
        self.interval = LIVE_INTERVAL if self.is_live else PLAIN_INTERVAL
        self._live: Live | None = None
        self._last = ""

    def welcome(self, url: str, kubeconfig: Path, *, with_scheduler: bool) -> None:
        """Say how to use the cluster."""
        self._say(f"The cluster serves the Kubernetes API on {url}. Its kubeconfig is")
        self._say(f"  {kubeconfig}")
        self._say("Use it from another terminal, for example:")
        self._say(f"  export KUBECONFIG={kubeconfig}")
        self._say("  kubectl get nodes")
        if not with_scheduler:
            self._say("There is no scheduler: pods wait until you run one with this kubeconfig.")
        self._say("Ctrl-C ends it.\n")

    def page(self, url: str) -> None:
        """Say where the cluster can be looked at."""
        self._say(f"Look at it in a browser: {url}\n")

    def taken(self, fixed: list[str]) -> None:
        """Say that the scheduler goes on with what was just saved."""
        self._say(f"{_now()} The scheduler has taken up what was saved.")
        if fixed:
            self._say(f"  {', '.join(fixed)}: only from the next start on.")

    def refused(self, problem: str) -> None:
        """Say why it goes on as before."""
        self._say(f"{_now()} The scheduler goes on as before: what was saved cannot be used.")
        self._say("  " + problem.replace("\n", "\n  "))

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Keep the picture on the screen while the block lasts."""
        if not self.is_live:
            yield
            return
        with Live(console=self.console, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def show(self, summary: "Summary") -> None:
        """Show how the cluster fares."""
        if self._live is not None:
            self._live.update(picture(summary))
        elif summary.line != self._last:
            self._last = summary.line
            self._say(summary.line)

    def farewell(self, summary: "Summary") -> None:
        """Say what became of the cluster."""
        self._say(f"{summary.placed} pods found a node. In the end: {summary.line}")
        for reason in summary.reasons:
            self._say(f"  {reason.count} pending, such as {reason.example}: {reason.text}")


def _now() -> str:
    return time.strftime("%H:%M:%S")


def picture(summary: "Summary") -> Group:
    """Draw a cluster: its nodes and what is used of them, its pods, and why some wait."""
    return Group(_overview(summary), Text(), _waiting(summary))


def _overview(summary: "Summary") -> Table:
    table = Table.grid(padding=(0, 2))
    ready = Text(f"{summary.ready} of {summary.nodes} ready", "green" if summary.ready == summary.nodes else "red")
    table.add_row(Text("nodes", "bold"), ready)
    for name, share in summary.used.items():
        bar = ProgressBar(total=1.0, completed=min(share, 1.0), width=30)
        inner = Table.grid(padding=(0, 1))
        inner.add_row(bar, f"{share:4.0%}")
        table.add_row(Text(name, "bold"), inner)
    pods = Text("  ").join(
        Text(f"{count} {phase.lower()}", _COLORS.get(phase, "")) for phase, count in summary.phases.items()
    )
    table.add_row(Text("pods", "bold"), pods if summary.phases else Text("none", "dim"))
    table.add_row(Text("placed", "bold"), f"{summary.placed} ({summary.rate:.1f} pods/s)")
    return table


def _waiting(summary: "Summary") -> Table | Text:
    if not summary.reasons:
        return Text("no pod waits", "dim")
    table = Table("pending", "such as", "why", box=None, header_style="bold", pad_edge=False)
    for reason in summary.reasons:
        table.add_row(str(reason.count), Text(reason.example), Text(reason.text))
    return table
