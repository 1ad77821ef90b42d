"""The display of `moorage up`: a live view on a terminal, plain lines elsewhere."""

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
    """The display of a cluster; a live view if the console is a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.is_live = self.console.is_terminal
        self.interval = LIVE_INTERVAL if self.is_live else PLAIN_INTERVAL
        self._live: Live | None = None
        self._last = ""

    def welcome(self, url: str, kubeconfig: Path, *, with_scheduler: bool) -> None:
        """Print how to use the cluster."""
        self._print(f"The cluster serves the Kubernetes API at {url}")
        self._print("Use it from another terminal:")
        self._print(f"  export KUBECONFIG={kubeconfig}")
        self._print("  kubectl get nodes")
        if not with_scheduler:
            self._print("No scheduler is running: pods stay pending until you start one with this kubeconfig.")
        self._print("Stop the cluster with Ctrl-C.\n")

    def page(self, url: str) -> None:
        """Print the URL of the web page."""
        self._print(f"Web page: {url}\n")

    def reload_succeeded(self, fixed: list[str]) -> None:
        """Print that a reload succeeded; ``fixed`` lists settings that need a restart."""
        self._print(f"{time.strftime('%H:%M:%S')} Reloaded the configuration and plugins.")
        if fixed:
            self._print(f"  {', '.join(fixed)}: changes apply after a restart.")

    def reload_failed(self, problem: str) -> None:
        """Print why a reload failed."""
        now = time.strftime("%H:%M:%S")
        self._print(f"{now} Reload failed; the scheduler continues with the previous configuration and plugins.")
        self._print("  " + problem.replace("\n", "\n  "))

    def _print(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show the live view during a block."""
        if not self.is_live:
            yield
            return
        with Live(console=self.console, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def show(self, summary: "Summary") -> None:
        """Show the current state of the cluster."""
        if self._live is not None:
            self._live.update(render(summary))
        elif summary.line != self._last:
            self._last = summary.line
            self._print(summary.line)

    def farewell(self, summary: "Summary") -> None:
        """Print the final state of the cluster."""
        self._print(f"{summary.placed} pods scheduled. Final state: {summary.state}")
        for reason in summary.reasons:
            example = reason.example if reason.count == 1 else f"for example {reason.example}"
            self._print(f"  {reason.count} pending, {example}: {reason.text}")


def render(summary: "Summary") -> Group:
    """Render nodes, utilization, pods, and the reasons of pending pods."""
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
    table.add_row(Text("scheduled", "bold"), f"{summary.placed} ({summary.rate:.1f} per second)")
    if not summary.reasons:
        return Group(table, Text(), Text("no pending pods", "dim"))
    pending = Table("pending", "example", "reason", box=None, header_style="bold", pad_edge=False)
    for reason in summary.reasons:
        pending.add_row(str(reason.count), Text(reason.example), Text(reason.text))
    return Group(table, Text(), pending)
