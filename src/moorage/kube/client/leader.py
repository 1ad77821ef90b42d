"""Leader election with a lease: one of several replicas is active.

:class:`Election` decides without I/O. :class:`LeaderElector` reads and writes the lease. Clocks of different machines
are never compared: a lease expires when *this* replica has seen no change for its duration. Our own time counts from
the *request* for a renewal: other replicas receive it later, so we stop before they start.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import ApiError, LeadershipLost, NotFound
from moorage.kube.api.meta import ObjectMeta, format_micro_time
from moorage.kube.api.records import EventNote, Lease, LeaseSpec
from moorage.kube.client.rest import ApiClient

JITTER: Final = 1.2
RELEASE_SECONDS: Final = 3.0
WATCHDOG_TOLERANCE: Final = 20.0

log = structlog.get_logger(__name__)


class LeaseSettings(Struct, frozen=True):
    """The lease, our identity, and all durations in seconds."""

    identity: str
    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    version: str = ""
    """The version of the candidate if the API server elects; without one, the first replica leads."""

    @property
    def is_coordinated(self) -> bool:
        """Whether the API server chooses the leader."""
        return bool(self.version)


class Election:
    """The observed state of the lease, and the next write."""

    def __init__(self, settings: LeaseSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._observed_spec: LeaseSpec | None = None
        self._seen_at = 0.0
        self._lease: Lease | None = None
        self._asked_at = 0.0
        self.renewed_at = 0.0
        """The time of the last granted request; other replicas wait for at least the lease duration from then."""

    @property
    def leader(self) -> str:
        """The current leader, or empty without one."""
        return (self._observed_spec.holder_identity or "") if self._observed_spec is not None else ""

    @property
    def is_leader(self) -> bool:
        """Whether we hold the lease."""
        return self.leader == self.settings.identity

    @property
    def is_first(self) -> bool:
        """Whether this replica created the lease: no previous leader can have writes in flight."""
        return self.is_leader and self._observed_spec is not None and not self._observed_spec.lease_transitions

    @property
    def lease(self) -> Lease:
        """The lease as the server had it last."""
        return self._with(self._observed_spec or LeaseSpec())

    def observe(self, lease: Lease | None) -> None:
        """Observe the lease of the server, ``None`` without one. Any change restarts its time."""
        spec = lease.spec if lease is not None else None
        # The time of the observation counts, not renewTime: the clocks of replicas may differ.
        if spec != self._observed_spec:
            self._seen_at = self._clock.now()
        self._lease, self._observed_spec = lease, spec

    def bid(self) -> Lease | None:
        """Return the lease to write to acquire or keep it, or ``None`` while another replica holds it."""
        now = self._clock.now()
        last_lease = self._observed_spec or LeaseSpec()
        if (
            last_lease.holder_identity
            and not self.is_leader
            and now < self._seen_at + (last_lease.lease_duration_seconds or 0)
        ):
            return None
        # Before the request is sent: the server may store it long before we receive the response.
        self._asked_at = now
        wall_time = format_micro_time(self._clock.wall())
        transitions = last_lease.lease_transitions or 0
        is_new = self._lease is None
        spec = LeaseSpec(
            holder_identity=self.settings.identity,
            lease_duration_seconds=int(self.settings.lease_duration),
            acquire_time=last_lease.acquire_time if self.is_leader else wall_time,
            renew_time=wall_time,
            lease_transitions=transitions if self.is_leader or is_new else transitions + 1,
        )
        return self._with(spec)

    def written(self, lease: Lease) -> None:
        """Record that our last bid was stored."""
        self.observe(lease)
        self.renewed_at = self._asked_at

    @property
    def expiry(self) -> float:
        """The time after which no write may start, unless the lease is renewed."""
        return self.renewed_at + self.settings.renew_deadline if self.is_leader else 0.0

    def release(self) -> Lease | None:
        """Return the lease to write to give it up, or ``None`` if it is not ours."""
        if not self.is_leader or self._observed_spec is None:
            return None
        wall_time = format_micro_time(self._clock.wall())
        return self._with(
            LeaseSpec(
                holder_identity="",
                # As client-go. The API rejects 0.
                lease_duration_seconds=1,
                acquire_time=wall_time,
                renew_time=wall_time,
                lease_transitions=self._observed_spec.lease_transitions,
                strategy=self._observed_spec.strategy,
            )
        )

    def is_overdue(self, tolerance: float = WATCHDOG_TOLERANCE) -> bool:
        """Return whether our lease is neither renewed nor lost long after its end: the process is stuck."""
        return self.is_leader and self._clock.now() > self.renewed_at + self.settings.lease_duration + tolerance

    def _with(self, spec: LeaseSpec) -> Lease:
        if self._lease is not None:
            return replace(self._lease, spec=spec)
        return Lease(metadata=ObjectMeta(name=self.settings.name, namespace=self.settings.namespace), spec=spec)


class CoordinatedElection(Election):
    """An election that the API server decides: a lease is neither created nor taken, only renewed.

    A leader that must yield to the preferred holder stops renewing.
    """

    @property
    def is_first(self) -> bool:
        """Always False: the lease does not show whether a replica led with another one."""
        return False

    def bid(self) -> Lease | None:
        """Return the lease to write to keep it, or ``None`` if it is not ours, has expired, or must be yielded."""
        last_lease = self._observed_spec
        if last_lease is None or not self.is_leader or last_lease.preferred_holder:
            return None
        now = self._clock.now()
        if now >= self._seen_at + (last_lease.lease_duration_seconds or 0):
            return None
        self._asked_at = now
        renewed = format_micro_time(self._clock.wall())
        return self._with(
            replace(last_lease, renew_time=renewed, lease_duration_seconds=int(self.settings.lease_duration))
        )


@dataclass(slots=True)
class LeaderElector:
    """Runs something while, and only while, we lead."""

    client: ApiClient
    settings: LeaseSettings
    clock: Clock = field(default_factory=SteadyClock)
    record: Callable[[EventNote], None] = lambda _note: None
    component: str = "default-scheduler"
    on_new_leader: Callable[[str], None] = lambda _identity: None
    on_held: Callable[[float], None] = lambda _until: None
    """Called with the time until which the lease is held when it changes; 0 after the loss of the lease."""
    may_renew: Callable[[], bool] = lambda: True
    """Whether to renew the lease, otherwise it expires."""
    chance: Random = field(default_factory=Random)
    election: Election = field(init=False)
    _announced: str = field(init=False, default="")

    def __post_init__(self) -> None:
        kind = CoordinatedElection if self.settings.is_coordinated else Election
        self.election = kind(self.settings, self.clock)

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for the lease, do the work, give the lease back.

        :class:`LeadershipLost` if it could not be renewed in time: the work is cancelled first. Cancelling this cancels
        the work and releases the lease, and another replica can acquire it immediately.
        """
        lock = f"{self.settings.namespace}/{self.settings.name}"
        log.info("Attempting to acquire leader lease...", lock=lock)
        while not await self._try():
            await asyncio.sleep(self.settings.retry_period * (1 + JITTER * self.chance.random()))
        log.info("Successfully acquired lease", lock=lock)
        self._record_change("became leader")
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (renewing, working):
                task.cancel()
            if renewing.done():
                # It is lost: nothing may be begun while the work takes its time to end.
                self.on_held(0.0)
            # The lease is released after the work has ended. Its last writes must not meet those of a new leader.
            results = await asyncio.gather(working, renewing, return_exceptions=True)
            self.on_held(0.0)
            await self._release()
            self._record_change("stopped leading")
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def look(self) -> None:
        """Read the lease without a bid, so that the connection is open for the bid."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self.settings.renew_deadline):
                self.election.observe(await self._read())

    async def _keep(self) -> None:
        """Renew the lease until that fails for too long."""
        while True:
            remaining_seconds = self.election.expiry - self.clock.now()
            await asyncio.sleep(max(0.0, min(self.settings.retry_period, remaining_seconds)))
            if self.may_renew() and await self._try(self.election.expiry):
                continue
            if self.clock.now() >= self.election.expiry:
                raise LeadershipLost("Leaderelection lost")

    async def _try(self, deadline: float | None = None) -> bool:
        """Bid for the lease once. Return whether it is ours now."""
        remaining_seconds = self.settings.renew_deadline if deadline is None else deadline - self.clock.now()
        if remaining_seconds <= 0:
            # For example after the machine slept: a write could take the lease from its new holder.
            return False
        try:
            async with asyncio.timeout(remaining_seconds):
                return await self._bid()
        except TimeoutError:
            log.warning("lease request timed out", lease=self.settings.name)
        except ApiError as error:
            log.warning("cannot write the lease", lease=self.settings.name, error=str(error))
        return False

    async def _bid(self) -> bool:
        # A leader learns from the lease that it must yield, so a coordinated lease is read every time.
        reads = self.settings.is_coordinated or not self.election.is_leader
        is_written = not reads and await self._renew_unseen()
        if not is_written:
            self.election.observe(await self._read())
            bid = self.election.bid()
            if bid is not None:
                write = self.client.update if bid.metadata.resource_version else self.client.create
                self.election.written(await write(bid))
                is_written = True
        leader = self.election.leader
        if leader and leader != self._announced:
            self._announced = leader
            log.info("new leader", leader=leader)
            self.on_new_leader(leader)
        self.on_held(self.election.expiry)
        return is_written and self.election.is_leader

    async def _renew_unseen(self) -> bool:
        """Renew our lease without reading it first; read it after a conflict."""
        bid = self.election.bid()
        assert bid is not None
        try:
            self.election.written(await self.client.update(bid))
        except ApiError as error:
            log.info("the lease changed; reading it again", lease=self.settings.name, error=str(error))
            return False
        return True

    async def _read(self) -> Lease | None:
        with suppress(NotFound):
            return await self.client.get(Lease, self.settings.name, self.settings.namespace)
        return None

    async def _release(self) -> None:
        lease = self.election.release()
        # After the expiry, another replica may lead already: a release would take the lease from it.
        if lease is None or self.clock.now() >= self.election.expiry:
            return
        try:
            async with asyncio.timeout(min(self.settings.renew_deadline, RELEASE_SECONDS)):
                self.election.observe(await self.client.update(lease))
        except (ApiError, TimeoutError) as error:
            log.warning("cannot release the lease", lease=self.settings.name, error=str(error))

    def _record_change(self, action: str) -> None:
        note = f"{self.settings.identity} {action}"
        log.info("leadership changed", note=note)
        self.record(EventNote(self.election.lease, "LeaderElection", "LeaderElection", note, self.component))
