"""Other configurations and other plugin code for a daemon that runs: taken up or refused, and said either way."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec.structs import replace

from moorage.kube.client.event_note import EventNote
from moorage.scheduler.config import completed_view
from moorage.scheduler.daemon.assembly import DaemonParts
from moorage.scheduler.daemon.following import FileFollower
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import Options, complete_options
from moorage.scheduler.daemon.supervisor.supervisor_client import KeeperClient
from moorage.scheduler.wiring.policy import with_fixed
from moorage.scheduler.wiring.reloading import reload

TOTAL: Final = "moorage_config_reloads_total"
SUCCESSFUL: Final = "moorage_config_last_reload_successful"
TIMESTAMP: Final = "moorage_config_last_reload_success_timestamp_seconds"
INFO: Final = "moorage_config_info"

TURN_SECONDS: Final = 0.0002
"""How long the thread that reads another configuration runs before a cycle may go on."""

log = structlog.get_logger(__name__)


class Reloads:
    """Follows --config and the files of --plugin. ``options`` are those in force."""

    def __init__(self, options: Options, parts: DaemonParts, registry: CellRegistry, keeper: KeeperClient) -> None:
        self.options = options
        self.in_force: list[Callable[[], None]] = []
        """Called when other options are in force."""
        self._parts = parts
        self._registry = registry
        self._keeper = keeper
        self._hash = config_hash(options)
        registry[INFO].read_from(lambda: [((self._hash,), 1.0)])
        self._succeeded()

    def follower(self) -> FileFollower:
        """Return what looks at the files; from now on it knows what they hold."""
        flags = self.options.flags
        return FileFollower(Path(flags["config"]) if flags["config"] else None, flags["plugin"], self._take_up, self)

    async def _take_up(self) -> list[str]:
        with taking_turns():
            loaded = await asyncio.to_thread(complete_options, self.options.flags)
        policy, fixed = with_fixed(loaded.policy, self.options.config)
        await reload(self._parts, policy)
        self.options = replace(self.options, config=policy.config, registry=policy.registry)
        self._hash = config_hash(self.options)
        for told in self.in_force:
            told()
        return fixed

    def taken(self, fixed: list[str]) -> None:
        """Say that a change is in force."""
        self._registry.count(TOTAL, "success")
        self._succeeded()
        note = f"the configuration in force is {self._hash}"
        if fixed:
            note += f"; {', '.join(fixed)} cannot change while the scheduler runs: restart it for that"
            log.warning("part of the configuration takes a restart", fields=", ".join(fixed))
        log.info("configuration reloaded", hash=self._hash)
        self._record("ConfigurationReloaded", note, is_warning=bool(fixed))

    def refused(self, problem: str) -> None:
        """Say why a change was refused."""
        self._registry.count(TOTAL, "refused")
        self._registry[SUCCESSFUL].number().set(0)
        log.error("configuration refused, the former one goes on", err=problem)
        self._record("ConfigurationRefused", f"the former configuration goes on: {problem}", is_warning=True)

    def _succeeded(self) -> None:
        self._registry[SUCCESSFUL].number().set(1)
        self._registry[TIMESTAMP].number().set(self._parts.scheduler.services.clock.wall())

    def _record(self, reason: str, note: str, *, is_warning: bool) -> None:
        """Record an event on the lease, by whoever holds it: nobody else may write."""
        lease = self._keeper.lease
        if lease is not None and self._keeper.page.is_held():
            component = self.options.config.profiles[0].scheduler_name or ""
            self._keeper.record(EventNote(lease, reason, "Reloading", note, component, is_warning))


@contextmanager
def taking_turns() -> Iterator[None]:
    """Have cycles go on while a thread reads files and imports plugins, which takes longer than a cycle.

    Only one thread of Python runs at a time, and by default each may for 5 ms while others wait.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def config_hash(options: Options) -> str:
    """Return a short name for a configuration: the same settings have the same, in whatever order they are written."""
    text = msgspec.json.encode(completed_view(options.config), order="deterministic")
    import hashlib

    return hashlib.sha256(text).hexdigest()[:12]
