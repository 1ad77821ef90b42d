"""check_plugin: what every plugin must satisfy, tried on random clusters.

>>> from moorage.scheduler.framework.functions import filter_function
>>> @filter_function("node(s) were not spot capacity")
... def spot_only(pod, node):
...     return node.labels.get("capacity") == "spot"
>>> check_plugin(spot_only, examples=5)
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.contracts import broken_contract
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    NodeNames,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, Code, IntArray, Status, Verdict
from moorage.testing import strategies
from moorage.testing.builders import make_pod
from moorage.testing.rig import Rig

MOST_COPIES = 4
"""Maximum number of copies of a pod in the test of ``how_many``."""
PluginFactory = Callable[[Handle], Plugin]
_REJECTING = (Code.ERROR, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def check_plugin(
    *plugins: type[Plugin] | PluginFactory,
    objects: Sequence[KubeObject] = (),
    features: FeatureGates | None = None,
    clusters: st.SearchStrategy[tuple[KubeObject, ...]] | None = None,
    pods: st.SearchStrategy[Pod] | None = None,
    examples: int = 100,
) -> None:
    """Run plugins on random clusters and pods, and raise AssertionError at the first violated rule.

    The rules: methods accept their arguments; both forms agree, and so does ``how_many``; the status of a row does not
    depend on the table; columns, nodes and pods are not modified; a clone does not change its original; statuses and
    scores are well-formed; equal pods have equal signatures. For a plugin that signs pods: pods with equal signatures
    get equal results, and a result for a node stays valid until a change covered by ``depends_on`` or ``epoch``.

    Pass a plugin class, which is constructed with its default arguments, or a function that constructs a plugin from a
    handle. Several plugins share the clusters, since generating those takes longest. ``objects`` are added to every
    cluster.
    """
    for plugin in plugins:
        broken = broken_contract(plugin) if isinstance(plugin, type) else None
        assert broken is None, f"{broken[0]}: {broken[1]}"
    random_clusters = strategies.clusters() if clusters is None else clusters
    random_pods = strategies.pods("incoming") if pods is None else pods

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(cluster=random_clusters, pod=random_pods, data=st.data())
    def try_out(cluster: tuple[KubeObject, ...], pod: Pod, data: st.DataObject) -> None:
        rig = Rig(*objects, *cluster, features=features)
        rows = data.draw(st.permutations(range(len(rig.nodes))), label="order of rows")
        window = np.array(rows[: data.draw(st.integers(0, len(rows)), label="rows in the window")], dtype=np.int64)
        for plugin in plugins:
            _Trial(_build(plugin, rig), rig, pod, window).run()

    try_out()


def _build(plugin: type[Plugin] | PluginFactory, rig: Rig) -> Plugin:
    if not isinstance(plugin, type):
        return plugin(rig)
    build: Any = plugin
    try:
        args = None if build.Args is None else build.Args()
    except TypeError:
        args = None  # some arguments are required
    offered = {"args": args, "handle": rig}
    built: Plugin = build(**{name: offered[name] for name in inspect.signature(plugin).parameters if name in offered})
    return built


class _Trial:
    """One plugin, one pod, one cluster, and a window on some of its rows."""

    def __init__(self, plugin: Plugin, rig: Rig, pod: Pod, window: IntArray) -> None:
        self.plugin = plugin
        self.rig = rig
        self.pod = pod
        self.window = window

    def run(self) -> None:
        """Check all extension points of the plugin."""
        before = _picture(self.rig.nodes), _encoded(self.rig, self.pod)
        self._check_signature()
        if isinstance(self.plugin, FilterPlugin):
            self._check_filter(self.plugin)
        if isinstance(self.plugin, ScorePlugin):
            self._check_score(self.plugin)
        after = _picture(self.rig.nodes), _encoded(self.rig, self.pod)
        assert after == before, f"{self.plugin.name} changed nodes, pods or columns it may only read"
        if self.plugin.depends_on < DependsOn.CLUSTER and self.plugin.sign(self.pod) is not None:
            self._check_cached_results()

    def _check_signature(self) -> None:
        signature = self.plugin.sign(self.pod)
        hash(signature)
        twin = replace(self.pod, metadata=replace(self.pod.metadata))
        assert self.plugin.sign(twin) == signature, f"{self.plugin.name} signs two equal pods differently"
        hash(self.plugin.epoch())

    def _check_filter(self, plugin: FilterPlugin) -> None:
        cycle, nodes = CycleState(), self.rig.nodes
        if isinstance(plugin, PreFilterPlugin):
            answer = plugin.pre_filter(cycle, self.pod, nodes)
            assert answer is None or isinstance(answer, NodeNames | Status), (
                f"{plugin.name}.pre_filter returned {answer!r}"
            )
            if isinstance(answer, Status):
                assert answer.code in (*_REJECTING, Code.SKIP, Code.PENDING), (
                    f"{plugin.name}.pre_filter returned {answer}"
                )
                return
        statuses = self._verdict(plugin, cycle, nodes)
        one_by_one = [plugin.filter(cycle, self.pod, node) for node in nodes]
        self._agree("filter", "filter_nodes", one_by_one, statuses)
        self._agree(
            "filter of a copied node", "filter", [plugin.filter(cycle, self.pod, n.copy()) for n in nodes], statuses
        )
        in_window = self._verdict(plugin, cycle, nodes.take(self.window))
        self._agree("filter_nodes of a window", "the whole", in_window, [statuses[row] for row in self.window])
        running = np.zeros(len(statuses), dtype=np.bool_)
        running[self.window] = True
        narrowed = self._verdict(plugin, cycle, nodes.among(running))
        for row in self.window:
            self._agree("filter_nodes among candidates", "the whole", [narrowed[row]], [statuses[row]])
        self._check_how_many(plugin, cycle)
        if isinstance(plugin, PreFilterExtensions):
            self._check_what_if(plugin, plugin, cycle, statuses)

    def _check_how_many(self, plugin: FilterPlugin, cycle: CycleState) -> None:
        counts = plugin.how_many(cycle, self.pod, self.rig.nodes)
        if counts is None:
            return
        for node, count in zip(self.rig.nodes, counts.tolist(), strict=True):
            copy, accepted = node.copy(), 0
            while accepted < MOST_COPIES and plugin.filter(cycle, self.pod, copy) is None:
                metadata = replace(self.pod.metadata, uid=f"copy-{accepted}")
                copy.add_pod(replace(self.pod, metadata=metadata).on_node(node.name))
                accepted += 1
            reported = min(max(count, 0), MOST_COPIES)
            text = f"how_many reports that {node.name} takes {reported} such pods, filter accepts {accepted}"
            assert reported == accepted, f"{plugin.name}: {text}"

    def _check_what_if(
        self, plugin: PreFilterExtensions, filtering: FilterPlugin, cycle: CycleState, statuses: list[Status | None]
    ) -> None:
        what_if = cycle.clone()
        for node in self.rig.nodes:
            copy = node.copy()
            for pod in list(copy.pods.values()):
                copy.remove_pod(pod)
                plugin.remove_pod(what_if, self.pod, pod, copy)
        again = [filtering.filter(cycle, self.pod, node) for node in self.rig.nodes]
        self._agree("filter after a what-if on a clone", "before it", again, statuses)

    def _verdict(self, plugin: FilterPlugin, cycle: CycleState, nodes: NodeTable) -> list[Status | None]:
        verdict = plugin.filter_nodes(cycle, self.pod, nodes)
        _check_verdict(plugin.name, verdict, len(nodes))
        return [verdict.status_at(row) for row in range(len(nodes))]

    def _check_score(self, plugin: ScorePlugin) -> None:
        cycle, nodes = CycleState(), self.rig.nodes
        if isinstance(plugin, PreFilterPlugin):
            plugin.pre_filter(cycle, self.pod, nodes)
        if isinstance(plugin, PreScorePlugin):
            status = plugin.pre_score(cycle, self.pod, nodes)
            if status is not None:
                assert status.code in (Code.SKIP, Code.ERROR), f"{plugin.name}.pre_score returned {status}"
                return
        scores = self._scores(plugin, cycle, nodes)
        self._agree("score", "score_nodes", [plugin.score(cycle, self.pod, node) for node in nodes], scores)
        in_window = self._scores(plugin, cycle, nodes.take(self.window))
        self._agree("score_nodes of a window", "the whole", in_window, [scores[row] for row in self.window])
        # Enough rows to avoid shortcuts for small tables.
        often = np.tile(np.arange(len(nodes)), 16)
        self._agree(
            "score_nodes of many rows", "the whole", self._scores(plugin, cycle, nodes.take(often)), scores * 16
        )
        raw = np.array(scores, dtype=np.int64)
        _check_normalized(plugin.name, plugin.normalize_scores(cycle, self.pod, nodes, raw), len(nodes))

    def _scores(self, plugin: ScorePlugin, cycle: CycleState, nodes: NodeTable) -> list[int]:
        scores = plugin.score_nodes(cycle, self.pod, nodes)
        assert isinstance(scores, np.ndarray), (
            f"{plugin.name}.score_nodes returned {type(scores).__name__}, not an array"
        )
        assert scores.dtype == np.int64, f"{plugin.name}.score_nodes returned {scores.dtype}, not int64"
        assert scores.shape == (len(nodes),), (
            f"{plugin.name}.score_nodes returned {scores.shape} for {len(nodes)} nodes"
        )
        plain: list[int] = scores.tolist()
        return plain

    def _agree(
        self, left_name: str, right_name: str, left_results: Sequence[object], right_results: Sequence[object]
    ) -> None:
        for row, (left, right) in enumerate(zip(left_results, right_results, strict=True)):
            assert left == right, f"{self.plugin.name}, row {row}: {left_name} returned {left}, {right_name} {right}"

    def _check_cached_results(self) -> None:
        """Check that results stay valid as long as the plugin declares: rename the pod, then change nodes and pods."""
        self._check_namesake()
        for row in range(min(len(self.rig.nodes), 2)):
            node = self.rig.nodes[row]
            guest = make_pod("guest", node=node.name, requests={"cpu": "1", "memory": "1Gi"}, host_ports=[8123])
            self._check_change(f"a pod on {node.name}", row, DependsOn.NODE, partial(self.rig.add, guest))
            labels = {**guest.labels, "moorage.io/checked": "yes"}
            renamed = replace(guest, metadata=replace(guest.metadata, labels=labels))
            relabel = partial(self.rig.cache.update_pod, renamed)
            self._check_change(f"labels of a pod on {node.name}", row, DependsOn.REQUESTS, relabel)
            metadata = replace(node.node.metadata, labels={**node.labels, "moorage.io/checked": "yes"})
            changed = replace(node.node, metadata=metadata, spec=replace(node.node.spec, unschedulable=True))
            self._check_change(f"node {node.name}", row, None, partial(self.rig.add, changed))

    def _check_namesake(self) -> None:
        labels = {**self.pod.labels, "moorage.io/checked": "yes"}
        metadata = replace(self.pod.metadata, name="namesake", uid="uid-namesake", labels=labels)
        namesake = replace(self.pod, metadata=metadata)
        if self.plugin.sign(namesake) == self.plugin.sign(self.pod):
            is_equal = self._results(namesake) == self._results(self.pod)
            assert is_equal, (
                f"{self.plugin.name} gives two pods the same signature but different results: extend the signature"
            )

    def _check_change(self, subject: str, changed: int, least: DependsOn | None, change: Callable[[], object]) -> None:
        """Change a row; only its own results may change, and only if the plugin depends on the change."""
        epoch, before = self.plugin.epoch(), self._results(self.pod)
        change()
        if self.plugin.epoch() != epoch:
            return
        for row, (old, new) in enumerate(zip(before, self._results(self.pod), strict=True)):
            if row == changed and (least is None or self.plugin.depends_on > least):
                continue
            text = f"{self.plugin.name}, row {row}: {subject} changed, and the result changed from {old} to {new}"
            assert old == new, f"{text}; declare it in depends_on or epoch"

    def _results(self, pod: Pod) -> list[tuple[Status | None, int]]:
        plugin, nodes, cycle = self.plugin, self.rig.nodes, CycleState()
        statuses: list[Status | None] = [None] * len(nodes)
        scores = [0] * len(nodes)
        answer = plugin.pre_filter(cycle, pod, nodes) if isinstance(plugin, PreFilterPlugin) else None
        if isinstance(answer, Status) and answer.code != Code.SKIP:
            return [(answer, 0)] * len(nodes)
        if isinstance(plugin, FilterPlugin) and answer is None:
            statuses = [plugin.filter(cycle, pod, node) for node in nodes]
        prepared = plugin.pre_score(cycle, pod, nodes) if isinstance(plugin, PreScorePlugin) else None
        if isinstance(plugin, ScorePlugin) and prepared is None:
            scores = plugin.score_nodes(cycle, pod, nodes).tolist()
        return list(zip(statuses, scores, strict=True))


def _check_verdict(name: str, verdict: Verdict, size: int) -> None:
    assert isinstance(verdict, Verdict), f"{name}.filter_nodes returned {type(verdict).__name__}, not a Verdict"
    assert verdict.size == size, f"{name}.filter_nodes filtered {verdict.size} of {size} nodes"
    for mask, status in verdict.rejections:
        assert mask.dtype == np.bool_, f"{name}.filter_nodes returned a mask of {mask.dtype}"
        assert mask.shape == (size,), f"{name}.filter_nodes returned a mask of {mask.shape} for {size} nodes"
        assert status.code in _REJECTING, f"{name}.filter_nodes rejected nodes with {status.code.label}"
        assert all(status.reasons), f"{name}.filter_nodes returned an empty reason"
        assert status.reasons, f"{name}.filter_nodes rejected nodes without a reason"


def _check_normalized(name: str, scores: IntArray, size: int) -> None:
    assert scores.shape == (size,), f"{name}.normalize_scores returned {scores.shape} for {size} nodes"
    assert np.issubdtype(scores.dtype, np.integer), f"{name}.normalize_scores returned {scores.dtype}, not integers"
    inside = (scores >= 0) & (scores <= MAX_NODE_SCORE)
    assert inside.all(), f"{name} scored {scores.tolist()}, which is not between 0 and {MAX_NODE_SCORE}"


def _encoded(rig: Rig, pod: Pod) -> list[bytes]:
    """Encode nodes and pods: a plugin could write to their labels, which are plain dicts."""
    pods = (placed_pod for node in rig.nodes for placed_pod in node.pods.values())
    return [msgspec.msgpack.encode(obj) for obj in (pod, *(node.node for node in rig.nodes), *pods)]


def _picture(nodes: NodeTable) -> list[object]:
    """Return everything that a plugin could change by mistake."""
    columns = [nodes.pod_count, nodes.unschedulable, *(c.codes for c in (nodes.taints, nodes.host_ports))]
    for group in (nodes.allocatable, nodes.requested, nodes.nonzero_requested):
        columns += [group[resource] for resource in group]
    rows = [(dict(node.requested), list(node.pods), set(node.used_ports), node.nonzero_cpu) for node in nodes]
    return [column.tolist() for column in columns] + [rows]
