"""The child process of the shadow: it receives the messages of the scheduler and sends comparisons."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from moorage.cluster import DiscardingApi, search_all_nodes
from moorage.common.child_process import ParentChannel, lower_priority, read_frame
from moorage.common.clock import SteadyClock
from moorage.common.errors import ConfigError, MoorageError
from moorage.insight.shadow.comparing import ShadowCluster
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
from moorage.kube.api.kinds import Kind, kind_of
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.informer import Informers
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.faults import described
from moorage.scheduler.wiring.assembly import assemble, find_watched_kinds
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy
from moorage.scheduler.wiring.scheduling_loop import Apply

_OOM_SCORE: Final = 1000

log = structlog.get_logger(__name__)


def main() -> int:
    """Compare until the scheduler closes the channel."""
    lower_priority()
    with suppress(OSError):  # the first candidate of the kernel's OOM killer
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    return asyncio.run(_run(ParentChannel()))


async def _run(channel: ParentChannel) -> int:
    return await ShadowWorker(await channel.open_reader(), channel.send).run()


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
            self._send(ShadowBroken(str(error) if isinstance(error, MoorageError) else described(error)))
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
            compared = cluster.compare(message)
            self._send(compared or _unknown(message))
            return
        cluster.take(message)
        if isinstance(message, Whole):
            self._send(ShadowWhole())

    async def _assembled(self, setup: ShadowSetup) -> ShadowCluster:
        request = setup.in_charge
        gates = FeatureGates(request.gates, release=request.release)
        active_policy = load_policy(
            collect_plugins(paths=request.plugins), msgspec.json.encode(request.config).decode(), features=gates
        )
        shadow_policy = read_shadow(setup, gates)
        parts = assemble(search_all_nodes(shadow_policy), DiscardingApi(), SteadyClock())
        in_charge = parts.scheduler.build_profiles(active_policy.config, active_policy.registry)
        followed = set(setup.kinds)
        extra_kinds = [kind for kind in find_watched_kinds(parts.scheduler.objects) if _name(kind) not in followed]
        if extra_kinds:
            await self._follow(extra_kinds, parts.scheduler.handlers.apply, request.kubeconfig, request.master)
        await parts.scheduler.lifecycle.start()
        await in_charge.lifecycle.start()
        return ShadowCluster(parts, in_charge)

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
    """Read the shadow's configuration; ConfigError if it has extenders: they would be called twice about every pod."""
    registry = collect_plugins(paths=setup.plugins or setup.in_charge.plugins)
    policy = load_policy(registry, Path(setup.file), features=gates)
    if policy.config.extenders:
        hint = "remove them from the configuration of the shadow"
        raise ConfigError("extenders", "a shadow does not support extenders", hint=hint)
    return policy


def _name(kind: type[KubeObject]) -> str:
    return kind_of(kind).full_name


def _unknown(question: Question) -> Comparison:
    message = "the shadow has no such pod or profile"
    return Comparison(question.number, question.time, question.key, "", UNSURE, question.node, message=message)


if __name__ == "__main__":
    sys.exit(main())
