"""`moorage up`: the lifecycle of a local cluster."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog
import yaml
from msgspec.structs import replace

from moorage.cli.up.screen import Screen
from moorage.cli.up.tally import Tally
from moorage.cluster import ApiServer, ClusterOptions, EmbeddedCluster
from moorage.common.background import keep_running
from moorage.common.clock import SystemClock
from moorage.common.daemon_threads import call_in_thread
from moorage.common.errors import InputError
from moorage.common.memory import relax_gc
from moorage.common.signals import stop_on_signals
from moorage.common.user_files import not_writable, private_file, read_text
from moorage.insight import ListenOptions, LiveCluster, PageObserver, PageServer, QuestionProcess, make_explain_request
from moorage.kube.api.documents import read_documents
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import Document
from moorage.scheduler.config import completed_view
from moorage.scheduler.daemon.config_reload import LOAD_SECONDS, LOADING, FileFollower
from moorage.scheduler.framework.metering import NumberCell
from moorage.scheduler.wiring.attempt_log import AttemptLogger
from moorage.scheduler.wiring.policy import Policy

if TYPE_CHECKING:
    from moorage.scheduler.daemon.decision_log.recording import OpenDecisionLog

CONTEXT: Final = "moorage"
LOOPBACK: Final = "127.0.0.1"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of a local cluster. ``seconds=None`` runs it until an interrupt."""

    cluster: ClusterOptions
    manifests: tuple[Document, ...] = ()
    kubeconfig: Path | None = None
    data_dir: Path | None = None
    port: int = 0
    seconds: float | None = None
    page_port: int | None = None
    """Port of the web page; 0 picks a free one, ``None`` serves no page."""
    decision_log: Path | None = None
    config: Path | None = None
    plugins: tuple[str, ...] = ()
    """Import paths of third-party plugins, for the process that evaluates what-if questions."""
    load_policy: Callable[[], Policy] | None = None
    """Loads configuration and plugins after a change of their files; ``None`` disables reloading."""


def run_up(options: UpOptions, screen: Screen) -> int:
    """Run a cluster until it is stopped. Return the exit code."""
    import uvloop

    relax_gc()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Up(options, screen).run())
    return 0


DEFAULT_CLASS: Final = {
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "moorage.io/volumes",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""Claims without a class get volumes of this one, which are as fake as the nodes."""


@dataclass
class Up:
    """A running local cluster."""

    options: UpOptions
    screen: Screen
    _tally: Tally = field(default_factory=Tally)
    _ending: AsyncExitStack = field(default_factory=AsyncExitStack)
    _questions: QuestionProcess | None = None

    async def run(self) -> None:
        """Start all parts, show the state of the cluster, and stop in order."""
        options, stopping = self.options, stop_on_signals()
        async with self._ending as ending:
            try:
                api_server = ApiServer(
                    plain=True, port=options.port, data_dir=options.data_dir, features=options.cluster.features
                )
            except OSError as error:
                raise InputError(str(options.data_dir), f"cannot store data here: {error.strerror}") from error
            server = await ending.enter_async_context(api_server)
            path = ending.enter_context(KubeconfigFile(server.kubeconfig(), options.kubeconfig))
            self.screen.welcome(server.url, path, with_scheduler=options.cluster.policy is not None)
            credentials = FixedCredentials(f"Bearer {server.token}")
            connection = Connection(server.plain_url, "this cluster", credentials=credentials)
            page_observer = PageObserver(SystemClock()) if options.page_port is not None else None
            log = self._open_log()
            recorder = None if log is None else log.observer
            observers = [observer for observer in (AttemptLogger(), page_observer, recorder) if observer]
            embedded = EmbeddedCluster(
                lambda: ApiClient(connection), SystemClock(), options.cluster, (self._tally,), observers
            )
            # Before the controllers start: objects in a data directory are collected immediately.
            embedded.keep_dependents(options.manifests)
            cluster = await ending.enter_async_context(embedded)
            if page_observer is not None:
                await self._serve_page(cluster, path, server.token, page_observer)
            self._follow_files(cluster)
            await _create_default_class(cluster)
            await cluster.apply(options.manifests)
            await self._watch(cluster, stopping)

    def _open_log(self) -> "OpenDecisionLog | None":
        """Open the decision log, if requested. Dropped lines are not counted."""
        path = self.options.decision_log
        if path is None:
            return None
        from moorage.scheduler.daemon.decision_log.recording import LogLimits, OpenDecisionLog

        log = OpenDecisionLog(str(path), LogLimits(), SystemClock(), lambda _metric, *_labels: NumberCell())
        log.start()
        self._ending.callback(log.close)
        return log

    async def _serve_page(self, cluster: EmbeddedCluster, kubeconfig: Path, token: str, observer: PageObserver) -> None:
        """Serve the web page, if there is a scheduler."""
        policy, port = self.options.cluster.policy, self.options.page_port
        if cluster.scheduling is None or policy is None or port is None:
            return
        self._questions = QuestionProcess(make_explain_request(policy, str(kubeconfig), self.options.plugins))
        self._ending.push_async_callback(self._questions.stop)
        scheduler = cluster.scheduling.scheduler
        source = LiveCluster(scheduler, observer, SystemClock(), "this cluster", self._questions.ask)
        self._ending.push_async_callback(source.stop)
        page = PageServer(source, ListenOptions(LOOPBACK, port, (token.encode(),)))
        await page.start()
        self._ending.push_async_callback(page.stop)
        self.screen.page(f"{page.url}#token={token}")

    def _follow_files(self, cluster: EmbeddedCluster) -> None:
        """Reload configuration and plugins when their files change."""
        scheduling, load = cluster.scheduling, self.options.load_policy
        if scheduling is None or load is None:
            return

        async def apply() -> list[str]:
            policy = await call_in_thread(load, LOAD_SECONDS, LOADING)
            fixed = await scheduling.reload(policy)
            if self._questions is not None:
                await self._questions.change(replace(self._questions.request, config=completed_view(policy.config)))
            return fixed

        follower = FileFollower(self.options.config, self.options.plugins, apply, self.screen)
        task = keep_running(follower.run, "following files")

        async def cancel() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._ending.push_async_callback(cancel)

    async def _watch(self, cluster: EmbeddedCluster, stopping: asyncio.Event) -> None:
        """Show the state of the cluster until it is stopped, its time is over, or a part fails."""
        loop = asyncio.get_running_loop()
        end = None if self.options.seconds is None else loop.time() + self.options.seconds
        with self.screen.showing():
            while not stopping.is_set() and (end is None or loop.time() < end):
                self.screen.show(self._tally.summary(cluster.cache, loop.time()))
                if (failure := cluster.failure()) is not None:
                    raise failure
                pause = self.screen.interval if end is None else min(self.screen.interval, end - loop.time())
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(pause, 0.0)):
                        await stopping.wait()
            if (failure := cluster.failure()) is not None:
                raise failure
        self.screen.farewell(self._tally.summary(cluster.cache, loop.time()))


async def _create_default_class(cluster: EmbeddedCluster) -> None:
    """Create the default storage class, unless there are storage classes from an earlier run."""
    path = "/apis/storage.k8s.io/v1/storageclasses"
    if not json.loads(await cluster.client.request("GET", path))["items"]:
        await cluster.client.request("POST", path, json.dumps(DEFAULT_CLASS).encode())


class KubeconfigFile:
    """Writes a kubeconfig, to a temporary file by default, and deletes it at the end of a block."""

    def __init__(self, config: dict[str, Any], path: Path | None) -> None:
        self._config = config
        self._path = path
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Path:
        if self._path is None:
            self._directory = tempfile.TemporaryDirectory(prefix="moorage-")
            path = Path(self._directory.name) / "kubeconfig"
        else:
            path = self._path
            check_overwritable(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with private_file(path) as file:  # it holds a token
                yaml.safe_dump(self._config, file, sort_keys=False, encoding="utf-8")
        except OSError as error:
            raise not_writable(path, error, where="--kubeconfig") from error
        self._file = path
        return path

    def __exit__(self, *_: object) -> None:
        self._file.unlink(missing_ok=True)
        if self._directory is not None:
            self._directory.cleanup()


def check_overwritable(path: Path) -> None:
    """Raise InputError for a kubeconfig of other clusters, which must not be overwritten."""
    if not path.exists():
        return
    try:
        config = next(read_documents(read_text(path), source=str(path)), None)
        contexts = [context["name"] for context in (config or {}).get("contexts") or ()]
    except (InputError, TypeError, KeyError, AttributeError):
        contexts = ["something else"]
    if contexts != [CONTEXT]:
        hint = "choose a new file; kubectl can merge several: KUBECONFIG=file1:file2"
        raise InputError("--kubeconfig", f"{path} exists and contains other clusters", hint=hint)
