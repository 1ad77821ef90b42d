"""One message for each problem with a file of a user, without delay and without reading devices."""

import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.common import user_files
from moorage.common.errors import InputError
from moorage.common.user_files import MAX_SETTINGS, open_file, private_file, read_file, read_text


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_SETTINGS + 1)


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


PROBLEMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "FILE: the file does not exist\n  hint: a configuration"),
    "directory": (Path.mkdir, "FILE: this is a directory, not a regular file\n  hint: a configuration"),
    "pipe": (os.mkfifo, "FILE: this is a pipe, not a regular file\n  hint: a configuration"),
    "socket": (socket_at, "FILE: this is a socket, not a regular file\n  hint: a configuration"),
    "link to an endless device": (
        lambda path: path.symlink_to("/dev/zero"),
        "FILE: this is a device, not a regular file\n  hint: a configuration",
    ),
    "link to itself": (lambda path: path.symlink_to(path), "FILE: the file cannot be read: Too many levels"),
    "above the limit": (sparse, "FILE: the file is too large: the limit is 16 MiB"),
    "invalid bytes": (
        lambda path: path.write_bytes(b"a\n\xc3\xa4\nb\xff"),
        "FILE, line 3, column 2: the file is not UTF-8 text\n  hint: save it as UTF-8",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("where", ["", "--config"])
def test_each_problem_has_one_message(
    problem: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the address of a socket is short
    make, message = PROBLEMS[problem]
    make(Path("FILE"))
    with pytest.raises(InputError) as raised:
        read_text("FILE", where=where, hint="a configuration")
    assert str(raised.value).startswith(f"{where} {message}" if where else message)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0)
    with pytest.raises(InputError, match="secret: the file cannot be read: Permission denied"):
        read_file(path)


def test_file_below_a_file_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="the file does not exist"):
        open_file(tmp_path / "file" / "below")


def test_path_with_a_null_byte_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"the file cannot be read: .*null"):
        open_file("a\0b")


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_text(path) == "a: 1\n"


def test_file_with_the_size_of_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path, limit=5) == b"12345"
    with pytest.raises(InputError, match="too large"):
        read_file(path, limit=4)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has regular files of size 0")
def test_file_of_unknown_size_is_read() -> None:
    assert read_file("/proc/self/status")


def test_private_file_replaces_a_planted_link_and_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path, planted = tmp_path / "secret", tmp_path / "planted"
    planted.write_text("theirs")
    path.symlink_to(planted)
    with private_file(path) as file:
        file.write(b"token")
        assert path.is_symlink(), "the path changes at the end"
    assert (path.read_bytes(), path.is_symlink(), path.stat().st_mode & 0o777) == (b"token", False, 0o600)
    assert planted.read_text() == "theirs"


def test_private_file_is_not_replaced_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("before")
    with pytest.raises(TypeError), private_file(path) as file:
        file.writelines([b"half", "a text"])  # type: ignore[list-item]
    assert path.read_text() == "before"
    assert [*tmp_path.iterdir()] == [path]


DIRECT_READS = {
    "cli/new_project/project.py": "templates of the package",
    "insight/page/paths.py": "files of the package",
    "insight/plan/applying.py": "the plan that the command has read and replaces",
    "insight/shadow/shadow_process.py": "/proc",
    "kube/schema.py": "a table of the package",
    "lab/evaluating.py": "results that the command has written",
    "lab/on_ray.py": "the log of a process that the command has started",
    "lab/report/page.py": "a style of the package",
    "lab/results.py": "results that the command has written",
}
"""Modules that read files without limits, with the files."""


def test_files_of_users_are_read_with_limits() -> None:
    root = Path(user_files.__file__).parents[1]
    reading = re.compile(r"\.read_(text|bytes)\(|(?<![\w.])open\([^)]*\"rb?\"|\bopen\(\"r")
    modules = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if reading.search(path.read_text(encoding="utf-8"))
    }
    devices = {"common/user_files.py", "common/child_process.py"}  # the one reader; os.devnull
    assert modules - devices == set(DIRECT_READS)
