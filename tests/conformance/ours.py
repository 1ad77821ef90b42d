"""Runs Moorage on a case, in this process."""

import json
from typing import Any, Final

import msgspec

from moorage.cluster.dry_run import DryRun
from moorage.cluster.files.loading import build_cluster_input
from moorage.common.version import NEWEST, RELEASE
from moorage.kube.features import GATES, RELEASES, FeatureGates
from moorage.scheduler.config import SchedulerConfiguration, default_config, load_config
from moorage.scheduler.decisions.decision import to_builtins
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from tests.conformance.generator import Case

#: Also off in the oracle: victims are determined immediately, and every pod is scored separately.
BASE_GATES: Final = {"SchedulerAsyncPreemption": False, "OpportunisticBatching": False}
REGISTRY: Final = Registry(IN_TREE)
#: Texts of the next release, and those of the default release.
CHANGED_TEXTS: Final = {"reported placement status": "first placement status", '"PodGroupError"': '"SchedulerError"'}


def decide(case: Case, release: str = RELEASE) -> list[dict[str, Any]]:
    """Try each pending pod of a case once; return the decisions in the decisions format, those on groups last."""
    known = RELEASES[release]
    base = {name: value for name, value in BASE_GATES.items() if name in known and not known[name].locked}
    return _decide(case, FeatureGates({**base, **case.feature_gates}, release=release))


def decide_as_next(case: Case) -> list[dict[str, Any]]:
    """Decide as the next release, with the gates and texts of the default release.

    Compared with today's kube-scheduler, only changes in docs/reference/kubernetes-1.38.md may differ.
    """
    known = RELEASES[NEWEST]
    today = dict.fromkeys(known, False) | {gate.name: gate.default for gate in GATES.values()}
    chosen = today | BASE_GATES | case.feature_gates
    settable = {name: value for name, value in chosen.items() if name in known and not known[name].locked}
    text = json.dumps(_decide(case, FeatureGates(settable, release=NEWEST)))
    for changed, original in CHANGED_TEXTS.items():
        text = text.replace(changed, original)
    decisions: list[dict[str, Any]] = json.loads(text)
    return decisions


def _decide(case: Case, gates: FeatureGates) -> list[dict[str, Any]]:
    cluster = build_cluster_input(case.objects, features=gates)
    policy = Policy(make_configuration_for(case, gates), REGISTRY, gates)
    single = DryRun(cluster, policy, search_all=case.search == "all", cross_check=True)
    output: list[dict[str, Any]] = to_builtins(single.run())["decisions"]
    return [*output, *msgspec.to_builtins(single.groups)]


def make_configuration_for(case: Case, gates: FeatureGates) -> SchedulerConfiguration:
    """Return the configuration of a case."""
    if case.config is None:
        return default_config(gates=gates)
    return load_config(json.dumps(case.config), gates=gates)
