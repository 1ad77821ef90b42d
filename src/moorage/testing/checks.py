"""check_plugin: what every plugin must satisfy, tried on random clusters.

>>> from moorage.scheduler.framework.functions import filter_function
>>> @filter_function("node(s) were not spot capacity")
... def spot_only(pod, node):
...     return node.labels.get("capacity") == "spot"
>>> report = check_plugin(spot_only, labels={"capacity": ["spot", "reserved"]}, examples=30)
>>> report.plugins[0].rejected > 0
True
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.contracts import EXTENSION_POINTS, broken_contract
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
AnyObject = TypeVar("AnyObject", bound=KubeObject)
_TIMES = ("", "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
_CHECKED = ("preFilter", "filter", "preScore", "score")
_REJECTING = (Code.ERROR, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def check_plugin(
    *plugins: type[Plugin] | PluginFactory,
    objects: Sequence[KubeObject] = (),
    features: FeatureGates | None = None,
    clusters: st.SearchStrategy[tuple[KubeObject, ...]] | None = None,
    pods: st.SearchStrategy[Pod] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    examples: int = 100,
    require_coverage: bool = True,
) -> "CheckReport":
    """Run plugins on random clusters and pods, and raise AssertionError at the first violated rule.

    The rules: methods accept their arguments. Both forms agree, and so does ``how_many``. The status of a row does not
    depend on the table. Columns, nodes and pods are not modified. A clone does not change its original. Statuses and
    scores are well-formed. Equal pods have equal signatures. For a plugin that signs pods: pods with equal signatures
    get equal results, and a result for a node remains valid until a change covered by ``depends_on`` or ``epoch``.

    Pass a plugin class, which is constructed with its default arguments, or a function that constructs a plugin from a
    handle. Several plugins share the clusters, since generating those takes longest. ``objects`` are added to every
    cluster, and objects of custom resources that a plugin lists with a struct type. ``labels`` are given to nodes and
    pods at random: pass the labels that the plugin reads, with some values.

    The report counts the results. A plugin without matching inputs was not tested: if ``filter`` rejects no node,
    or all scores are equal, the check fails, unless ``require_coverage`` is false.
    """
    for plugin in plugins:
        broken = broken_contract(plugin) if isinstance(plugin, type) else None
        assert broken is None, f"{broken[0]}: {broken[1]}"
    random_clusters = strategies.clusters() if clusters is None else clusters
    random_pods = strategies.pods("incoming") if pods is None else pods
    kinds = list(dict.fromkeys(kind for plugin in plugins for kind in _custom_kinds(plugin, objects, features)))
    values = sorted({value for choices in (labels or {}).values() for value in choices}) or ["a", "b"]
    report = CheckReport([PluginCoverage() for _ in plugins])

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(cluster=random_clusters, pod=random_pods, data=st.data())
    def try_out(cluster: tuple[KubeObject, ...], pod: Pod, data: st.DataObject) -> None:
        if labels:
            (pod,) = data.draw(_add_labels([pod], labels), label="labels of the pod")
            cluster = tuple(data.draw(_add_labels(cluster, labels), label="labels of the cluster"))
        custom = data.draw(_custom_objects(kinds, cluster, values), label="custom resources") if kinds else []
        rig = Rig(*objects, *custom, *cluster, features=features)
        rows = data.draw(st.permutations(range(len(rig.nodes))), label="order of rows")
        window = np.array(rows[: data.draw(st.integers(0, len(rows)), label="rows in the window")], dtype=np.int64)
        for plugin, coverage in zip(plugins, report.plugins, strict=True):
            _Trial(_build(plugin, rig), rig, pod, window, coverage).run()

    try_out()
    for coverage, plugin in zip(report.plugins, plugins, strict=True):
        coverage.describe(_build(plugin, Rig(*objects, features=features)))
        problem = coverage.problem()
        assert not (require_coverage and problem), problem
    return report


class PluginCoverage:
    """The results of a plugin during a check."""

    def __init__(self) -> None:
        self.name = ""
        self.accepted = self.rejected = self.scored = 0
        self.scores: set[int] = set()
        self.filters = self.scores_nodes = False
        self.unchecked: list[str] = []
        """The methods that the check does not call."""

    def describe(self, plugin: Plugin) -> None:
        """Take the name and the extension points of the plugin."""
        self.name = plugin.name
        self.filters, self.scores_nodes = isinstance(plugin, FilterPlugin), isinstance(plugin, ScorePlugin)
        unchecked_bases = [
            base for name, base in EXTENSION_POINTS.items() if name not in _CHECKED and isinstance(plugin, base)
        ]
        self.unchecked = sorted(
            name
            for base in unchecked_bases
            for name in getattr(base, "__abstractmethods__", vars(base))
            if inspect.isfunction(getattr(base, name, None)) and name[0] != "_"
        )

    def problem(self) -> str:
        """Return why the plugin was not tested, with a hint, or an empty text if it was."""
        inputs = 'pass what it reads: labels={"key": ["a", "b"]}, objects=…, pods=… or clusters=…'
        if not self.filters and not self.scores_nodes:
            return f"{self.name} has neither filter nor score: test it with moorage.testing.Cluster instead"
        if self.filters and not self.rejected:
            reached = f"accepted all {self.accepted} nodes" if self.accepted else "was never called"
            return f"{self.name}.filter {reached}, so its rejections were not tested; {inputs}"
        if self.scores_nodes and len(self.scores) < 2:
            reached = f"returned {min(self.scores)} for all nodes" if self.scores else "was never called"
            return f"{self.name}.score {reached}, so its order was not tested; {inputs}"
        return ""

    def __str__(self) -> str:
        parts = []
        if self.filters:
            parts.append(f"filter accepted {self.accepted} and rejected {self.rejected} nodes")
        if self.scores_nodes:
            limits = f" from {min(self.scores)} to {max(self.scores)}" if self.scores else ""
            parts.append(f"score returned {self.scored} scores{limits}")
        if self.unchecked:
            parts.append(f"not checked: {', '.join(self.unchecked)}")
        return f"{self.name}: {'; '.join(parts)}"


class CheckReport:
    """The report of :func:`check_plugin`: one line for each plugin."""

    def __init__(self, plugins: list[PluginCoverage]) -> None:
        self.plugins = plugins

    def __str__(self) -> str:
        return "\n".join(map(str, self.plugins))


def _custom_kinds(
    plugin: type[Plugin] | PluginFactory, objects: Sequence[KubeObject], features: FeatureGates | None
) -> list[type[KubeObject]]:
    """Return the kinds that a plugin lists with types of its own, unless there are objects of the kind."""
    rig = Rig(features=features)
    _build(plugin, rig)
    given_kinds = {type(obj) for obj in objects}
    return [kind for kind in rig.objects.kinds() if kind.__module__[:8] != "moorage." and kind not in given_kinds]


@st.composite
def _add_labels(draw: st.DrawFn, objects: Sequence[AnyObject], labels: Mapping[str, Sequence[str]]) -> list[AnyObject]:
    """Give nodes and pods some of these labels."""
    choices = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in labels.items()})
    return [
        replace(obj, metadata=replace(obj.metadata, labels={**obj.metadata.labels, **draw(choices)}))
        if isinstance(obj, Node | Pod)
        else obj
        for obj in objects
    ]


@st.composite
def _custom_objects(
    draw: st.DrawFn, kinds: Sequence[type[KubeObject]], cluster: Sequence[KubeObject], values: Sequence[str]
) -> list[KubeObject]:
    """Draw objects of custom resources, named after objects of the cluster, with fields of their types."""
    names = sorted({obj.name for obj in cluster})
    objects = []
    for kind in kinds if names else ():
        for name in draw(st.lists(st.sampled_from(names), unique=True, max_size=3)):
            namespace = draw(st.sampled_from(strategies.NAMESPACES)) if find_kind(kind).namespaced else ""
            metadata = ObjectMeta(name=name, namespace=namespace, uid=f"{kind.__name__}-{name}")
            objects.append(replace(draw(_instances(kind, values)), metadata=metadata))
    return objects


def _instances(struct: type[Any], values: Sequence[str]) -> st.SearchStrategy[Any]:
    """Draw a struct: texts, numbers, booleans and structs in it vary, other fields have their defaults."""
    strategies: dict[str, st.SearchStrategy[Any]] = {}
    hints = get_type_hints(struct)
    for item in fields(struct):
        kind = hints[item.name]
        if kind is str:
            is_time = item.name.endswith(("time", "timestamp"))
            strategies[item.name] = st.sampled_from(_TIMES if is_time else values)
        elif kind is bool:
            strategies[item.name] = st.booleans()
        elif kind in (int, float):
            strategies[item.name] = st.integers(0, 100).map(kind)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and item.name != "metadata":
            strategies[item.name] = _instances(kind, values)
    return st.builds(struct, **strategies)


def _build(plugin: type[Plugin] | PluginFactory, rig: Rig) -> Plugin:
    if not isinstance(plugin, type):
        return plugin(rig)
    build: Any = plugin
    try:
        args = None if build.Args is None else build.Args()
    except TypeError:
        args = None  # some arguments are required
    offered = {"args": args, "handle": rig}
    instance: Plugin = build(
        **{name: offered[name] for name in inspect.signature(plugin).parameters if name in offered}
    )
    return instance


class _Trial:
    """One plugin, one pod, one cluster, and a window on some of its rows."""

    def __init__(self, plugin: Plugin, rig: Rig, pod: Pod, window: IntArray, coverage: PluginCoverage) -> None:
        self.plugin = plugin
        self.coverage = coverage
        self.rig = rig
        self.pod = pod
        self.window = window

    def run(self) -> None:
        """Check all extension points of the plugin."""
        before = _picture(self.rig.nodes), _encode(self.rig, self.pod)
        self._check_signature()
        if isinstance(self.plugin, FilterPlugin):
            self._check_filter(self.plugin)
        if isinstance(self.plugin, ScorePlugin):
            self._check_score(self.plugin)
        after = _picture(self.rig.nodes), _encode(self.rig, self.pod)
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
                self.coverage.rejected += 0 if answer.code == Code.SKIP else len(nodes)
                return
        statuses = self._verdict(plugin, cycle, nodes)
        rejected = sum(status is not None for status in statuses)
        self.coverage.rejected += rejected
        self.coverage.accepted += len(statuses) - rejected
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
        repeated = [filtering.filter(cycle, self.pod, node) for node in self.rig.nodes]
        self._agree("filter after a what-if on a clone", "before it", repeated, statuses)

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
        self.coverage.scored += len(scores)
        self.coverage.scores.update(scores)
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
        """Check that results are valid as long as the plugin declares: rename the pod, then change nodes and pods."""
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
            new_node = replace(node.node, metadata=metadata, spec=replace(node.node.spec, unschedulable=True))
            self._check_change(f"node {node.name}", row, None, partial(self.rig.add, new_node))

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
        """Change a row. Only its own results may change, and only if the plugin depends on the change."""
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


def _encode(rig: Rig, pod: Pod) -> list[bytes]:
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
