"""Limits of a search."""

from math import inf

import pytest
from tests.unit.insight.explain.clusters import (
    node,
    pod,
    session,
)

from moorage.insight.explain.fixes.resources import lower_requests
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.subject import LimitReached, Limits, Subject


def test_search_stops_in_time_and_reports_it() -> None:
    with session(node("n1"), pod("p", requests={"cpu": "5"})) as opened:
        explained = explain_pod(opened, "default/p", seconds=0.0)
    assert explained.stopped
    assert "stopped" in explained.as_data()


def test_search_limits_its_trials() -> None:
    limits = Limits(inf, max_trials=1)
    with session(node("n1"), pod("p", requests={"cpu": "5"})) as opened:
        subject = Subject(opened, "default/p", limits)
        with pytest.raises(LimitReached):
            list(lower_requests(subject, subject.rows_where_only("NodeResourcesFit")))
    assert limits.trials == 1
