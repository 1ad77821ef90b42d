"""The child process of the shadow: both configurations decide on one cluster, and it sends their comparisons."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import structlog

from moorage.cluster import DiscardingApi, OfflineScheduler, search_all_nodes
from moorage.common.child_process import ParentChannel, lower_priority, read_frame
from moorage.common.clock import SteadyClock
from moorage.common.errors import CacheError, ConfigError, MoorageError
from moorage.insight.shadow.messages import (
    AGREES,
    DIFFERS,
    ERROR,
    UNSURE,
    Assumed,
    Comparison,
    DecisionRequest,
    Forgotten,
    InitialObjectsSent,
    Message,
    ObjectState,
    Removed,
    ShadowBroken,
    ShadowMessage,
    ShadowSetup,
    ShadowSynced,
)
from moorage.kube.api.kinds import BY_TYPE, Kind, find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import Informers
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.scheduler.decisions.decision import NodeEntry, PluginScore
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import NoNode, OneNode, SearchResult
from moorage.scheduler.engine.extension_points import usable_holds
from moorage.scheduler.engine.observing import Apply
from moorage.scheduler.engine.profiles import Profiles
from moorage.scheduler.engine.reference import Scores, score_all
from moorage.scheduler.framework.faults import described
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy


class Opinion(NamedTuple):
    """The decision of a configuration about a pod: its node, and its verdicts on some nodes."""

    found: SearchResult
    node: str
    scores: Scores | None
    names: list[str]

    def entry(self, name: str) -> NodeEntry:
        """Return the verdict on a node."""
        if name in self.names:
            if self.scores is None:
                return NodeEntry()
            index = self.names.index(name)
            scores = {
                item.plugin: PluginScore(
                    int(item.raw[index]), int(item.normalized[index]), int(item.weight * item.normalized[index])
                )
                for item in self.scores.by_plugin
            }
            return NodeEntry(total=int(self.scores.totals[index]), scores=scores)
        diagnosis = self.found.diagnosis
        status = diagnosis.pre_filter or diagnosis.statuses[name]
        return NodeEntry(plugin=status.plugin, code=status.code.label, reasons=status.reasons)

    def is_best(self, name: str) -> bool:
        """Return whether no node is better than this node."""
        if name not in self.names:
            return False
        return self.scores is None or bool(self.scores.totals[self.names.index(name)] == self.scores.totals.max())


def form_opinion(runner: ProfileRunner, pod: Pod) -> Opinion:
    """Decide on a pod with a configuration, and return the scores of all feasible nodes."""
    result = runner.find(pod)
    if isinstance(result, NoNode):
        return Opinion(result, "", None, [])
    if isinstance(result, OneNode):
        return Opinion(result, result.node.name, None, [result.node.name])
    window = runner.cache.nodes.take(np.flatnonzero(result.feasible))
    scores = score_all(runner.profile, result.cycle.clone(), pod, window)
    names = list(window.names)
    return Opinion(result, names[int(scores.totals.argmax())], scores, names)


class ShadowCluster:
    """A copy of the scheduler's cluster. Both configurations decide on it, and neither writes.

    ``offline`` is the shadow's own scheduler. ``in_charge`` are the profiles of the other one, on the same cache.
    """

    def __init__(self, offline: OfflineScheduler[DiscardingApi], in_charge: Profiles) -> None:
        self._scheduler = offline.scheduler
        self._in_charge = in_charge
        self._is_limited = any(
            in_charge.config.find_percentage(profile) is not None for profile in in_charge.config.profiles
        )
        self._pods = self._scheduler.objects[Pod]
        self._kinds: dict[str, tuple[type[KubeObject], msgspec.json.Decoder[KubeObject]]] = {
            BY_TYPE[kind].full_name: (kind, msgspec.json.Decoder(kind)) for kind in offline.kinds
        }

    def take(self, message: ObjectState | Removed | Assumed | Forgotten | InitialObjectsSent) -> None:
        """Apply a change. An object that cannot be applied is skipped."""
        objects, apply = self._scheduler.objects, self._scheduler.handlers.apply
        try:
            match message:
                case ObjectState(name, content) if name in self._kinds:
                    kind, decoder = self._kinds[name]
                    after = decoder.decode(content)
                    apply(objects[kind].find(after.key), after)
                case Removed(name, key, is_final) if name in self._kinds:
                    before = objects[self._kinds[name][0]].find(key)
                    if before is not None:
                        apply(before, None, is_final=is_final)
                case Assumed(key, node):
                    self._assume(key, node)
                case Forgotten(key):
                    self._forget(key)
                case InitialObjectsSent(assumed):
                    for key, node in assumed:
                        self._assume(key, node)
        except (CacheError, msgspec.MsgspecError) as error:
            log.info("the shadow cannot apply a change", v=4, error=str(error))

    def _assume(self, key: str, node: str) -> None:
        pod = self._pods.find(key)
        if pod is not None and not pod.node_name and self._scheduler.cache.pod(pod.uid) is None:
            self._scheduler.cache.assume(pod.on_node(node))
            self._scheduler.queue.end_nomination(pod, placed_on=node)

    def _forget(self, key: str) -> None:
        pod = self._pods.find(key)
        cached_pod = None if pod is None else self._scheduler.cache.pod(pod.uid)
        if cached_pod is not None and self._scheduler.cache.is_assumed(cached_pod):
            self._scheduler.cache.forget(cached_pod)

    def compare(self, request: DecisionRequest) -> Comparison | None:
        """Return the shadow's decision, or ``None`` if it has no such pod or no such profile."""
        pod = self._pods.find(request.key)
        shadow_runner = None if pod is None else self._scheduler.runners.get(pod.scheduler_name)
        active_runner = None if pod is None else self._in_charge.runners.get(pod.scheduler_name)
        if (
            pod is None
            or shadow_runner is None
            or active_runner is None
            or self._scheduler.cache.pod(pod.uid) is not None
        ):
            return None
        comparison = Comparison(
            request.number, request.time, pod.key, pod.scheduler_name, AGREES, request.node, request.node
        )
        try:
            with self._apply_holds(self._scheduler.profiles, pod):
                result = shadow_runner.find(pod)
                choice = "" if isinstance(result, NoNode) else shadow_runner.choose(result).node.name
                if choice == request.node:
                    return comparison
                shadow = form_opinion(shadow_runner, pod)._replace(node=choice)
        except MoorageError as error:
            return msgspec.structs.replace(comparison, result=ERROR, shadow_node="", message=str(error))
        if request.node and shadow.is_best(request.node):
            return comparison  # equals: the shadow has no preference
        return self._different(comparison, active_runner, pod, shadow)

    def _apply_holds(self, profiles: Profiles, pod: Pod) -> AbstractContextManager[None]:
        """Count only the holds of a configuration, except holds that the pod may use."""
        holds = self._scheduler.services.holds
        usable = usable_holds(profiles.runners[pod.scheduler_name].profile, pod) if holds else ()
        return holds.lifted([*usable, *(hold for hold in holds if hold._owner not in profiles.handles)])

    def _different(self, comparison: Comparison, active_runner: ProfileRunner, pod: Pod, shadow: Opinion) -> Comparison:
        """Find the plugin that caused the difference; unknown if the active configuration now decides otherwise."""
        node, shadow_node = comparison.node, shadow.node
        try:
            with self._apply_holds(self._in_charge, pod):
                in_charge = form_opinion(active_runner, pod)
        except MoorageError as error:
            return msgspec.structs.replace(comparison, result=UNSURE, shadow_node=shadow_node, message=str(error))
        # With sampling, the active configuration may choose any feasible node.
        could_choose = in_charge.is_best(node) or (self._is_limited and node in in_charge.names)
        agrees = could_choose if node else not in_charge.node
        names = [name for name in (node, shadow_node) if name]
        return msgspec.structs.replace(
            comparison,
            result=DIFFERS if agrees else UNSURE,
            shadow_node=shadow_node,
            because=cause(in_charge, shadow, node, shadow_node) if agrees else "",
            message="" if shadow_node else shadow.found.diagnosis.message,
            in_charge={name: in_charge.entry(name) for name in names},
            shadow={name: shadow.entry(name) for name in names},
        )


def cause(in_charge: Opinion, shadow: Opinion, node: str, shadow_node: str) -> str:
    """Return the plugin that caused the difference: it rejects a node, or has the largest change of scores."""
    if node and (verdict := shadow.entry(node)).is_rejected:
        return verdict.plugin
    if shadow_node and (verdict := in_charge.entry(shadow_node)).is_rejected:
        return verdict.plugin

    def leads(opinion: Opinion) -> dict[str, int]:
        """Return by how much each plugin prefers the other node."""
        own_scores, shadow_scores = opinion.entry(node).scores or {}, opinion.entry(shadow_node).scores or {}
        return {
            name: shadow_scores[name].weighted - own_scores[name].weighted
            for name in own_scores
            if name in shadow_scores
        }

    before, after = leads(in_charge), leads(shadow)
    score_changes = {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}
    return max(score_changes, key=lambda name: (score_changes[name], name), default="")


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

    def __init__(self, reader: asyncio.StreamReader, send: Callable[[ShadowMessage], None]) -> None:
        self._reader = reader
        self._send = send
        self._client: ApiClient | None = None
        self._informing: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Set up, then compare until the scheduler ends. Return 1 if the setup fails."""
        try:
            setup = msgspec.msgpack.decode(await read_frame(self._reader), type=ShadowSetup)
            cluster = await self._assemble(setup)
        except asyncio.IncompleteReadError:
            return 0
        except Exception as error:  # plugins may raise anything. The scheduler logs it
            self._send(ShadowBroken(described(error)))
            return 1
        decoder = msgspec.msgpack.Decoder(Message)
        try:
            while True:
                self._handle(cluster, decoder.decode(await read_frame(self._reader)))
        except asyncio.IncompleteReadError:
            return 0

    def _handle(self, cluster: ShadowCluster, message: Message) -> None:
        if isinstance(message, DecisionRequest):
            text = "the shadow has no such pod or profile"
            unknown = Comparison(message.number, message.time, message.key, "", UNSURE, message.node, message=text)
            self._send(cluster.compare(message) or unknown)
            return
        cluster.take(message)
        if isinstance(message, InitialObjectsSent):
            self._send(ShadowSynced())

    async def _assemble(self, setup: ShadowSetup) -> ShadowCluster:
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
    """Load the shadow's configuration. Raise ConfigError if it has extenders: they would be called twice."""
    registry = collect_plugins(paths=setup.plugins or setup.in_charge.plugins)
    policy = load_policy(registry, Path(setup.file), features=gates)
    if policy.config.extenders:
        hint = "remove them from the configuration of the shadow"
        raise ConfigError("extenders", "a shadow does not support extenders", hint=hint)
    return policy


if __name__ == "__main__":
    sys.exit(main())
