import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import guard
from benchmarks.live.counting import Requests
from benchmarks.live.drain import Reading, Round
from benchmarks.live.latency import percentile
from benchmarks.live.processes import Machine, SessionProcess

METRICS = b"""# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",scope="resource",subresource="binding",verb="POST"} 41
apiserver_request_total{code="409",resource="pods",scope="resource",subresource="binding",verb="POST"} 2
apiserver_request_total{code="201",resource="pods",scope="resource",subresource="",verb="POST"} 1.5e+03
apiserver_request_duration_seconds_count{resource="pods",subresource="binding",verb="POST"} 99
"""


def reading(seconds: float, bound: int, scheduler: float, idle: float = 0.0, busy: float = 0.0) -> Reading:
    return Reading(seconds, bound, scheduler, api=2 * seconds, etcd=seconds, bench=0.0, idle=idle, busy=busy)


def a_round(*readings: Reading) -> Round:
    return Round("basic", 10, 100, "moorage", 1, expected=100, readings=list(readings))


def test_rejected_bindings_are_not_counted() -> None:
    now = Requests(METRICS)
    assert now.bound == 41
    assert now.refused["POST pods/binding"] == 2
    assert now.since(Requests(b"")) == {"POST pods": 1500, "POST pods/binding": 43}


def test_speed_and_cost_are_measured_from_the_first_bind_to_the_last() -> None:
    figures = a_round(
        reading(1.0, 0, 0.5),
        reading(2.0, 20, 1.0),
        reading(3.0, 60, 1.2),
        reading(4.0, 100, 1.4),
        reading(9.0, 100, 3.0),
    ).figures()
    assert figures["pods_per_second"] == 40.0
    assert (figures["seconds_to_first_bind"], figures["seconds_to_last_bind"]) == (2.0, 4.0)
    assert figures["cpu_ms_per_pod"] == 14.0
    assert figures["cpu_ms_per_pod_after_start"] == 5.0
    assert (figures["api_cpu_ms_per_pod"], figures["server_cpu_ms_per_pod"]) == (50.0, 75.0)


def test_round_without_bindings_has_measurements() -> None:
    figures = a_round(reading(1.0, 0, 0.5), reading(2.0, 0, 0.9)).figures()
    assert (figures["bound"], figures["pods_per_second"], figures["cpu_ms_per_pod"]) == (0, 0.0, 0.0)


def test_idle_time_and_other_programs_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    begin, end = reading(0.0, 1, 0.0, idle=10.0, busy=50.0), reading(10.0, 100, 2.0, idle=14.0, busy=86.0)
    figures = a_round(begin, end).figures()
    assert (figures["idle_share"], figures["others_share"]) == (0.1, 0.1)


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, part) for part in (50, 99, 100)] == [50.0, 99.0, 100.0]
    assert percentile([], 99) == 0.0


def test_process_is_measured_and_ended_with_its_children(tmp_path: Path) -> None:
    child = "while True: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = SessionProcess([sys.executable, "-c", parent], tmp_path / "log", tmp_path)
    try:
        while len(members := list(process.members())) < 2 or process.cpu() < 0.3:
            assert process.is_running, process.log_end
        assert process.peak_mib() > 1
    finally:
        process.stop()
    assert not process.is_running
    assert not any(_is_alive(pid) for pid in members)


def test_memory_that_a_fork_shares_counts_once(tmp_path: Path) -> None:
    parent = "import os, time; held = b'x' * (64 << 20); os.fork(); print('ready', flush=True); time.sleep(60)"
    process = SessionProcess([sys.executable, "-c", parent], tmp_path / "log", tmp_path)
    try:
        while process.log_end.count("ready") < 2:
            assert process.is_running, process.log_end
        assert 64 < process.peak_mib() < 128
    finally:
        process.stop()


def _is_alive(pid: int) -> bool:
    """Return whether a process is still running, and not a zombie."""
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_the_machine_is_busy_or_idle() -> None:
    before = Machine.now()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    after = Machine.now()
    assert after.idle + after.busy >= before.idle + before.busy


CEILINGS = {"identical": {"calls": 100, "blocks_kept": 10}}
COUNTS = {
    "below the ceilings": ({"identical": {"calls": 99.5, "blocks_kept": 10.0}}, 0),
    "above one": ({"identical": {"calls": 100.5, "blocks_kept": 10.0}}, 1),
    "what has no ceiling is above it": ({"new": {"calls": 1.0}}, 1),
}


@pytest.mark.parametrize(("result", "above"), COUNTS.values(), ids=COUNTS)
def test_guard_counts_figures_above_their_ceilings(
    result: dict[str, dict[str, float]], above: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guard.judged(result, CEILINGS) == above
    assert ("TOO MANY" in capsys.readouterr().out) == bool(above)
