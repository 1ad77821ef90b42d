"""Fixes in the configuration of the scheduler."""

from math import inf

import pytest
from tests.unit.insight.explain.clusters import (
    TAINT,
    node,
    pod,
    session,
)

from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.search import offers
from moorage.insight.explain.subject import LimitReached, Limits, Subject


def test_disabling_plugins_is_tried_last() -> None:
    """That costs a reading of the entire cluster for each: no time may be lost on it where two changes help."""
    with session(node("n1", taints=[TAINT]), pod("p", requests={"cpu": "5"})) as opened:
        limits = Limits(inf)
        (pair,) = offers(Subject(opened, "default/p", limits))
        plugins = 2  # each is tried
        explanation = offers(Subject(opened, "default/p", Limits(inf, max_trials=limits.trials - plugins)))
        assert next(explanation).text == pair.text
        with pytest.raises(LimitReached):
            next(explanation)


def test_added_affinity_of_a_profile_is_removed() -> None:
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: ours, operator: Exists}]}]
"""
    with session(node("n1"), pod("p"), config=config) as opened:
        explained = explain_pod(opened, "default/p")
    assert [change.kind for change in explained.changes] == ["node-label", "add-node", "config"]
