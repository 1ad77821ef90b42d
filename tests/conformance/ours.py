"""Our side: Moorage decides in this process."""

import json
from typing import Any

from moorage.config import SchedulerConfiguration, default_config, load_config
from moorage.features import FeatureGates
from moorage.simulator.decisions import to_builtins
from moorage.simulator.loading import cluster_from
from moorage.simulator.one_pass import run_one_pass
from tests.conformance.generator import Case

#: What the oracle has off as well: victims are known at once, and every pod is scored for itself.
BASE_GATES = {"SchedulerAsyncPreemption": False, "OpportunisticBatching": False}


def decide(case: Case) -> list[dict[str, Any]]:
    """Try every pending pod of a case once; return the decisions as they would be written."""
    gates = FeatureGates({**BASE_GATES, **case.feature_gates})
    cluster = cluster_from(case.objects, features=gates)
    decisions = run_one_pass(cluster, _config(case, gates), features=gates, search_all=case.search == "all")
    written: list[dict[str, Any]] = to_builtins(decisions)["decisions"]
    return written


def _config(case: Case, gates: FeatureGates) -> SchedulerConfiguration:
    if case.config is None:
        return default_config(gates=gates)
    return load_config(json.dumps(case.config), gates=gates)
