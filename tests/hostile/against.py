"""`python -m tests.hostile.against PYTHON`: run the same checks on another checkout; its packages PYTHON has.

Each class of requests gets a separate cluster (`moorage up`), and each class of files a process: a server stopped by
one class must not affect the next. Prints a line for each, and the number of passed checks.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

import yaml

from tests.hostile.classes import CLASSES, Hostile, problem_of
from tests.support.api import NODES, PODS, node, pod
from tests.unit.cli.test_hostile_files import FILES

MOORAGE: Final = "import sys; from moorage.cli.main import main; sys.argv[0] = 'moorage'; main()"
START_SECONDS: Final = 120.0
ANSWER_SECONDS: Final = 30.0
COMMANDS: Final = (("simulate", "-f"), ("config", "check"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="the interpreter of the other checkout")
    options = parser.parse_args()
    passed = attempts = 0
    for name, problem in chain(of_requests(options.python), of_files(options.python)):
        attempts, passed = attempts + 1, passed + (not problem)
        sys.stdout.write(f"{'holds' if not problem else 'FAILS'}  {name}{': ' if problem else ''}{problem[:160]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{passed} of {attempts} hold\n")
    return 0 if passed == attempts else 1


def of_requests(python: str) -> Iterator[tuple[str, str]]:
    """Send each request to a cluster; start a new one if it did not survive."""
    waiting = dict(CLASSES)
    while waiting:
        with cluster(python) as (url, token):
            while waiting:
                name = next(iter(waiting))
                problem = problem_of(url, token, waiting.pop(name), ANSWER_SECONDS)
                yield name, problem
                if problem:
                    break


def of_files(python: str) -> Iterator[tuple[str, str]]:
    """Pass each file to each command."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "hostile")
        for command in COMMANDS:
            for name, content in FILES.items():
                file.write_text(content)
                yield f"{command[0]}: {name}", _problem_of_file(python, (*command, str(file)))


def _problem_of_file(python: str, command: tuple[str, ...]) -> str:
    try:
        result = subprocess.run(
            [python, "-c", MOORAGE, *command], capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no response within {ANSWER_SECONDS:g} s"
    if result.returncode == 2 and "Traceback" not in result.stderr:
        return ""
    return f"exit code {result.returncode}: {result.stderr.strip().splitlines()[-1:]}"


@contextmanager
def cluster(python: str) -> Iterator[tuple[str, str]]:
    """Run a cluster; return its URL and a token."""
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory, "kubeconfig")
        command = [python, "-c", MOORAGE, "up", "--nodes", "0", "--kubeconfig", str(kubeconfig), "--for", "10m"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield _furnished(kubeconfig)
        finally:
            process.kill()
            process.wait()


def _furnished(kubeconfig: Path) -> tuple[str, str]:
    deadline = time.monotonic() + START_SECONDS
    while not kubeconfig.exists() or not (content := yaml.safe_load(kubeconfig.read_text())):
        if time.monotonic() > deadline:
            raise TimeoutError("the cluster does not start")
        time.sleep(0.1)
    url, token = content["clusters"][0]["cluster"]["server"], content["users"][0]["user"]["token"]
    for path, obj in ((PODS, pod()), (NODES, node())):
        _create(url, token, path, obj, deadline)
    return url, token


def _create(url: str, token: str, path: str, obj: Any, deadline: float) -> None:
    request = Hostile("POST", path, json.dumps(obj).encode(), statuses=(201, 409))
    while problem_of(url, token, request):
        if time.monotonic() > deadline:
            raise TimeoutError("the cluster takes no objects")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
