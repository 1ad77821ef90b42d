"""The LeaseCandidate of coordinated leader election: created and renewed for the API server."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from msgspec.structs import replace

from moorage.common.clock import Clock, SteadyClock
from moorage.common.errors import AlreadyExists, ApiError, NotFound
from moorage.common.version import RELEASE
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import ObjectMeta, format_micro_time, parse_time
from moorage.kube.api.records import LeaseCandidate, LeaseCandidateSpec
from moorage.kube.client.informer import Informer
from moorage.kube.client.leader import LeaseSettings
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient

STRATEGY: Final = "OldestEmulationVersion"
RENEW_SECONDS: Final = 300.0
MAX_PAUSE: Final = 30.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Candidacy:
    """Maintains one candidate: creates it if it is missing, renews it periodically and when the API server pings it."""

    client: ApiClient
    settings: LeaseSettings
    clock: Clock = field(default_factory=SteadyClock)
    _candidate: LeaseCandidate | None = None
    _is_pinged: asyncio.Event = field(default_factory=asyncio.Event)
    _informer: Informer[LeaseCandidate] | None = None

    @property
    def is_synced(self) -> bool:
        """Whether the existence of the candidate is known."""
        return self._informer is not None and self._informer.is_synced

    async def run(self) -> None:
        """Maintain the candidate until cancelled."""
        kind = BY_TYPE[LeaseCandidate]
        settings = self.settings
        selector = f"metadata.name={settings.identity}"
        self._informer = Informer(
            self.client, kind, self._on_changes, namespace=settings.namespace, field_selector=selector
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            failures = 0
            while True:
                self._is_pinged.clear()
                failures = 0 if await self._renew() else failures + 1
                pause = min(2.0**failures, MAX_PAUSE) if failures else RENEW_SECONDS
                try:
                    async with asyncio.timeout(pause):
                        await self._is_pinged.wait()
                except TimeoutError:
                    continue

    def _on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            self._candidate = change.after
            # A deleted candidate is recreated.
            if change.after is None or _is_ping_pending(change.after.spec):
                self._is_pinged.set()

    async def _renew(self) -> bool:
        """Create or renew the candidate. Return whether that succeeded."""
        settings = self.settings
        spec = LeaseCandidateSpec(
            lease_name=settings.name,
            renew_time=format_micro_time(self.clock.wall()),
            binary_version=f"{RELEASE}.0",
            emulation_version=settings.version,
            strategy=STRATEGY,
        )
        try:
            current = self._candidate
            if current is None:
                with suppress(NotFound):
                    current = await self.client.get(LeaseCandidate, settings.identity, settings.namespace)
            if current is None:
                meta = ObjectMeta(name=settings.identity, namespace=settings.namespace)
                self._candidate = await self.client.create(LeaseCandidate(metadata=meta, spec=spec))
            else:
                self._candidate = None
                self._candidate = await self.client.update(
                    replace(current, spec=replace(spec, ping_time=current.spec.ping_time))
                )
        except AlreadyExists:
            return False
        except ApiError as error:
            log.warning("cannot write the lease candidate", candidate=settings.identity, error=str(error))
            return False
        return True


def _is_ping_pending(spec: LeaseCandidateSpec) -> bool:
    """Return whether the API server pinged the candidate since the last renewal."""
    if spec.ping_time is None:
        return False
    return spec.renew_time is None or parse_time(spec.ping_time) > parse_time(spec.renew_time)
