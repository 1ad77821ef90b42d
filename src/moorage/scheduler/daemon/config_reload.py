"""Reloads of configuration and plugin code in a running daemon, and reports of their results."""

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog
from msgspec.structs import replace

from moorage.common.daemon_threads import call_in_thread
from moorage.common.errors import InputError, MoorageError, explain
from moorage.common.user_files import read_file
from moorage.kube.api.records import EventNote
from moorage.scheduler.config import completed_view
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import Options, complete_options
from moorage.scheduler.daemon.services import DaemonParts
from moorage.scheduler.daemon.supervisor.supervisor_client import SupervisorClient
from moorage.scheduler.framework.plugin_code import PluginCode
from moorage.scheduler.wiring.policy import keep_fixed_fields
from moorage.scheduler.wiring.reload import reload

TOTAL: Final = "moorage_config_reloads_total"
SUCCESSFUL: Final = "moorage_config_last_reload_successful"
TIMESTAMP: Final = "moorage_config_last_reload_success_timestamp_seconds"
INFO: Final = "moorage_config_info"

TURN_SECONDS: Final = 0.0002
"""Longest time that the thread of a reload runs before a cycle may continue."""

POLL_SECONDS: Final = 1.0
LOAD_SECONDS: Final = 60.0
LOADING: Final = "loading the configuration and plugins"

log = structlog.get_logger(__name__)


class Reloads:
    """Follows --config and the files of --plugin. ``options`` are the active ones."""

    def __init__(
        self, options: Options, parts: DaemonParts, registry: CellRegistry, supervisor: SupervisorClient
    ) -> None:
        self.options = options
        self.in_force: list[Callable[[], None]] = []
        """Called when other options are active."""
        self._parts = parts
        self._registry = registry
        self._supervisor = supervisor
        self._hash = config_hash(options)
        registry[INFO].set_reader(lambda: [((self._hash,), 1.0)])
        self._on_success()

    def follower(self) -> "FileFollower":
        """Return a watcher of the files, initialized with their current content."""
        flags = self.options.flags
        return FileFollower(Path(flags["config"]) if flags["config"] else None, flags["plugin"], self._reload, self)

    async def _reload(self) -> list[str]:
        with frequent_thread_switches():
            flags = self.options.flags
            new_options = await call_in_thread(lambda: complete_options(flags), LOAD_SECONDS, LOADING)
        policy, fixed = keep_fixed_fields(new_options.policy, self.options.config)
        await reload(self._parts, policy)
        self.options = replace(self.options, config=policy.config, registry=policy.registry)
        self._hash = config_hash(self.options)
        for callback in self.in_force:
            callback()
        return fixed

    def reload_succeeded(self, fixed: list[str]) -> None:
        """Report that a change is active."""
        self._registry.count(TOTAL, "success")
        self._on_success()
        note = f"the active configuration is {self._hash}"
        if fixed:
            note += f"; {', '.join(fixed)} cannot change at run time: restart the scheduler"
            log.warning("some configuration changes require a restart", fields=", ".join(fixed))
        log.info("configuration reloaded", hash=self._hash)
        self._record("ConfigurationReloaded", note, is_warning=bool(fixed))

    def reload_failed(self, problem: str) -> None:
        """Report why a change was rejected."""
        self._registry.count(TOTAL, "refused")
        self._registry[SUCCESSFUL].number().set(0)
        log.error("invalid configuration rejected; the previous one stays active", err=problem)
        self._record("ConfigurationRefused", f"the previous configuration stays active: {problem}", is_warning=True)

    def _on_success(self) -> None:
        self._registry[SUCCESSFUL].number().set(1)
        self._registry[TIMESTAMP].number().set(self._parts.scheduler.services.clock.wall())

    def _record(self, reason: str, note: str, *, is_warning: bool) -> None:
        """Record an event on the lease if this process holds it: no other process may write."""
        lease = self._supervisor.lease
        if lease is not None and self._supervisor.state.is_held():
            component = self.options.config.profiles[0].scheduler_name or ""
            self._supervisor.record(EventNote(lease, reason, "Reloading", note, component, is_warning))


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Keep cycles running while a thread reads files and imports plugins, which takes longer than a cycle.

    Only one thread of Python runs at a time, and by default each may for 5 ms while other threads wait.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def config_hash(options: Options) -> str:
    """Return a short name for a configuration, which does not depend on the order of its fields."""
    import hashlib

    text = msgspec.json.encode(completed_view(options.config), order="deterministic")
    return hashlib.sha256(text).hexdigest()[:12]


class FilesFollowed:
    """The last contents of some files. A file that is missing for a moment is treated as unchanged."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        self._files = files
        self._last_contents: dict[Path, tuple[object, str]] = {}
        self._missing: set[Path] = set()
        self.look()

    def look(self) -> list[Path]:
        """Return the files that changed since the last call. New files do not count."""
        import hashlib  # imports OpenSSL, which most runs do not need

        changed_files = []
        for file in self._files():
            previous = self._last_contents.get(file)
            try:
                stat = os.stat(file)
            except OSError:
                # Many editors remove or move a file before they rewrite it.
                if previous is not None and previous[1] and file in self._missing:
                    self._last_contents[file] = None, ""
                    changed_files.append(file)
                self._missing.add(file)
                continue
            self._missing.discard(file)
            stamp = stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
            if previous is not None and previous[0] == stamp:
                continue
            try:
                digest = hashlib.sha256(read_file(file)).hexdigest()
            except InputError:
                digest = ""
            self._last_contents[file] = stamp, digest
            if previous is not None and previous[1] != digest:
                changed_files.append(file)
        return changed_files


class ReloadListener(Protocol):
    """Receives the result of each reload."""

    def reload_succeeded(self, fixed: list[str]) -> None:
        """Report that a change is active. The fields in ``fixed`` cannot change at run time."""
        ...

    def reload_failed(self, problem: str) -> None:
        """Report why a change was rejected."""
        ...


class FileFollower:
    """Applies changes of a configuration file and of plugins' code, one at a time.

    ``apply`` loads and applies both. It returns the parts that cannot change while running, or raises MoorageError.
    """

    def __init__(
        self,
        config: Path | None,
        plugins: Iterable[str],
        apply: Callable[[], Awaitable[list[str]]],
        listener: ReloadListener,
    ) -> None:
        self._config = () if config is None else (config.absolute(),)
        self._code = PluginCode(plugins)
        self._files = FilesFollowed(lambda: (*self._config, *self._code.files()))
        self._apply = apply
        self._listener = listener
        self._requested = asyncio.Event()
        self._is_stale = False
        """Whether the daemon rejected code that differs from the running code."""

    def request_reload(self) -> None:
        """Reload soon, even if no file has changed."""
        self._requested.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._requested.wait()
            changed_files, is_requested = self._files.look(), self._requested.is_set()
            self._requested.clear()
            if changed_files or is_requested:
                self._is_stale = self._is_stale or any(file not in self._config for file in changed_files)
                await self._apply_changes()

    async def _apply_changes(self) -> None:
        try:
            with self._code.imported_again() if self._is_stale else nullcontext():
                fixed = await self._apply()
        except MoorageError as error:
            self._listener.reload_failed(explain(error))
        except Exception as error:  # a failed reload must not stop the scheduler: the current setup remains active
            log.exception("reload failed")
            self._listener.reload_failed(f"internal error: {type(error).__name__}: {error}")
        else:
            self._is_stale = False
            self._listener.reload_succeeded(fixed)
        # Former plugins and rejected configurations are cyclic garbage, 0.2 MiB each. An idle process collects rarely.
        gc.collect()
