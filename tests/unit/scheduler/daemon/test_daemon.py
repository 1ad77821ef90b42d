"""The daemon without processes: the setup of its supervisor, and its wait for the API server."""

import asyncio
import socket

import pytest
from tests.support.fault_server import FaultServer
from tests.support.options import load_options

from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Unauthorized
from moorage.common.virtual_time import run_virtual
from moorage.scheduler.daemon.daemon import MAX_PAUSE, make_setup, wait_for_server

MASTER = "--master=http://127.0.0.1:1"


def test_lease_has_the_settings_of_the_configuration() -> None:
    durations = ["--leader-elect-lease-duration=20s", "--leader-elect-renew-deadline=12s"]
    names = ["--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=here"]
    lease = make_setup(load_options([MASTER, *durations, "--leader-elect-retry-period=3s", *names])).lease
    assert lease is not None
    assert (lease.namespace, lease.name) == ("here", "mine")
    assert (lease.lease_duration, lease.renew_deadline, lease.retry_period) == (20.0, 12.0, 3.0)
    assert lease.version == "", "candidates have a version only with coordinated election"


def test_replicas_of_one_host_have_different_identities() -> None:
    leases = [make_setup(load_options([MASTER])).lease for _ in range(2)]
    identities = {lease.identity for lease in leases if lease is not None}
    assert len(identities) == 2
    assert all(identity.startswith(f"{socket.gethostname()}_") for identity in identities)


def test_coordinated_election_needs_the_version() -> None:
    options = load_options([MASTER, "--feature-gates=CoordinatedLeaderElection=true"])
    lease = make_setup(options).lease
    assert lease is not None
    assert lease.version == f"{options.features.release}.0"


def test_scheduler_without_election_has_no_lease() -> None:
    setup = make_setup(load_options([MASTER, "--leader-elect=false", "--stuck-timeout=90s"]))
    assert setup.lease is None
    assert (setup.stuck_seconds, setup.master, setup.component) == (90.0, "http://127.0.0.1:1", "default-scheduler")


class Waiting:
    """A daemon that waits for an API server in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FaultServer(self.clock)

    def wait(self, *, stop_after: float | None = None) -> tuple[bool, float]:
        """Return whether the server responded, and after how many seconds."""

        async def work() -> bool:
            stopping = asyncio.Event()
            if stop_after is not None:
                asyncio.get_running_loop().call_later(stop_after, stopping.set)
            return await wait_for_server(self.server.client(), stopping)

        began = self.clock.now()
        return run_virtual(work(), self.clock), self.clock.now() - began


REACHABLE = {
    "a server that responds": (200, 0, None, (0.0, 0.1)),
    "a server that denies the request": (403, 1, None, (0.0, 0.1)),
    "a server that starts, with pauses that double": (503, 3, None, (0.5 + 1.0 + 2.0, 3.6)),
    "a busy server, as long as it requests": (429, 2, "40", (80.0, 80.1)),
}


@pytest.mark.parametrize(("status", "times", "retry_after", "seconds"), REACHABLE.values(), ids=REACHABLE)
def test_daemon_waits_for_the_api_server(
    status: int, times: int, retry_after: str | None, seconds: tuple[float, float]
) -> None:
    waiting = Waiting()
    if times:
        waiting.server.fail("GET /version", status, times=times, retry_after=retry_after)
    is_reachable, waited = waiting.wait()
    assert is_reachable
    assert seconds[0] <= waited < seconds[1]


def test_pauses_have_a_maximum() -> None:
    waiting = Waiting()
    waiting.server.fail("GET /version", 503, times=20)
    assert waiting.wait()[1] == pytest.approx(0.5 + 1 + 2 + 4 + 8 + 15 * MAX_PAUSE, abs=0.1)


def test_daemon_that_is_stopped_does_not_wait() -> None:
    waiting = Waiting()
    waiting.server.fail("GET /version", 503, times=1000)
    assert waiting.wait(stop_after=100.0) == (False, pytest.approx(100.0, abs=0.1))


def test_permanent_errors_are_raised() -> None:
    waiting = Waiting()
    waiting.server.fail("GET /version", 401, times=1000)
    with pytest.raises(ApiError) as raised:
        waiting.wait()
    assert isinstance(raised.value, Unauthorized)
