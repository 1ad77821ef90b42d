"""The public GPU trace: import of its files and generated marginals."""

from collections import Counter
from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.lab.generating import generate, preset_cluster
from moorage.lab.openb import import_nodes, import_pods
from moorage.lab.trace import TracePod
from moorage.lab.trace_files import read_trace, write_trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-0,96000,786432,8,G2\nn-1,32000,65536,0,\nn-2,64000,262144,2,T4\n"


LONG = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-0,12000,16384,1,1000,,LS,Running,1000,5000,1010
p-1,6000,12288,1,460,V100M16|V100M32,BE,Failed,1600,1700,1600
p-2,4000,8192,0,0,,BE,Pending,2000,,
"""


SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,12000,16384,1,1000\np-1,88000,786432,8,1000\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_both_forms_of_the_public_list_are_imported(tmp_path: Path) -> None:
    cluster = import_nodes(write(tmp_path / "nodes.csv", NODES))
    assert [node.name for node in cluster.nodes] == ["n-0", "n-2"], "nodes without GPUs are omitted"
    assert cluster.nodes[0].allocatable[GPU_MILLI] == 8000
    assert cluster.nodes[0].allocatable[GPU_COUNT] == 8
    assert cluster.nodes[1].labels[GPU_MODEL] == "T4"
    assert len(import_nodes(tmp_path / "nodes.csv", gpu_only=False).nodes) == 3
    long = import_pods(write(tmp_path / "long.csv", LONG)).pods
    assert long[0] == TracePod("p-0", 0.0, 3990.0, 12000, 16384, 1, 1000, kind="LS")
    assert long[1].gpu_models == ("V100M16", "V100M32")
    assert (long[2].arrives, long[2].runs, long[2].gpus) == (1000.0, None, 0)
    short = import_pods(write(tmp_path / "short.csv", SHORT)).pods
    assert [(pod.arrives, pod.gpus, pod.runs) for pod in short] == [(0.0, 1, None), (1.0, 8, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LONG.replace("460", "4.5"), "line 3, column 5 (gpu_milli)"),
        (SHORT.replace("8,1000", "8,500"), "only a single GPU can be shared"),
        (SHORT.replace("88000", ""), "line 3, column 2 (cpu_milli)"),
    ],
)
def test_broken_line_of_an_import_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"(?s).*") as caught:
        import_pods(write(tmp_path / "pods.csv", text))
    assert message in str(caught.value)


def test_duplicate_pod_in_an_import_gets_a_unique_name(tmp_path: Path) -> None:
    line = "openb-pod-0000,1000,1024,1,500\n"
    trace = import_pods(write(tmp_path / "pods.csv", f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{line}{line}"))
    write_trace(tmp_path / "pods.jsonl", trace)
    assert len({pod.name for pod in read_trace(tmp_path / "pods.jsonl").pods}) == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("n0,1000,1024,2,T4\nn0,1000,1024,2,T4\n", r"line 3, column 1 \(sn\): there are two nodes named 'n0'"),
        (",1000,1024,2,T4\n", r"line 2, column 1 \(sn\): the node has no name"),
        ("n0,1000,1024,2000000,T4\n", r"line 2, column 4 \(gpu\)"),
        ("n0,1000,1024,0,\n", "--all-nodes"),
    ],
)
def test_broken_list_of_nodes_is_reported(tmp_path: Path, lines: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_nodes(write(tmp_path / "nodes.csv", f"sn,cpu_milli,memory_mib,gpu,model\n{lines}"))


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
    assert sum(pod.gpu_request for pod in pods) / 1000 / gpus == pytest.approx(0.98, abs=0.03)
    models = Counter(node.labels[GPU_MODEL] for node in cluster.nodes)
    assert models == {"G2": 549, "T4": 404, "P100": 134, "V100M16": 55, "G3": 39, "V100M32": 30, "A10": 2}


def _kind(pod: TracePod) -> str:
    if not pod.gpus:
        return "none"
    return str(pod.gpus) if pod.gpus > 1 else "whole" if pod.gpu_milli == 1000 else "share"
