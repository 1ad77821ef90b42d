"""The child process of the shadow: it receives the messages of the scheduler and sends comparisons."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from moorage.cluster import DiscardingApi, OfflineScheduler, search_all_nodes
from moorage.common.child_process import ParentChannel, lower_priority, read_frame
from moorage.common.clock import SteadyClock
from moorage.common.errors import ConfigError
from moorage.insight.shadow.comparison import ShadowCluster
from moorage.insight.shadow.messages import (
    UNSURE,
    Answer,
    Comparison,
    Message,
    Question,
    ShadowBroken,
    ShadowReady,
    ShadowSetup,
    ShadowWhole,
    Whole,
)
from moorage.kube.api.kinds import Kind, find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.informer import Informers
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.observing import Apply
from moorage.scheduler.framework.faults import described
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

_OOM_SCORE: Final = 1000

log = structlog.get_logger(__name__)


def main() -> int:
    """Compare until the scheduler closes the channel."""
    lower_priority()
    with suppress(OSError):  # the first candidate of the kernel's OOM killer
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    channel = ParentChannel()

    async def run() -> int:
        return await ShadowWorker(await channel.open_reader(), channel.send).run()

    return asyncio.run(run())


class ShadowWorker:
    """Receives and sends messages on the loop on which plugins run their background work."""

    def __init__(self, reader: asyncio.StreamReader, send: Callable[[Answer], None]) -> None:
        self._reader = reader
        self._send = send
        self._client: ApiClient | None = None
        self._informing: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Set up, then compare until the scheduler ends; return 1 if the setup fails."""
        try:
            setup = msgspec.msgpack.decode(await read_frame(self._reader), type=ShadowSetup)
            cluster = await self._assembled(setup)
        except asyncio.IncompleteReadError:
            return 0
        except Exception as error:  # plugins may raise anything; the scheduler logs it
            self._send(ShadowBroken(described(error)))
            return 1
        self._send(ShadowReady())
        decoder = msgspec.msgpack.Decoder(Message)
        try:
            while True:
                self._answer(cluster, decoder.decode(await read_frame(self._reader)))
        except asyncio.IncompleteReadError:
            return 0

    def _answer(self, cluster: ShadowCluster, message: Message) -> None:
        if isinstance(message, Question):
            text = "the shadow has no such pod or profile"
            unknown = Comparison(message.number, message.time, message.key, "", UNSURE, message.node, message=text)
            self._send(cluster.compare(message) or unknown)
            return
        cluster.take(message)
        if isinstance(message, Whole):
            self._send(ShadowWhole())

    async def _assembled(self, setup: ShadowSetup) -> ShadowCluster:
        request = setup.in_charge
        active_policy = request.load_policy()
        shadow_policy = read_shadow(setup, active_policy.features)
        offline = OfflineScheduler(search_all_nodes(shadow_policy), DiscardingApi(), SteadyClock())
        in_charge = offline.scheduler.build_profiles(active_policy.config, active_policy.registry)
        extra_kinds = [kind for kind in offline.kinds if find_kind(kind).full_name not in setup.kinds]
        if extra_kinds:
            await self._follow(extra_kinds, offline.apply, request.kubeconfig, request.master)
        await offline.start()
        await in_charge.lifecycle.start()
        return ShadowCluster(offline, in_charge)

    async def _follow(self, kinds: list[type[KubeObject]], apply: Apply, kubeconfig: str, master: str) -> None:
        """List kinds from the API that only the shadow's plugins use."""
        self._client = ApiClient(load_connection(kubeconfig, master))

        def on_changes(_kind: Kind, changes: Sequence[Change[Any]]) -> None:
            for change in changes:
                apply(change.before, change.after, is_final=change.is_final)

        informers = Informers(self._client, kinds, on_changes)
        self._informing = asyncio.get_running_loop().create_task(informers.run())
        await informers.synced()


def read_shadow(setup: ShadowSetup, gates: FeatureGates) -> Policy:
    """Load the shadow's configuration; raise ConfigError if it has extenders: they would be called twice."""
    registry = collect_plugins(paths=setup.plugins or setup.in_charge.plugins)
    policy = load_policy(registry, Path(setup.file), features=gates)
    if policy.config.extenders:
        hint = "remove them from the configuration of the shadow"
        raise ConfigError("extenders", "a shadow does not support extenders", hint=hint)
    return policy


if __name__ == "__main__":
    sys.exit(main())
