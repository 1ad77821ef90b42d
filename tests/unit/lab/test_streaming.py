"""Traces that are larger than memory: the same results as in memory, and bounded memory."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.lab import pool_cluster, random_trial

from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.common.virtual_time import run_virtual
from moorage.lab.fragmentation import load_trial_policy
from moorage.lab.measuring import Measures, run_trial
from moorage.lab.playing import Play
from moorage.lab.trace import NodeOutage, Trace, TracePod
from moorage.lab.trace_files import sort_by_arrival, stream_trace, write_pods, write_trace
from moorage.lab.trial import Conditions, PolicyText, Trial


@pytest.mark.parametrize("extension", ["jsonl", "csv", "parquet"])
def test_streamed_trace_has_the_results_of_the_trace_in_memory(tmp_path: Path, extension: str) -> None:
    trial = random_trial(1)
    outages = (NodeOutage("pool-1", 100.0, 200.0),) if extension == "jsonl" else ()
    trace = replace(trial.trace, pods=tuple(sort_by_arrival(trial.trace.pods)), outages=outages)
    path = tmp_path / f"trace.{extension}"
    write_trace(path, trace)
    streamed = stream_trace(path, trace.name)
    assert streamed.facts == trace.facts
    assert run_trial(replace(trial, trace=streamed)) == run_trial(replace(trial, trace=trace))


def test_finished_pods_are_not_kept_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_pods(path, (TracePod(f"p{n}", n * 10.0, 5.0, cpu_milli=100, kind="a") for n in range(200)))
    most = 0

    class Watching(Measures):
        def decided(self) -> None:
            nonlocal most
            most = max(most, len(self.play.lives))
            super().decided()

    trial = Trial(stream_trace(path), pool_cluster(), PolicyText("p"), 1, Conditions(pod_rows=False))
    clock = VirtualClock()

    async def run() -> dict[str, float]:
        play = Play(trial, load_trial_policy(trial), clock, Watching)
        await play.run()
        return play.watch.result().trial.measures

    measures = run_virtual(run(), clock)
    assert most == 1, "no more than one pod is alive at a time"
    assert measures["jct.mean"] == measures["jct.p95.a"] == 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name":"a","arrives":5}\n{"name":"b","arrives":4}\n', "line 2, column 13 (arrives): pod b arrives at 4"),
        ("", "no pods"),
    ],
)
def test_unsorted_and_empty_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        stream_trace(path)
    assert message in str(caught.value)


def test_streamed_trace_cannot_be_shuffled(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.jsonl", Trace("t", (TracePod("a"),)))
    trial = Trial(stream_trace(tmp_path / "t.jsonl"), pool_cluster(), PolicyText("p"), 1, Conditions(shuffle=True))
    assert "remove stream: true, shuffle or inflate" in run_trial(trial).trial.error


def test_chunks_are_merged_in_the_order_of_arrival() -> None:
    pods = [TracePod(f"p{number}", float(number * 7919 % 1000) + 50.0) for number in range(1000)]
    merged = list(sort_by_arrival(pods, chunk=64))
    assert [pod.arrives for pod in merged] == [float(number) for number in range(1000)]
    assert {pod.name for pod in merged} == {pod.name for pod in pods}
