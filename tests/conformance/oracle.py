"""The reference: kube-scheduler's framework in a separate process, one request per line."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.conformance.generator import Case

CONTROL_PLANE: Final = Path(__file__).parents[2] / "conformance" / "control-plane"


class OracleError(Exception):
    """The oracle could not decide: the cluster is invalid for an API server, or the oracle is broken."""


class KubeSchedulerCrash(OracleError):
    """kube-scheduler would have crashed; docs/parity.md lists these defects of upstream."""


KNOWN_CRASHES: Final = (
    # Only NodeResourcesFit creates the cache of compiled selectors that NodeResourcesBalancedAllocation also uses.
    "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources.(*resourceAllocationScorer).deviceMatchesClass",
)
"""Functions of kube-scheduler that are known to panic on valid clusters."""


class Oracle:
    """A running oracle. Send a request, do other work, then fetch the response; one request at a time."""

    def __init__(self, binary: str | None = None, emulated: str = "") -> None:
        command = [binary or find_binary(), "--stream", *(["--emulated-version", emulated] if emulated else ())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, case: Case) -> None:
        """Send a request; it is processed while the caller continues."""
        assert self._process.stdin is not None
        self._asked += 1
        self._process.stdin.write(json.dumps(case.request(self._asked)).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> list[dict[str, Any]]:
        """Wait for the decisions of the last request: those on pods, then those on groups."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the oracle has gone, with exit code {self._process.wait()}")
        response = json.loads(line)
        if error := response.get("error"):
            is_known = error.startswith(tuple(f"panic in {name}:" for name in KNOWN_CRASHES))
            raise (KubeSchedulerCrash if is_known else OracleError)(error)
        return [*response.get("decisions", []), *response.get("groups", [])]

    def decide(self, case: Case) -> list[dict[str, Any]]:
        """Send a request and wait."""
        self.ask(case)
        return self.answer()


def find_binary() -> str:
    """Return the path of the oracle; build it if it is missing."""
    subprocess.run([str(CONTROL_PLANE), "oracle"], check=True, stdout=subprocess.DEVNULL)
    directory = subprocess.run(
        [str(CONTROL_PLANE), "--print"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return str(Path(directory) / "oracle")
