"""Results of plugins for one pod as rows: lists of dicts, which pandas can read."""

from typing import Any, TypeAlias

import numpy as np

from moorage.common.errors import InputError, did_you_mean
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.filter import EVERY_NODE
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import is_feasible
from moorage.scheduler.engine.extension_points import pre_filter
from moorage.scheduler.engine.reference import score_all
from moorage.scheduler.engine.statuses import StatusTable, rejected_rows
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.plugin import FilterPlugin, NodeNames, Plugin, PreFilterPlugin, ScorePlugin
from moorage.scheduler.framework.status import Code, Status

Rows: TypeAlias = list[dict[str, Any]]


def filter_rows(runner: ProfileRunner, pod: Pod, plugin: str = "") -> Rows:
    """Return for every node whether it fits, by one plugin or by the first of the profile that rejects it."""
    if plugin:
        statuses = _filter_statuses(
            runner, pod, _find_plugin(runner, plugin, (PreFilterPlugin, FilterPlugin), "filters")
        )
    else:
        result = runner.filtering.find(pod, EVERY_NODE)
        statuses = {
            row: result.diagnosis.statuses[runner.cache.nodes[row].name]
            for row in _rows(runner)
            if not is_feasible(result, row)
        }
    return [_filter_row(runner.cache.nodes[row].name, statuses.get(row)) for row in _rows(runner)]


def score_rows(runner: ProfileRunner, pod: Pod, plugin: str = "") -> Rows:
    """Score the feasible nodes: by one plugin (raw, normalized, weighted), or by all, the best first."""
    if plugin:
        _find_plugin(runner, plugin, (ScorePlugin,), "scores")
    result = runner.filtering.find(pod, EVERY_NODE)
    rows = np.array([row for row in _rows(runner) if is_feasible(result, row)], dtype=np.int64)
    if not len(rows):
        return []
    window = runner.cache.nodes.take(rows)
    scores = score_all(runner.profile, result.cycle.clone(), pod, window)
    if not plugin:
        by_plugin = {item.plugin: item.weight * item.normalized for item in scores.by_plugin}
        columns = {"total": scores.totals, **by_plugin}
    else:
        zeros = np.zeros(len(rows), dtype=np.int64)
        # A plugin that its pre-score has skip the pod adds nothing.
        item = next((item for item in scores.by_plugin if item.plugin == plugin), None)
        raw, normalized = (zeros, zeros) if item is None else (item.raw, item.normalized)
        weight = runner.profile.weights[plugin]
        columns = {"weighed": weight * normalized, "normalized": normalized, "raw": raw}
    rows_by_node = [
        {"node": name, **{key: int(column[index]) for key, column in columns.items()}}
        for index, name in enumerate(window.names)
    ]
    return sorted(rows_by_node, key=lambda row: -row[next(iter(columns))])


def _rows(runner: ProfileRunner) -> list[int]:
    order: list[int] = runner.cache.order.tolist()
    return order


def _filter_row(name: str, status: Status | None) -> dict[str, Any]:
    if status is None:
        return {"node": name, "fits": True, "plugin": "", "code": "", "reason": ""}
    return {"node": name, "fits": False, "plugin": status.plugin, "code": status.code.label, "reason": status.message}


def _find_plugin(runner: ProfileRunner, name: str, bases: tuple[type[Plugin], ...], verb: str) -> Plugin:
    candidates = {plugin.name: plugin for plugin in runner.profile.node_plugins if isinstance(plugin, bases)}
    if name not in candidates:
        hint = did_you_mean(name, candidates) or f"candidates: {', '.join(candidates) or 'none'}"
        raise InputError(f"profile {runner.profile.name}", f"no plugin {name!r} that {verb}", hint=hint)
    return candidates[name]


def _filter_statuses(runner: ProfileRunner, pod: Pod, plugin: Plugin) -> dict[int, Status]:
    """Evaluate one plugin alone, PreFilter and Filter. Accepted rows are omitted."""
    nodes, state = runner.cache.nodes, CycleState()
    statuses: dict[int, Status] = {}
    if isinstance(plugin, PreFilterPlugin):
        answer = pre_filter(plugin, state, pod, nodes)
        if isinstance(answer, Status):
            is_skip = answer.code == Code.SKIP
            return {} if is_skip else dict.fromkeys(_rows(runner), answer.by(plugin.name))
        if isinstance(answer, NodeNames):
            missed = Status.unresolvable(f"node(s) didn't satisfy plugin {plugin.name}").by(plugin.name)
            statuses = {row: missed for row in _rows(runner) if nodes[row].name not in answer.names}
    if isinstance(plugin, FilterPlugin):
        table = StatusTable()
        for rejected, number in rejected_rows(plugin, state, pod, nodes, table, None):
            status = table[number]
            assert status is not None
            for row in np.flatnonzero(rejected).tolist():
                statuses.setdefault(row, status)
    return statuses
