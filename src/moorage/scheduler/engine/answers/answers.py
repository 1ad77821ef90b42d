"""Finding the standing answer for a pod: pods whose signatures are all equal share one.

A plugin that says with ``sign`` what of the pod it goes by keeps what it found out (:class:`PluginAnswer`) for every
pod that signs the same. The signatures of all such plugins together are the pod's, and lead to their combination.
"""

from collections.abc import Hashable, Sequence
from operator import methodcaller
from typing import Final, TypeAlias

from moorage.common.caches import AdmissionLRU
from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.answers.layout import Layout
from moorage.scheduler.engine.answers.plugin_answer import KeepingPlugin, PluginAnswer, keeper_of
from moorage.scheduler.engine.answers.standing import StandingAnswer
from moorage.scheduler.engine.extension_points import EPOCH, SIGN, Point, ask, ask_each, failure
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.statuses import StatusTable
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.scheduler.framework.plugin import DependsOn, Plugin
from moorage.scheduler.state.cache import Cache

MEMORY_BUDGET: Final = 64 * 1024 * 1024
BYTES_PER_ROW: Final = 48
"""What an answer takes with the parts that only it has: verdicts, scores and totals."""
MIN_ANSWERS: Final = 4
MAX_ANSWERS: Final = 1024
MAX_STATUSES: Final = 10_000
_EPOCH: Final = methodcaller("epoch")

Signature: TypeAlias = tuple[Hashable, ...]


class Answers:
    """The standing answers of one profile; those asked for again are kept, the least recently used are dropped."""

    def __init__(self, profile: Profile, cache: Cache) -> None:
        self._profile = profile
        self._cache = cache
        signers = [p for p in profile.node_plugins if p.depends_on < DependsOn.CLUSTER and _overrides(p, "sign")]
        self._template_signers = tuple(plugin for plugin in signers if plugin._signs_template)
        self._pod_signers = tuple(plugin for plugin in signers if not plugin._signs_template)
        self._signers = self._template_signers + self._pod_signers
        self._keepers = tuple(keeper_of(plugin, profile, cache.columns) for plugin in self._signers)
        self._signing = object()
        """Stands for what the plugins sign of shapes now; there is another one when that may have changed."""
        self._with_epoch = tuple(p for p in self._signers if _overrides(p, "epoch"))
        self._epochs: tuple[Hashable, ...] = ()
        self._structure = -1
        self._layouts: dict[tuple[bool, ...], Layout] = {}
        self._reset()

    def _reset(self) -> None:
        affordable = MEMORY_BUDGET // (BYTES_PER_ROW * max(1, self._cache.columns.count))
        limit = max(MIN_ANSWERS, min(MAX_ANSWERS, affordable))
        self._table = StatusTable()
        self._answers: AdmissionLRU[Signature, StandingAnswer] = AdmissionLRU("results by signature", limit)
        self._parts: dict[str, AdmissionLRU[Hashable, PluginAnswer]] = {
            p.name: AdmissionLRU(f"{p.name} results", limit) for p in self._signers
        }
        self._forget_latest()

    def _forget_latest(self) -> None:
        self._latest: Sequence[tuple[KeepingPlugin, Hashable, PluginAnswer | None]]
        self._latest = [(keeper, None, None) for keeper in self._keepers]
        """The signatures and parts of the answer that was made last: most of the next one's are the same."""

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, pod: Pod) -> StandingAnswer:
        """Return what stands for pods like this one, not yet brought up to date."""
        self._drop_what_no_longer_holds()
        signature = self._signature(pod)
        try:
            answer = self._answers.find(signature)
            return self._new(signature) if answer is None else answer
        except PLUGIN_FAULTS as error:
            for plugin, sign in zip(self._signers, signature, strict=True):
                ask(SIGN, plugin, hash, sign)
            raise self._incomparable(SIGN, error) from error

    def _incomparable(self, point: Point, error: BaseException) -> PluginError:
        """Blame those who are not ours for signatures or epochs that raise when they are compared."""
        pass_on_interrupt(error)
        self._reset()
        names = ", ".join(plugin.name for plugin in self._pod_signers)
        return failure(point, names, f"{described(error)}: answer with texts, numbers, and tuples of them")

    def _signature(self, pod: Pod) -> Signature:
        signed: Signature
        asked_by, signed = pod.shape.signed
        if asked_by is not self._signing or pod.node_name:
            signed = ask_each(SIGN, self._template_signers, methodcaller("sign", pod))
            if not pod.node_name:
                pod.shape.signed = (self._signing, signed)
        if self._pod_signers:
            return signed + ask_each(SIGN, self._pod_signers, methodcaller("sign", pod))
        return signed

    def _drop_what_no_longer_holds(self) -> None:
        """Start anew when rows stand for other nodes, or something outside pods and rows has changed."""
        try:
            epochs = ask_each(EPOCH, self._with_epoch, _EPOCH)
        except PluginError:
            self._reset()
            raise
        if self._structure != self._cache.structure or len(self._table) > MAX_STATUSES:
            self._reset()
        else:
            self._drop_by_epoch(epochs)
        self._structure, self._epochs = self._cache.structure, epochs

    def _drop_by_epoch(self, epochs: tuple[Hashable, ...]) -> None:
        try:
            if epochs == self._epochs:
                return
            changed = [
                plugin
                for plugin, before, now in zip(self._with_epoch, self._epochs, epochs, strict=True)
                if before != now
            ]
        except PLUGIN_FAULTS as error:
            raise self._incomparable(EPOCH, error) from error
        self._answers.clear()
        self._forget_latest()
        self._signing = object()
        for plugin in changed:
            self._parts[plugin.name].clear()

    def _new(self, signature: Signature) -> StandingAnswer:
        self._latest = latest = [
            (keeper, sign, part if sign == before else self._part(keeper, sign))
            for (keeper, before, part), sign in zip(self._latest, signature, strict=True)
        ]
        parts = [part for _, _, part in latest if part is not None]
        answer = StandingAnswer(self._layout(signature), parts, self._cache.columns, self._table)
        self._answers.put(signature, answer)
        return answer

    def _part(self, keeper: KeepingPlugin, sign: Hashable) -> PluginAnswer | None:
        """Return what stands of one plugin, a new one if nothing does; ``None`` if it keeps no answer for the pod."""
        if sign is None:
            return None
        known = self._parts[keeper.plugin.name]
        part = known.find(sign)
        if part is None:
            part = PluginAnswer(keeper, self._table)
            known.put(sign, part)
        return part

    def _layout(self, signature: Signature) -> Layout:
        kept = tuple([sign is not None for sign in signature])
        layout = self._layouts.get(kept)
        if layout is None:
            keeping = [plugin for plugin, keeps in zip(self._signers, kept, strict=True) if keeps]
            layout = self._layouts[kept] = Layout(self._profile, keeping)
        return layout


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
