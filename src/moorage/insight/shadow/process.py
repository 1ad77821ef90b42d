"""The shadow's process: messages of the scheduler on standard input, comparisons on standard output."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from moorage.cluster import DryRunApi, searching_all
from moorage.common.clock import SteadyClock
from moorage.common.errors import ConfigError, MoorageError
from moorage.insight.explain.in_scheduler import be_nice
from moorage.insight.shadow.comparing import ShadowCluster
from moorage.insight.shadow.messages import (
    LENGTH,
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
    framed,
)
from moorage.kube.api.kinds import Kind, kind_of
from moorage.kube.api.meta import KubeObject
from moorage.kube.client.informer import Informers
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.scheduler.daemon.forked import die_with
from moorage.scheduler.framework.faults import described
from moorage.scheduler.wiring.loop import Apply
from moorage.scheduler.wiring.parts import assemble, kinds_of
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

_OOM_SCORE: Final = 1000

log = structlog.get_logger(__name__)


def main() -> int:
    """Compare until there is nothing more to compare."""
    _be_the_first_to_go()
    # Plugins may print: that must not get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(answer: Answer) -> None:
        answers.write(framed(answer))
        answers.flush()

    async def work() -> int:
        return await Shadowing(say).run()

    return asyncio.run(work())


class Shadowing:
    """Reads and answers, on one loop with what plugins do in the background."""

    def __init__(self, say: Callable[[Answer], None]) -> None:
        self._say = say
        self._reader = asyncio.StreamReader()
        self._client: ApiClient | None = None
        self._informing: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Set up, then answer until the scheduler is gone; 1 if there is nothing to set up."""
        protocol = asyncio.StreamReaderProtocol(self._reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        try:
            setup = msgspec.json.decode(await self._frame(), type=ShadowSetup)
            die_with(setup.parent)
            cluster = await self._assembled(setup)
        except asyncio.IncompleteReadError:
            return 0
        except Exception as error:  # whatever a plugin of the shadow raises: the scheduler says it in its log
            self._say(ShadowBroken(str(error) if isinstance(error, MoorageError) else described(error)))
            return 1
        self._say(ShadowReady())
        decoder = msgspec.msgpack.Decoder(Message)
        try:
            while True:
                self._answer(cluster, decoder.decode(await self._frame()))
        except asyncio.IncompleteReadError:
            return 0

    def _answer(self, cluster: ShadowCluster, message: Message) -> None:
        if isinstance(message, Question):
            compared = cluster.compare(message)
            self._say(compared or _unknown(message))
            return
        cluster.take(message)
        if isinstance(message, Whole):
            self._say(ShadowWhole())

    async def _frame(self) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(LENGTH), "big")
        return await self._reader.readexactly(length)

    async def _assembled(self, setup: ShadowSetup) -> ShadowCluster:
        request = setup.in_charge
        gates = FeatureGates(request.gates, release=request.release)
        theirs = load_policy(
            collect_plugins(paths=request.plugins), msgspec.json.encode(request.config).decode(), features=gates
        )
        ours = read_shadow(setup, gates)
        parts = assemble(Policy(searching_all(ours.config), ours.registry, gates), DryRunApi(), SteadyClock())
        in_charge = parts.scheduler.build_profiles(theirs.config, theirs.registry)
        followed = set(setup.kinds)
        others = [kind for kind in kinds_of(parts.scheduler.objects) if _name(kind) not in followed]
        if others:
            await self._follow(others, parts.scheduler.handlers.apply, request.kubeconfig, request.master)
        await parts.scheduler.life.start()
        await in_charge.life.start()
        return ShadowCluster(parts, in_charge)

    async def _follow(self, kinds: list[type[KubeObject]], apply: Apply, kubeconfig: str, master: str) -> None:
        """Read what only the shadow's plugins list from the API itself."""
        self._client = ApiClient(load_connection(kubeconfig, master))

        def on_changes(_kind: Kind, changes: Sequence[Change[Any]]) -> None:
            for change in changes:
                apply(change.before, change.after, is_final=change.is_final)

        informers = Informers(self._client, kinds, on_changes)
        self._informing = asyncio.get_running_loop().create_task(informers.run())
        await informers.synced()


def _be_the_first_to_go() -> None:
    """Leave the machine to the scheduler: its time, and its memory."""
    be_nice()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))


def read_shadow(setup: ShadowSetup, gates: FeatureGates) -> Policy:
    """Read the shadow's configuration; ConfigError if it has extenders: they would be asked twice about every pod."""
    registry = collect_plugins(paths=setup.plugins or setup.in_charge.plugins)
    policy = load_policy(registry, Path(setup.file), features=gates)
    if policy.config.extenders:
        hint = "leave them out of the shadow's configuration"
        raise ConfigError("extenders", "a shadow asks no extenders", hint=hint)
    return policy


def _name(kind: type[KubeObject]) -> str:
    return kind_of(kind).full_name


def _unknown(question: Question) -> Comparison:
    message = "the shadow does not know the pod, or has no such profile"
    return Comparison(question.number, question.time, question.key, "", UNSURE, question.node, message=message)


if __name__ == "__main__":
    sys.exit(main())
