"""The display of `moorage up`."""

from io import StringIO

from rich.console import Console

from moorage.cli.up.screen import Screen, render
from moorage.cli.up.tally import Reason, Summary

SUMMARY = Summary(
    nodes=2,
    ready=2,
    phases={"Running": 3, "Pending": 1},
    placed=3,
    rate=1.5,
    used={"cpu": 0.5, "memory": 0.25},
    reasons=(Reason("0/2 nodes are available: 2 Insufficient cpu.", 1, "shop/big"),),
)


def test_terminal_gets_a_live_view() -> None:
    console = Console(width=100, record=True, force_terminal=True, file=StringIO())
    console.print(render(SUMMARY))
    text = console.export_text()
    for part in ("2 of 2 ready", "50%", "3 running", "1 pending", "1.5 per second", "2 Insufficient cpu", "shop/big"):
        assert part in text


def test_plain_output_prints_only_changed_lines() -> None:
    console = Console(width=200, record=True, force_terminal=False, file=StringIO())
    screen = Screen(console)
    with screen.showing():
        screen.show(SUMMARY)
        screen.show(SUMMARY)
    screen.farewell(SUMMARY)
    lines = console.export_text().splitlines()
    assert len(lines) == 3
    assert (
        lines[0]
        == "nodes 2/2 ready · pods: 3 running, 1 pending · requested: cpu 50%, memory 25% · 1.5 pods scheduled/s"
    )
    assert lines[2].startswith("  1 pending, shop/big: 0/2 nodes are available")
