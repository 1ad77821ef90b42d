"""Lines reach files of bounded size and number; dropped lines are counted, and writes never block."""

import resource
import signal
from collections import Counter
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from moorage.common.errors import InputError
from moorage.scheduler.daemon.decision_log.writing import (
    BUFFER,
    DISK,
    MAX_WAITING,
    LineWriter,
    LogLimits,
    RotatedFile,
    check_limits,
)
from moorage.scheduler.decisions.decision import Result
from moorage.scheduler.decisions.decision_log import LoggedDecision, log_files, read_log


def line(number: int) -> LoggedDecision:
    return LoggedDecision(
        time="2026-11-17T05:00:00.000000Z", pod=f"default/p{number}", profile="x", result=Result.SCHEDULED, node="n1"
    )


class Dropped(Counter[str]):
    def __call__(self, reason: str, count: int) -> None:
        self[reason] += count


def test_lines_are_read_back_over_all_rotated_files(tmp_path: Path) -> None:
    path, dropped = tmp_path / "log", Dropped()
    size = len(b'{"time":"2026-11-17T05:00:00.000000Z","pod":"default/p100",' * 4)
    for number in range(100, 130):
        # Each line has its own writer: a restart continues the same file.
        writer = LineWriter(RotatedFile(path, LogLimits(size, 50)), dropped)
        writer.start()
        writer.put(line(number))
        writer.close()
    assert not dropped
    assert len(log_files(path)) > 5
    assert all(file.stat().st_size <= size for file in log_files(path))
    assert [decision.pod for decision in read_log(path)] == [f"default/p{number}" for number in range(100, 130)]


def test_number_of_files_is_limited(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "log", LogLimits(10, 2))
    for number in range(8):
        file.write(b"%d-345678\n" % number)
    file.close()
    contents = {path_in_directory.name: path_in_directory.read_bytes() for path_in_directory in tmp_path.iterdir()}
    assert contents == {"log": b"7-345678\n", "log.1": b"6-345678\n", "log.2": b"5-345678\n"}


def test_half_a_line_that_a_kill_left_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"whole": 1}\n{"half')
    file = RotatedFile(path, LogLimits())
    file.write(b'{"next": 2}\n')
    file.close()
    assert path.read_bytes() == b'{"whole": 1}\n{"next": 2}\n'


def test_a_full_disk_costs_lines_only(tmp_path: Path, logged: list[MutableMapping[str, Any]]) -> None:
    """The limit of a file's size refuses writes as a full disk does, half of them included."""
    path, dropped = tmp_path / "log", Dropped()
    file = RotatedFile(path, LogLimits())
    file.open()
    writer = LineWriter(file, dropped)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    quiet = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        writer._write(b"whole\n", 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        writer._write(b"too long for it\n", 3)
        assert path.read_bytes() == b"whole\n"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, quiet)
    writer._write(b"again\n", 1)
    assert path.read_bytes() == b"whole\nagain\n"
    assert dropped == {DISK: 3}
    # The log is captured in memory: if output goes to a file, the limit would apply to it too.
    assert [line["event"] for line in logged] == ["lines of the log are lost"]


def test_lines_beyond_the_buffer_are_dropped_and_counted(tmp_path: Path) -> None:
    dropped = Dropped()
    # The writer is not started, which simulates a blocked disk.
    writer = LineWriter(RotatedFile(tmp_path / "log", LogLimits()), dropped)
    for number in range(MAX_WAITING + 7):
        writer.put(line(number))
    assert dropped == {BUFFER: 7}


def test_a_file_that_cannot_be_opened_is_refused_at_the_start(tmp_path: Path) -> None:
    writer = LineWriter(RotatedFile(tmp_path / "no" / "log", LogLimits()), Dropped())
    with pytest.raises(InputError, match="log: the file cannot be written: No such file or directory"):
        writer.start()


@pytest.mark.parametrize(("size", "files"), [(10, 5), (1 << 20, -1), (1 << 20, 100_000)])
def test_limits_out_of_bounds_are_refused(size: int, files: int) -> None:
    with pytest.raises(InputError, match="--decision-log-max"):
        check_limits(size, files)
