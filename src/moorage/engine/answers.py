"""Standing answers: pods that ask the same share what was found out about every node.

Each row-local plugin keeps its verdicts and raw scores per signature of its own (:mod:`plugin_answers`); pods whose
signatures are all equal also share the combination: who is feasible, and the weighted sums. The next pod of the kind
looks again at the rows that changed since, asks the plugins that look at the whole cluster (or have no signature), and
picks the winner.
"""

from collections.abc import Hashable
from operator import methodcaller
from typing import Final, TypeAlias

from moorage.api.pod import Pod
from moorage.api.shape import MAX_SHAPES, Shape
from moorage.engine.boundary import ask, ask_each
from moorage.engine.judgement import Statuses
from moorage.engine.keeping import Keeping
from moorage.engine.layout import Layout
from moorage.engine.plugin_answers import FEW_ROWS, PluginAnswer
from moorage.engine.profile import Profile
from moorage.engine.standing import Answer
from moorage.errors import PluginError
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import Plugin
from moorage.state.cache import Cache

MEMORY_BUDGET: Final = 64 * 1024 * 1024
BYTES_PER_ROW: Final = 48
"""What an answer takes with the parts that only it has: verdicts, scores and totals."""
FEWEST_ANSWERS: Final = 4
MOST_ANSWERS: Final = 1024
MOST_STATUSES: Final = 10_000
_EPOCH: Final = methodcaller("epoch")

Signature: TypeAlias = tuple[Hashable, ...]


class Answers:
    """The standing answers of one profile; kept are those that are asked for again."""

    def __init__(self, profile: Profile, cache: Cache) -> None:
        self._profile = profile
        self._cache = cache
        signers = [p for p in profile.judges if not p.looks_at_cluster and _overrides(p, "sign")]
        self._shape_signers = tuple(plugin for plugin in signers if plugin.signs_shape)
        self._pod_signers = tuple(plugin for plugin in signers if not plugin.signs_shape)
        self._signers = self._shape_signers + self._pod_signers
        self._by_shape: dict[Shape, Signature] = {}
        self._timed = tuple(p for p in self._signers if _overrides(p, "epoch"))
        self._epoch: Hashable = None
        self._structure = -1
        self._layouts: dict[tuple[bool, ...], Layout] = {}
        self._reset()

    def _reset(self) -> None:
        self._statuses = Statuses()
        self._answers: Keeping[Answer] = Keeping()
        self._parts: dict[str, Keeping[PluginAnswer]] = {plugin.name: Keeping() for plugin in self._signers}
        affordable = MEMORY_BUDGET // (BYTES_PER_ROW * max(1, self._cache.columns.count))
        self._most = max(FEWEST_ANSWERS, min(MOST_ANSWERS, affordable))

    def __len__(self) -> int:
        return len(self._answers.kept)

    def for_pod(self, pod: Pod) -> Answer:
        """Return what is known of every row for this pod, brought up to date."""
        self._drop_what_no_longer_holds()
        signature = self._signature(pod)
        nodes, changes = self._cache.nodes, self._cache.columns.changes
        answer = self._find(signature)
        if answer is None:
            answer = self._new(signature, pod, nodes)
            changed = None
        else:
            changed = changes.since(answer.position)
            if changed is not None and len(changed) > FEW_ROWS and len(changed) > len(nodes):
                changed = None
        if changed is None or changed:
            answer.judge(pod, nodes, changed)
        answer.position = changes.position
        return answer

    def unjudged(self, pod: Pod) -> Answer | None:
        """Return the answer that could not be brought up to date, if there is one: all but its verdicts holds."""
        return self._find(self._signature(pod))

    def _signature(self, pod: Pod) -> Signature:
        signed = None if pod.node_name else self._by_shape.get(pod.shape)
        if signed is None:
            signed = ask_each("Sign", self._shape_signers, methodcaller("sign", pod))
            if not pod.node_name:
                self._remember(pod.shape, signed)
        if self._pod_signers:
            return signed + ask_each("Sign", self._pod_signers, methodcaller("sign", pod))
        return signed

    def _remember(self, shape: Shape, signed: Signature) -> None:
        if len(self._by_shape) >= MAX_SHAPES:
            self._by_shape.clear()
        self._by_shape[shape] = signed

    def _find(self, signature: Signature) -> Answer | None:
        try:
            return self._answers.find(signature)
        except TypeError:
            for plugin, sign in zip(self._signers, signature, strict=True):
                ask("Sign", plugin, hash, sign)
            raise

    def _drop_what_no_longer_holds(self) -> None:
        """Start anew when rows stand for other nodes, or something outside pods and rows has changed."""
        try:
            epoch = ask_each("Epoch", self._timed, _EPOCH)
        except PluginError:
            self._reset()
            raise
        if self._structure != self._cache.structure or len(self._statuses) > MOST_STATUSES:
            self._reset()
        elif epoch != self._epoch:
            old = self._epoch if isinstance(self._epoch, tuple) else ()
            gone = {p.name for p, was, now in zip(self._timed, old, epoch, strict=False) if was != now}
            self._answers.clear()
            self._by_shape.clear()
            for name in gone:
                self._parts[name].clear()
        self._structure, self._epoch = self._cache.structure, epoch

    def _new(self, signature: Signature, pod: Pod, nodes: NodeTable) -> Answer:
        parts = []
        for plugin, sign in zip(self._signers, signature, strict=True):
            if sign is not None:
                known = self._parts[plugin.name]
                # Of most plugins the answer is there, so that is not a call of ours.
                part = known.kept.get(sign) or known.find(sign)
                if part is None:
                    part = PluginAnswer(plugin, self._profile, self._cache.columns, self._statuses)
                    part.prepare(pod, nodes)
                    known.add(sign, part, self._most)
                parts.append(part)
        answer = Answer(self._layout(signature), parts, self._cache.columns, self._statuses)
        self._answers.add(signature, answer, self._most)
        return answer

    def _layout(self, signature: Signature) -> Layout:
        kept = tuple([sign is not None for sign in signature])
        layout = self._layouts.get(kept)
        if layout is None:
            keeping = [plugin for plugin, keeps in zip(self._signers, kept, strict=True) if keeps]
            layout = self._layouts[kept] = Layout(self._profile, keeping)
        return layout


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
