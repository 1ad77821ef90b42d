"""Traces and clusters in files: reading, importing, generating, and errors of broken lines."""

from collections import Counter
from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.lab.cluster_files import read_lab_cluster, write_nodes_csv
from moorage.lab.generating import PRESETS, generate
from moorage.lab.importing import import_nodes, import_pods
from moorage.lab.parquet import pyarrow_or_none
from moorage.lab.pods import PodMaker
from moorage.lab.presets import preset_cluster
from moorage.lab.trace import NodeOutage, Trace, TracePod
from moorage.lab.trace_files import read_trace, write_trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,96000,786432,8,G2\nn-1,32000,65536,0,\nn-2,64000,262144,2,T4\n"
LONG = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,12000,16384,1,1000,,LS,Running,1000,5000,1010
p-1,6000,12288,1,460,V100M16|V100M32,BE,Failed,1600,1700,1600
p-2,4000,8192,0,0,,BE,Pending,2000,,
"""
SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,12000,16384,1,1000\np-1,88000,786432,8,1000\n"


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_both_forms_of_the_public_list_are_imported(tmp_path: Path) -> None:
    cluster = import_nodes(written(tmp_path / "nodes.csv", NODES))
    assert [node.name for node in cluster.nodes] == ["n-0", "n-2"], "those without GPUs are left out"
    assert cluster.nodes[0].allocatable[GPU_MILLI] == 8000
    assert cluster.nodes[0].allocatable[GPU_COUNT] == 8
    assert cluster.nodes[1].labels[GPU_MODEL] == "T4"
    assert len(import_nodes(tmp_path / "nodes.csv", gpu_only=False).nodes) == 3
    long = import_pods(written(tmp_path / "long.csv", LONG)).pods
    assert long[0] == TracePod("p-0", 0.0, 3990.0, 12000, 16384, 1, 1000, kind="LS")
    assert long[1].gpu_models == ("V100M16", "V100M32")
    assert (long[2].arrives, long[2].runs, long[2].gpus) == (1000.0, None, 0)
    short = import_pods(written(tmp_path / "short.csv", SHORT)).pods
    assert [(pod.arrives, pod.gpus, pod.runs) for pod in short] == [(0.0, 1, None), (1.0, 8, None)]


def test_gpu_demand_comes_from_requests_and_annotations() -> None:
    maker = PodMaker()
    pod = maker.make(TracePod("p", cpu_milli=500, memory_mib=1024, gpus=1, gpu_milli=460, gpu_models=("A", "B")))
    assert pod.requests == {"cpu": 500, "memory": 1 << 30, GPU_MILLI: 460}
    assert pod.annotations == {GPU_COUNT: "1", GPU_MILLI: "460", GPU_MODEL: "A|B"}
    assert maker.make(TracePod("q", cpu_milli=500, memory_mib=1024)).annotations == {}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.jsonl", '{"name":"a"}\n{"name":"b",\n', "line 2, column 13"),
        ("t.jsonl", '{"name":"a"}\n\n{"name":"b","cpuMilli":"many"}\n', "line 3, column 13"),
        ("t.jsonl", '{"name":"a","cpuMili":5}\n', "line 1, column 13"),
        ("t.jsonl", '{"name":"a"}\n{"name":"a"}\n', "line 2, column 2 (name): there are two pods named 'a'"),
        ("t.jsonl", '{"name":"a","gpus":1,"gpuMilli":1500}\n', "line 1, column 22 (gpuMilli): pod a requests 1500"),
        ("t.jsonl", '{"name":"a","cpuMilli":-5}\n', "line 1, column 13"),
        ("t.jsonl", '{"name":"a","arrives":-5}\n', "line 1, column 13"),
        ("t.jsonl", '{"name":"a","requests":{"x.io/y":"z"}}\n', "line 1, column 13 (requests)"),
        ("t.jsonl", '{"name":"a","spec":{"affinity":5}}\n', "line 1, column 13 (spec)"),
        ("t.jsonl", "", "no pods"),
        ("t.csv", "", "line 1, column 1: there is nothing in the file"),
        ("t.csv", "name\na\nb\na\n", "line 4, column 1 (name): there are two pods named 'a'"),
        ("t.csv", "gpuMilli,gpus,name\n1500,1,a\n", "line 2, column 1 (gpuMilli)"),
        ("t.csv", "name,gpuMilli\na,500\n", "line 2, column 2 (gpuMilli)"),
        ("t.csv", "name,name\na,b\n", "line 1, column 2: there are two columns 'name'"),
        ("t.csv", "name,arrives\na,nan\n", "line 2, column 2 (arrives)"),
        ("t.csv", "name,arrives\na,1e300\n", "line 2, column 2 (arrives): '1e300' is more than"),
        ("t.csv", "name,cpuMilli\na,5\nb,x\n", "line 3, column 2 (cpuMilli)"),
        ("t.csv", "name,cpuMilli\na,5,7\n", "line 2, column 3"),
        ("t.csv", "name,cpuMilli\na,-5\n", "line 2, column 2"),
        ("t.csv", "name,cpuMili\na,5\n", "did you mean 'cpuMilli'?"),
        ("t.csv", "pod\na\n", "line 1, column 1"),
        ("t.csv", 'name\n"a\n', "line"),
    ],
)
def test_broken_line_is_reported_with_file_line_and_column(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = written(tmp_path / name, text)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_invalid_byte_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"name\na\nb\xe9\n")
    with pytest.raises(InputError, match="line 3, column 2: this is not UTF-8"):
        read_trace(path)


def test_gpus_are_whole_by_default_and_priorities_may_be_negative(tmp_path: Path) -> None:
    lines = written(tmp_path / "t.jsonl", '{"name":"a","gpus":2,"priority":-5}\n')
    table = written(tmp_path / "t.csv", "name,gpus,priority\na,2,-5\n")
    assert read_trace(lines).pods == read_trace(table).pods == (TracePod("a", gpus=2, gpu_milli=1000, priority=-5),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LONG.replace("460", "4.5"), "line 3, column 5 (gpu_milli)"),
        (SHORT.replace("8,1000", "8,500"), "only one GPU can be shared"),
        (SHORT.replace("88000", ""), "line 3, column 2 (cpu_milli)"),
    ],
)
def test_broken_line_of_an_import_is_reported(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=r"(?s).*") as caught:
        import_pods(written(tmp_path / "pods.csv", text))
    assert told in str(caught.value)


def test_duplicate_pod_in_an_import_gets_a_unique_name(tmp_path: Path) -> None:
    line = "openb-pod-0000,1000,1024,1,500\n"
    trace = import_pods(written(tmp_path / "pods.csv", f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{line}{line}"))
    write_trace(tmp_path / "pods.jsonl", trace)
    assert len({pod.name for pod in read_trace(tmp_path / "pods.jsonl").pods}) == 2


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("n0,1000,1024,2,T4\nn0,1000,1024,2,T4\n", r"line 3, column 1 \(sn\): there are two nodes named 'n0'"),
        (",1000,1024,2,T4\n", r"line 2, column 1 \(sn\): the node has no name"),
        ("n0,1000,1024,2000000,T4\n", r"line 2, column 4 \(gpu\)"),
        ("n0,1000,1024,0,\n", "--all-nodes"),
    ],
)
def test_broken_list_of_nodes_is_reported(tmp_path: Path, lines: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        import_nodes(written(tmp_path / "nodes.csv", f"sn,cpu_milli,memory_mib,gpu,model\n{lines}"))


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_a_trace_survives_being_written(tmp_path: Path, ending: str) -> None:
    if ending == ".parquet" and pyarrow_or_none() is None:
        with pytest.raises(InputError, match=r"moorage\[lab\]"):
            write_trace(tmp_path / "t.parquet", Trace("t", ()))
        return
    trace = generate("openb", 2, pods=40)
    path = tmp_path / f"openb{ending}"
    write_trace(path, trace)
    assert read_trace(path) == trace


def test_json_lines_keep_outages_and_specs(tmp_path: Path) -> None:
    pod = TracePod("a", spec={"nodeSelector": {"zone": "a"}}, requests={"example.com/x": 2}, labels={"app": "x"})
    trace = Trace("t", (pod,), (NodeOutage("n", 5.0, 7.0),))
    write_trace(tmp_path / "t.jsonl", trace)
    assert read_trace(tmp_path / "t.jsonl") == trace
    assert PodMaker().make(pod).spec.node_selector == {"zone": "a"}


def test_marginals_of_the_public_trace_match_published_values() -> None:
    pods = generate("openb", 1).pods
    assert len(pods) == 8152
    kinds = Counter(_kind(pod) for pod in pods)
    published_shares = {"whole": 0.48, "share": 0.378, "none": 0.133, "2": 0.002, "4": 0.0018, "8": 0.0054}
    for kind, share in published_shares.items():
        assert kinds[kind] / len(pods) == pytest.approx(share, abs=0.012), kind
    cluster = preset_cluster("openb")
    gpus = sum(node.allocatable[GPU_COUNT] for node in cluster.nodes)
    assert (len(cluster.nodes), gpus) == (1213, 6212)
    assert sum(node.allocatable["cpu"] for node in cluster.nodes) == 107_018_000
    assert sum(pod.gpu_asked for pod in pods) / 1000 / gpus == pytest.approx(0.98, abs=0.03)
    models = Counter(node.labels[GPU_MODEL] for node in cluster.nodes)
    assert models == {"G2": 549, "T4": 404, "P100": 134, "V100M16": 55, "G3": 39, "V100M32": 30, "A10": 2}


def _kind(pod: TracePod) -> str:
    if not pod.gpus:
        return "none"
    return str(pod.gpus) if pod.gpus > 1 else "whole" if pod.gpu_milli == 1000 else "share"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_made_up_by_seed_and_has_a_cluster(preset: str) -> None:
    assert generate(preset, 1, pods=50) == generate(preset, 1, pods=50)
    assert generate(preset, 1, pods=50) != generate(preset, 2, pods=50)
    assert len(generate(preset, 1, pods=50).pods) == 50
    assert preset_cluster(preset).nodes


def test_unknown_preset_is_reported() -> None:
    with pytest.raises(InputError, match="did you mean 'mixed'"):
        generate("mixd", 1)


def test_nodes_survive_being_written(tmp_path: Path) -> None:
    cluster = preset_cluster("mixed")
    write_nodes_csv(tmp_path / "mixed.csv", cluster.nodes)
    again = read_lab_cluster(tmp_path / "mixed.csv")
    assert [node.allocatable for node in again.nodes] == [node.allocatable for node in cluster.nodes]
    assert [node.annotations for node in again.nodes] == [node.annotations for node in cluster.nodes]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pools: []\n", "no nodes"),
        ("pools: [{name: a, count: 1, cpu: x, memory: 1Gi}]\n", "not a quantity"),
        ("pools: [{name: a, count: 1, cpu: 1}]\n", "memory"),
        ("pools: [{name: a, count: -1, cpu: 1, memory: 1Gi}]\n", r"pools\[0\].count"),
        ("pools: [{name: a, count: 1, cpu: -1, memory: 1Gi}]\n", "less than nothing"),
        ("pools: [{name: a, count: 1, cpu: 1, memory: 1Gi, gpus: -8}]\n", "gpus"),
        ("pools: [{name: a, count: 1, cpu: 1, memory: 1Gi, prize: 2}]\n", "prize"),
    ],
)
def test_bad_cluster_is_reported(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_lab_cluster(written(tmp_path / "c.yaml", text))


def test_kubernetes_objects_are_a_cluster(tmp_path: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n0, annotations: {moorage.io/price-per-hour: '2'}}\n"
    pod = (
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: n0, containers: [{name: c, image: i}]}\n"
    )
    cluster = read_lab_cluster(written(tmp_path / "c.yaml", node + "status: {allocatable: {cpu: 4}}\n" + pod))
    assert [obj.name for obj in (*cluster.nodes, *cluster.objects)][:1] == ["n0"]
    assert any(obj.name == "p" for obj in cluster.objects)
