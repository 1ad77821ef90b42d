"""A trace recorded from watches: by changes as an informer brings them, and from a server over HTTP."""

import asyncio
from pathlib import Path

import msgspec
import yaml
from msgspec.structs import replace

from moorage.cluster.apiserver.server import ApiServer
from moorage.common.clock import SteadyClock, VirtualClock
from moorage.kube.api.affinity import Toleration
from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import Condition, KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.lab.cluster import read_lab_cluster
from moorage.lab.recording import TraceRecorder, make_line, record, write_nodes
from moorage.lab.trace import NodeOutage
from moorage.testing import make_node, make_pod


def told(recorder: TraceRecorder, before: KubeObject | None, after: KubeObject | None) -> None:
    recorder.on_changes(find_kind(type(after or before)), [Change(before, after)])


def test_arrivals_runs_and_failures_become_a_trace() -> None:
    clock = VirtualClock()
    recorder = TraceRecorder(clock, class_label="team")
    node, old = make_node("n"), make_pod("old", node="n", requests={"cpu": 1}, labels={"team": "a"})
    told(recorder, None, node)
    told(recorder, None, old)
    clock.advance(50.0)
    recorder.begin()
    clock.advance(10.0)
    web = make_pod("web", requests={"cpu": "500m", "memory": "100Mi"}, labels={"team": "b"}, tolerates=["spot"])
    told(recorder, None, web)
    clock.advance(2.0)
    told(recorder, web, bound := web.on_node("n"))
    clock.advance(30.0)
    told(recorder, bound, replace(bound, status=PodStatus(phase="Succeeded")))
    never = make_pod("never")
    told(recorder, None, never)
    told(recorder, never, None)
    broken = replace(node, status=replace(node.status, conditions=(Condition(type="Ready", status="False"),)))
    told(recorder, node, broken)
    clock.advance(60.0)
    told(recorder, broken, node)
    told(recorder, node, None)
    trace = recorder.trace("t")
    assert [(pod.name, pod.arrives, pod.runs, pod.kind) for pod in trace.pods] == [
        ("old", 0.0, None, "a"),
        ("web", 10.0, 30.0, "b"),
    ]
    assert (trace.pods[1].cpu_milli, trace.pods[1].memory_mib) == (500, 100)
    assert trace.pods[1].spec == {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    assert trace.outages == (NodeOutage("n", 42.0, 102.0), NodeOutage("n", 102.0))


def test_line_keeps_the_fields_that_affect_placement() -> None:
    pod = make_pod("p", requests={"cpu": 1, "example.com/x": 2}, tolerates=[Toleration(operator="Exists")], priority=7)
    line = make_line(pod)
    assert (line.requests, line.priority, line.kind) == ({"example.com/x": 2}, 7, "default")
    assert "containers" not in line.spec


def test_a_server_is_recorded_and_only_read(tmp_path: Path) -> None:
    async def scenario() -> TraceRecorder:
        async with ApiServer() as server:
            (tmp_path / "kubeconfig").write_text(yaml.safe_dump(server.kubeconfig()))
            async with ApiClient(load_connection(str(tmp_path / "kubeconfig"))) as client:
                await client.request("POST", "/api/v1/nodes", data(make_node("n-0"), "Node"))
                recorder, stop = TraceRecorder(SteadyClock()), asyncio.Event()
                recording = asyncio.create_task(record(client, recorder, stop, None))
                while not recorder.nodes:
                    await asyncio.sleep(0.01)
                await client.request("POST", "/api/v1/namespaces/default/pods", data(make_pod("p-0"), "Pod"))
                while not recorder.trace("t").pods:
                    await asyncio.sleep(0.01)
                stop.set()
                await recording
                return recorder

    recorder = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert [pod.name for pod in recorder.trace("t").pods] == ["p-0"]
    write_nodes(tmp_path / "nodes.json", list(recorder.nodes.values()))
    assert [node.name for node in read_lab_cluster(tmp_path / "nodes.json").nodes] == ["n-0"]


def data(obj: Node | Pod, kind: str) -> bytes:
    content = msgspec.to_builtins(obj)
    content["metadata"].pop("uid")
    return msgspec.json.encode({"apiVersion": "v1", "kind": kind, **content})
