"""`moorage scheduler --decision-log`: a line per decision, and the error if the file is not writable."""

import asyncio
import subprocess
from pathlib import Path

from moorage.scheduler.decisions.decision import Result
from moorage.scheduler.decisions.decision_log import LoggedDecision, read_log
from tests.integration.test_scheduler_page import MOORAGE, PAUSE, POLLS, scheduler
from tests.unit.insight.page.clusters import node, pod


def test_each_decision_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"

    async def go() -> dict[str, LoggedDecision]:
        contents = (node("n1"), node("n2"), pod("web-1"), pod("web-2"), pod("big", "9"))
        async with scheduler(tmp_path, f"--decision-log={path}", contents=contents):
            for _ in range(POLLS):
                if path.exists() and len(lines := {line.pod: line for line in read_log(path)}) == 3:
                    return lines
                await asyncio.sleep(PAUSE)
        raise AssertionError(path.read_text() if path.exists() else "no file")

    lines = asyncio.run(go())
    assert {line.node for line in lines.values()} == {"", "n1", "n2"}
    assert lines["shop/big"].result is Result.UNSCHEDULABLE
    (first, second) = lines["shop/web-2"].nodes.values()
    assert (first.total or 0) > (second.total or 0)
    assert "NodeResourcesFit" in (first.scores or {})


def test_unwritable_file_is_rejected(tmp_path: Path) -> None:
    flags = ("--decision-log=/nowhere/at/all", "--master=http://127.0.0.1:1", "--leader-elect=false")
    command = [MOORAGE, "scheduler", *flags, "--secure-port=0"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1
    assert "--decision-log /nowhere/at/all: the file cannot be written: No such file or directory" in result.stderr
