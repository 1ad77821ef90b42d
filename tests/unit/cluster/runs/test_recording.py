import pytest
from tests.unit.insight.page.clusters import job, loaded, node, pod, policy

from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.runs import recording
from moorage.cluster.runs.recording import RunRecorder, StepKind
from moorage.cluster.simulation.simulation import simulate

CLUSTER = (node("n1"), node("n2"), pod("web", node="n1"), pod("too-big", "9"), job("short", 6, 1), job("long", 6, 5))


def test_repeated_failures_are_recorded_a_limited_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_REPEATS", 3)
    recorder = RunRecorder()
    simulate(cluster_from_documents(loaded(CLUSTER).documents), policy(), recorder=recorder)
    failures = [step for step in recorder.steps if step.what is StepKind.TRIED and step.pod == "shop/too-big"]
    assert len(failures) == 3
    assert recorder.attempts.decisions[recorder.pods["shop/too-big"].uid].attempts > 3
    moved = [step for step in recorder.steps if step.what is StepKind.MOVED and step.pod == "shop/too-big"]
    assert moved[-1].detail[0] == "unschedulable"
