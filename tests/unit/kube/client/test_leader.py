"""Leader election: candidates, expiry of leases, and how leadership is lost and released."""

import asyncio
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.fault_server import FaultServer

from moorage.common.clock import VirtualClock
from moorage.common.errors import LeadershipLost
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.records import EventNote, Lease, LeaseSpec
from moorage.kube.client.leader import CoordinatedElection, Election, LeaderElector, LeaseSettings

LEASES = "/apis/coordination.k8s.io/v1/leases"
KEY = "kube-system/kube-scheduler"


def lease(holder: str, *, renewed: str = "1", duration: int = 15, transitions: int = 3) -> Lease:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration,
        acquire_time="long ago",
        renew_time=renewed,
        lease_transitions=transitions,
    )
    return Lease(metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system", resource_version="7"), spec=spec)


class TestElection:
    def setup_method(self) -> None:
        self.clock = VirtualClock()
        self.election = Election(LeaseSettings("me"), self.clock)

    def test_missing_lease_is_created(self) -> None:
        self.election.observe(None)
        bid = self.election.bid()
        assert bid is not None
        assert (bid.key, bid.spec.holder_identity, bid.spec.lease_duration_seconds) == (KEY, "me", 15)
        assert bid.spec.lease_transitions == 0

    def test_lease_of_another_holder_expires_by_the_local_clock(self) -> None:
        self.election.observe(lease("other"))
        self.clock.advance(14.9)
        assert self.election.bid() is None
        self.clock.advance(0.2)
        bid = self.election.bid()
        assert bid is not None
        assert bid.spec.lease_transitions == 4

    def test_renewal_restarts_the_lease_duration(self) -> None:
        self.election.observe(lease("other"))
        self.clock.advance(14)
        self.election.observe(lease("other", renewed="2"))
        self.clock.advance(14)
        assert self.election.bid() is None

    def test_same_lease_does_not_restart_the_duration(self) -> None:
        self.election.observe(lease("other"))
        self.clock.advance(14)
        self.election.observe(lease("other"))
        self.clock.advance(2)
        assert self.election.bid() is not None

    def test_released_lease_is_free_immediately(self) -> None:
        self.election.observe(lease(""))
        assert self.election.bid() is not None

    @pytest.mark.parametrize(
        ("result", "want"),
        [(None, True), (lease("", transitions=0), False), (lease("other", transitions=0), False), (lease(""), False)],
        ids=["it makes the lease", "somebody gave it back", "somebody's ran out", "it has changed hands"],
    )
    def test_leader_is_first_if(self, result: Lease | None, want: bool) -> None:
        self.election.observe(result)
        assert not self.election.is_first, "nobody is who does not lead"
        self.clock.advance(100)
        bid = self.election.bid()
        assert bid is not None
        self.election.written(bid)
        assert self.election.is_first is want

    def test_renewing_keeps_when_and_how_often_the_lease_changed_hands(self) -> None:
        self.election.observe(lease("me"))
        bid = self.election.bid()
        assert bid is not None
        assert (bid.spec.acquire_time, bid.spec.lease_transitions) == ("long ago", 3)

    def test_giving_back_leaves_a_lease_of_one_second_without_holder(self) -> None:
        self.election.observe(lease("me"))
        released = self.election.release()
        assert released is not None
        assert (released.spec.holder_identity, released.spec.lease_duration_seconds) == ("", 1)

    def test_only_the_holder_releases(self) -> None:
        self.election.observe(lease("other"))
        assert self.election.release() is None

    def test_leader_without_renewals_is_overdue(self) -> None:
        self.election.observe(None)
        self.election.bid()
        self.election.written(lease("me"))
        self.clock.advance(34)
        assert not self.election.is_overdue()
        self.clock.advance(2)
        assert self.election.is_overdue()


class Jumping(VirtualClock):
    """A clock with an adjustable wall clock."""

    offset = 0.0

    def wall(self) -> float:
        return self.now() + self.offset


JUMPS = {"back": -86_400.0, "ahead": 86_400.0}


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_setting_the_wall_clock_changes_no_lease(jump: float) -> None:
    clock = Jumping()
    own, rival = (Election(LeaseSettings(name), clock) for name in ("me", "you"))
    own.observe(None)
    bid = own.bid()
    assert bid is not None
    own.written(bid)
    rival.observe(bid)
    expiry = own.expiry
    clock.offset = jump
    assert own.expiry == expiry == clock.now() + 10
    assert not own.is_overdue()
    clock.advance(14)
    assert rival.bid() is None
    clock.advance(2)
    assert rival.bid() is not None


def test_lease_starts_at_the_time_of_its_request() -> None:
    clock = VirtualClock()
    election = Election(LeaseSettings("me"), clock)
    election.observe(None)
    asked_at, bid = clock.now(), election.bid()
    assert bid is not None
    clock.advance(4)
    election.written(bid)
    assert election.expiry == asked_at + 10


class Replica:
    def __init__(self, name: str, server: FaultServer, clock: VirtualClock) -> None:
        self.working = False
        self.notes: list[str] = []
        self.leaders: list[str] = []
        self.elector = LeaderElector(
            server.client(),
            LeaseSettings(name),
            clock,
            record=self.record,
            on_new_leader=self.leaders.append,
            chance=Random(name),
        )

    def record(self, note: EventNote) -> None:
        assert note.regarding.key == KEY
        self.notes.append(note.note)

    async def work(self) -> None:
        self.working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.elector.run(self.work))


def holder(server: FaultServer) -> str:
    return str(server.stored(LEASES)[KEY]["spec"]["holderIdentity"])


def run(scenario: Any) -> None:
    clock = VirtualClock()
    server = FaultServer(clock)
    run_virtual(scenario(server, clock, Replica("a", server, clock), Replica("b", server, clock)), clock)


async def settle(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_second_candidate_takes_over_immediately_when_the_leader_stops() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(1)
        waiting = second.start()
        await asyncio.sleep(60)
        assert (first.working, second.working) == (True, False)
        assert second.leaders == ["a"]
        await settle(leading)
        assert holder(server) == ""
        await asyncio.sleep(6)
        assert (first.working, second.working) == (False, True)
        assert first.notes == ["a became leader", "a stopped leading"]
        await settle(waiting)

    run(scenario)


def test_a_leader_that_dies_is_replaced_when_its_lease_has_run_out() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        server.put(
            LEASES,
            {
                "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
                "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "leaseTransitions": 1},
            },
        )
        waiting = second.start()
        await asyncio.sleep(14)
        assert not second.working
        await asyncio.sleep(8)
        assert second.working
        assert server.stored(LEASES)[KEY]["spec"]["leaseTransitions"] == 2
        await settle(waiting)

    run(scenario)


def test_a_leader_cut_off_from_the_server_stops_before_its_lease_runs_out() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(10)
        server.is_down = True
        lost_at = clock.now()
        with pytest.raises(LeadershipLost):
            await leading
        assert clock.now() - lost_at < 15
        assert not first.working

    run(scenario)


def test_a_short_outage_is_survived() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(10)
        server.is_down = True
        await asyncio.sleep(6)
        server.is_down = False
        await asyncio.sleep(60)
        assert first.working
        await settle(leading)

    run(scenario)


def test_lease_taken_by_another_holder_is_lost_immediately() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(10)
        stolen = server.stored(LEASES)[KEY]
        server.put(LEASES, {**stolen, "spec": {**stolen["spec"], "holderIdentity": "thief"}})
        with pytest.raises(LeadershipLost):
            await leading
        assert not first.working
        assert holder(server) == "thief"

    run(scenario)


def test_lease_expiry_is_reported_before_another_can_lead() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        expiries: list[float] = []
        first.elector.on_held = expiries.append
        leading = first.start()
        await asyncio.sleep(10)
        assert clock.now() < expiries[-1] <= clock.now() + 10
        server.is_down = True
        with pytest.raises(LeadershipLost):
            await leading
        *_, last, end = [
            until for until, following in zip(expiries, [*expiries[1:], None], strict=True) if until != following
        ]
        assert end == 0.0
        assert clock.now() == pytest.approx(last, abs=0.1)

    run(scenario)


def test_a_lease_that_is_not_worth_keeping_runs_out() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(5)
        waiting = second.start()
        first.elector.may_renew = lambda: False
        with pytest.raises(LeadershipLost):
            await leading
        await asyncio.sleep(16)
        assert second.working
        await settle(waiting)

    run(scenario)


def test_a_leader_that_was_frozen_does_not_take_the_lease_back() -> None:
    """Its clock went on, but it did not run: as after SIGSTOP, or on a machine that slept."""

    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(5)
        writes = len(server.requests)
        clock.advance(60)
        with pytest.raises(LeadershipLost):
            await leading
        assert len(server.requests) == writes

    run(scenario)


def test_failing_work_releases_the_lease_and_is_reported() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        async def failing() -> None:
            raise ValueError("boom")

        with pytest.raises(ValueError, match="boom"):
            await first.elector.run(failing)
        assert holder(server) == ""

    run(scenario)


def test_changed_lease_of_this_replica_is_kept() -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(10)
        touched = server.stored(LEASES)[KEY]
        server.put(LEASES, {**touched, "metadata": {**touched["metadata"], "labels": {"touched": "yes"}}})
        await asyncio.sleep(30)
        assert first.working
        await settle(leading)

    run(scenario)


TROUBLE = {
    "conflicts": lambda server: server.fail("PUT", 409, times=3),
    "errors": lambda server: server.fail(".*leases", 500, times=3),
    "a server that is busy": lambda server: server.fail(".*leases", 429, retry_after="1", times=3),
    "lost responses": lambda server: server.lose_answer("PUT", times=3),
    "rubbish": lambda server: server.rubbish(".*leases", times=2),
    "invalid text": lambda server: server.rubbish(".*leases", b"\xff", times=2),
    "a server that is slow": lambda server: setattr(server, "pause", 3.0),
}


@pytest.mark.parametrize("spoil", TROUBLE.values(), ids=TROUBLE)
def test_a_leader_leads_on_through(spoil: Any) -> None:
    async def scenario(server: FaultServer, clock: VirtualClock, first: Replica, second: Replica) -> None:
        leading = first.start()
        await asyncio.sleep(10)
        waiting = second.start()
        spoil(server)
        for _ in range(120):
            await asyncio.sleep(1)
            assert (first.working, second.working) == (True, False)
        server.pause = 0.0
        await settle(leading)
        await settle(waiting)

    run(scenario)


class TestCoordinatedElection:
    """The API server elects: a lease is renewed while it is ours, and never made or taken."""

    def setup_method(self) -> None:
        self.clock = VirtualClock()
        self.election = CoordinatedElection(LeaseSettings("me", version="1.37.0"), self.clock)

    def test_missing_or_foreign_lease_is_not_changed(self) -> None:
        self.election.observe(None)
        assert self.election.bid() is None
        self.election.observe(lease("other"))
        self.clock.advance(100)
        assert self.election.bid() is None
        self.election.observe(lease(""))
        assert self.election.bid() is None

    def test_held_lease_is_renewed_unchanged(self) -> None:
        current = lease("me", duration=5)
        self.election.observe(replace(current, spec=replace(current.spec, strategy="OldestEmulationVersion")))
        bid = self.election.bid()
        assert bid is not None
        assert (bid.spec.acquire_time, bid.spec.lease_transitions, bid.spec.strategy) == (
            "long ago",
            3,
            "OldestEmulationVersion",
        )
        assert (bid.spec.lease_duration_seconds, bid.spec.renew_time != "1") == (15, True)

    def test_observed_lease_holder_is_not_first(self) -> None:
        self.election.observe(lease("me", transitions=0))
        assert not self.election.is_first

    def test_expired_lease_is_not_renewed(self) -> None:
        self.election.observe(lease("me", duration=5))
        self.clock.advance(5)
        assert self.election.bid() is None

    def test_lease_with_another_preferred_holder_is_not_renewed(self) -> None:
        current = lease("me")
        self.election.observe(replace(current, spec=replace(current.spec, preferred_holder="other")))
        assert self.election.bid() is None
