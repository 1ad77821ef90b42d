"""The cache of results by signature: pods with equal signatures share one result.

``sign`` of a plugin returns the properties of the pod that its results depend on. The results (:class:`PluginResult`)
are valid for every pod with an equal signature. The signature of a pod consists of those of all such plugins.
"""

from collections.abc import Hashable, Sequence
from itertools import compress
from operator import methodcaller
from typing import Final, TypeAlias

import structlog

from moorage.common.caches import AdmissionLRU
from moorage.common.clock import Clock
from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.combined_result import CombinedResult, Layout
from moorage.scheduler.engine.cached_results.plugin_result import CachingPlugin, PluginResult
from moorage.scheduler.engine.extension_points import EPOCH, SIGN, Point, call_each, failure, wrong_result
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.statuses import StatusTable
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.scheduler.framework.plugin import DependsOn, Plugin
from moorage.scheduler.state.cache import Cache

MEMORY_BUDGET: Final = 64 * 1024 * 1024
BYTES_PER_ROW: Final = 48
"""The memory of a result with its own parts: verdicts, scores and totals."""
MIN_RESULTS: Final = 4
MAX_RESULTS: Final = 1024
MAX_STATUSES: Final = 10_000
MANY_NODES: Final = 500
"""From this number of nodes on, plugins that are called for each pod and node are reported."""
MAX_RENEWALS: Final = 100
"""The number of consecutive pods with another epoch after which a plugin is reported."""
_EPOCH: Final = methodcaller("epoch")

log = structlog.get_logger(__name__)

Signature: TypeAlias = tuple[Hashable, ...]


class ResultCache:
    """The cached results of a profile. A result is kept from its second use on. The least recently used go first."""

    def __init__(self, profile: Profile, cache: Cache, clock: Clock) -> None:
        self._profile = profile
        self._cache = cache
        self._clock = clock
        signers = [p for p in profile.node_plugins if p.depends_on < DependsOn.CLUSTER and _overrides(p, "sign")]
        self._template_signers = tuple(plugin for plugin in signers if plugin._signs_template)
        self._pod_signers = tuple(plugin for plugin in signers if not plugin._signs_template)
        self._signers = self._template_signers + self._pod_signers
        self._caching = tuple(CachingPlugin.make(plugin, profile, cache.columns) for plugin in self._signers)
        self._signing = object()
        """Identifies the current signatures of pod shapes; replaced when they may have changed."""
        self._with_epoch = tuple(p for p in self._signers if _overrides(p, "epoch"))
        self._expiring = tuple((p, p.valid_for) for p in self._signers if p.valid_for is not None)
        self._epochs: tuple[Hashable, ...] = ()
        """The epochs of the plugins, then the current periods of those whose results expire."""
        self._renewals: dict[str, int] = {}
        """The number of consecutive pods for which the epoch of a plugin changed."""
        self._reported: set[str] = set()
        self._structure = -1
        self._layouts: dict[tuple[bool, ...], Layout] = {}
        caching = {plugin.name for plugin in self._signers}
        self._slow = [name for name in profile.per_node_plugins() if name not in caching]
        self._reset()

    def _reset(self) -> None:
        if self._slow and self._cache.columns.count >= MANY_NODES:
            slow, self._slow = ", ".join(self._slow), []
            hint = "declare sign() and depends_on, or define filter_nodes or score_nodes"
            log.warning("plugins are called for each pod and node, which is slow", plugins=slow, hint=hint)
        affordable = MEMORY_BUDGET // (BYTES_PER_ROW * max(1, self._cache.columns.count))
        limit = max(MIN_RESULTS, min(MAX_RESULTS, affordable))
        self._table = StatusTable()
        self._results: AdmissionLRU[Signature, CombinedResult] = AdmissionLRU("results by signature", limit)
        self._parts: dict[str, AdmissionLRU[Hashable, PluginResult]] = {
            plugin.name: AdmissionLRU(f"{plugin.name} results", limit) for plugin in self._signers
        }
        self._forget_latest()

    def _forget_latest(self) -> None:
        self._latest: Sequence[tuple[CachingPlugin, Hashable, PluginResult | None]]
        self._latest = [(caching, None, None) for caching in self._caching]
        """The signatures and parts of the latest new result: the next one shares most parts."""

    def __len__(self) -> int:
        return len(self._results)

    def find(self, pod: Pod) -> CombinedResult:
        """Return the result for pods with this signature, not yet up to date."""
        self._drop_invalid()
        signature = self._sign(pod)
        try:
            result = self._results.find(signature)
            return self._make_result(signature) if result is None else result
        except PLUGIN_FAULTS as error:
            for plugin, sign in zip(self._signers, signature, strict=True):
                if not _is_hashable(sign):
                    raise wrong_result(SIGN, plugin, sign) from error
            raise self._reset_after(SIGN, error) from error

    def _reset_after(self, point: Point, error: BaseException) -> PluginError:
        """Return the error for signatures or epochs that raise when they are compared."""
        pass_on_interrupt(error)
        self._reset()
        names = ", ".join(plugin.name for plugin in self._pod_signers)
        return failure(point, names, f"{described(error)}: return strings, numbers, or tuples")

    def _sign(self, pod: Pod) -> Signature:
        signature: Signature
        signing, signature = pod.shape.signed
        if signing is not self._signing or pod.node_name:
            signature = call_each(SIGN, self._template_signers, methodcaller("sign", pod))
            if not pod.node_name:
                pod.shape.signed = (self._signing, signature)
        if self._pod_signers:
            return signature + call_each(SIGN, self._pod_signers, methodcaller("sign", pod))
        return signature

    def _drop_invalid(self) -> None:
        """Reset when rows belong to other nodes, or something outside pods and rows has changed."""
        try:
            epochs = call_each(EPOCH, self._with_epoch, _EPOCH)
        except PluginError:
            self._reset()
            raise
        if self._expiring:
            now = self._clock.now()
            epochs += tuple(now // seconds for _, seconds in self._expiring)
        if self._structure != self._cache.structure or len(self._table) > MAX_STATUSES:
            self._reset()
            self._structure, self._epochs = self._cache.structure, epochs
            return
        try:
            if epochs == self._epochs:
                if self._renewals:
                    self._renewals = {}
                return
            is_changed = [before != epoch for before, epoch in zip(self._epochs, epochs, strict=True)]
        except PLUGIN_FAULTS as error:
            raise self._reset_after(EPOCH, error) from error
        self._results.clear()
        self._forget_latest()
        self._signing, self._epochs = object(), epochs
        for plugin in compress((*self._with_epoch, *(plugin for plugin, _ in self._expiring)), is_changed):
            self._parts[plugin.name].clear()
        renewed = [plugin.name for plugin in compress(self._with_epoch, is_changed)]
        self._renewals = {name: self._renewals.get(name, 0) + 1 for name in renewed}
        for name, count in self._renewals.items():
            if count >= MAX_RENEWALS and name not in self._reported:
                self._reported.add(name)
                hint = "call handle.invalidate(node_name) for the nodes that changed, and keep epoch() constant"
                log.warning("epoch() changes for each pod, so that no result is cached", plugin=name, hint=hint)

    def _make_result(self, signature: Signature) -> CombinedResult:
        self._latest = latest = [
            (caching, sign, part if sign == before else self._find_part(caching, sign))
            for (caching, before, part), sign in zip(self._latest, signature, strict=True)
        ]
        parts = [part for _, _, part in latest if part is not None]
        is_cached = tuple([sign is not None for sign in signature])
        layout = self._layouts.get(is_cached)
        if layout is None:
            caching = [plugin for plugin, caches in zip(self._signers, is_cached, strict=True) if caches]
            layout = self._layouts[is_cached] = Layout(self._profile, caching, self._cache.columns)
        result = CombinedResult(layout, parts, self._cache.columns, self._table)
        self._results.put(signature, result)
        return result

    def _find_part(self, caching: CachingPlugin, sign: Hashable) -> PluginResult | None:
        """Return the cached result of a plugin, or a new one, or ``None`` if it opts out for the pod."""
        if sign is None:
            return None
        results = self._parts[caching.plugin.name]
        part = results.find(sign)
        if part is None:
            part = PluginResult(caching, self._table)
            results.put(sign, part)
        return part


def _is_hashable(sign: object) -> bool:
    try:
        hash(sign)
    except PLUGIN_FAULTS as error:
        pass_on_interrupt(error)
        return False
    return True


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
