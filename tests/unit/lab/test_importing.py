"""Importers of public traces, on small files with their published columns."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.cli.main import run as moorage
from moorage.common.errors import InputError
from moorage.lab.experiment import load_experiment
from moorage.lab.formats import write_parquet
from moorage.lab.importing import ImportOptions, Skipped, TraceMapping, import_pods, import_table
from moorage.lab.trace import TracePod
from moorage.lab.trace_files import read_trace, sort_by_arrival

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,20,59020.0,6214e9
"""
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,uA,vcX,16,64,2,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:42:01,60,0
8,uB,vcY,0,4,1,CANCELLED,2020-06-09 18:41:31,,,0,0
"""
ACME = """job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
a,u1,1,8,128,SFT,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0
"""
PAI = """job1,worker,2.0,Terminated,100.0,400.0,600.0,29.296875,50.0,T4
job1,ps,1.0,Terminated,100.0,400.0,400.0,10.0,,
job2,worker,1.0,Waiting,,,600.0,29.0,250.0,MISC
job3,worker,1.0,Running,160.0,,600.0,29.0,200.0,V100
"""
DLRM = """instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,disk_request,\
max_instance_per_node,creation_time,scheduled_time,deletion_time
i0,HN,app_0,12,1,25,120.0,640.0,8,,,
i1,CN,app_1,64,0,1,320.0,255.0,-1,1435629.0,1435639.0,1435760.0
"""
GAVEL = """A3C\tcd x\t--max-steps\t0\t1000\t6.5\t1
LM (batch size 5)\tcd y\t-step\t1\t900\t0.0\t2
New\tz\t-n\t1\t5\t1.0\t1
"""
THROUGHPUTS = {
    "v100": {"('A3C', 1)": {"null": 10.0}, "('LM (batch size 5)', 1)": {"null": 3.0, "('A3C', 1)": [1.0, 2.0]}},
    "k80": {},
}


def read(directory: Path, format_: str, text: str, **options: Any) -> tuple[list[TracePod], dict[str, int]]:
    """Import a small file."""
    path = directory / "trace.csv"
    path.write_text(text)
    skipped = Skipped()
    return list(import_pods(format_, path, ImportOptions(**options), skipped)), skipped.reasons


def test_large_philly_jobs_become_gangs_of_pods_that_fit_a_node(tmp_path: Path) -> None:
    pods, _ = read(tmp_path, "philly", PHILLY, cpu_milli_per_gpu=4000)
    small, *gang = pods
    assert (small.gpus, small.runs, small.tenant, small.job, small.cpu_milli) == (1, 66.0, "11cb48", "", 4000)
    assert [(pod.gpus, pod.gang_size, pod.runs, pod.cpu_milli) for pod in gang] == [(7, 3, 2951.0, 28_000)] * 3
    assert len({pod.gang for pod in gang} | {pod.job for pod in gang}) == 1
    assert small.arrives - gang[0].arrives == 48 * 60 + 52
    alone, _ = read(tmp_path, "philly", PHILLY, as_gangs=False)
    assert {pod.gang for pod in alone} == {""}
    assert len({pod.job for pod in alone if pod.job}) == 1, "the pods remain one job"


def test_totals_of_a_slurm_job_are_divided_by_its_nodes(tmp_path: Path) -> None:
    pods, skipped = read(tmp_path, "helios", HELIOS)
    assert [(pod.gpus, pod.cpu_milli, pod.gang_size, pod.tenant, pod.kind) for pod in pods] == [
        (8, 32_000, 2, "vcX", "COMPLETED")
    ] * 2
    assert skipped == {"without start_time": 1}
    (job,), _ = read(tmp_path, "acme", ACME)
    assert (job.gpus, job.cpu_milli, job.runs, job.tenant, job.kind) == (8, 128_000, 117.0, "u1", "SFT")


def test_percentages_of_pai_become_shares_and_whole_gpus(tmp_path: Path) -> None:
    pods, skipped = read(tmp_path, "pai", PAI)
    assert skipped == {"without start_time": 1}
    worker, second, server, whole = pods
    assert (worker.gpus, worker.gpu_milli, worker.cpu_milli, worker.memory_mib) == (1, 500, 6000, 30_000)
    assert (worker.gpu_models, worker.runs, worker.gang_size, worker.job) == (("T4",), 300.0, 2, "job1")
    assert (second.gang, server.gang, server.job, server.gpus) == (worker.gang, "", "job1", 0)
    assert (whole.gpus, whole.gpu_milli, whole.runs) == (2, 1000, None), "it had not ended"


def test_header_that_a_user_added_is_skipped(tmp_path: Path) -> None:
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    assert read(tmp_path, "pai", header + PAI) == read(tmp_path, "pai", PAI)


def test_instances_of_dlrm_keep_their_limit_per_node(tmp_path: Path) -> None:
    first, second = read(tmp_path, "dlrm", DLRM)[0]
    assert (first.arrives, first.runs, first.max_per_node, first.labels) == (0.0, None, 8, {"app": "app_0"})
    assert first.requests == {"alibaba.com/rdma": 25, "alibaba.com/disk": 640}
    assert (second.arrives, second.runs, second.max_per_node, second.memory_mib) == (1435629.0, 121.0, 0, 327_680)


def test_durations_of_gavel_follow_from_the_throughputs(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_bytes(msgspec.json.encode(THROUGHPUTS))
    pods, skipped = read(tmp_path, "gavel", GAVEL, throughputs=str(tmp_path / "table.json"))
    assert [(pod.arrives, pod.runs, pod.gang_size, pod.gpus) for pod in pods] == [
        (6.5, 100.0, 0, 1),
        (0.0, 150.0, 2, 1),
        (0.0, 150.0, 2, 1),
    ]
    assert skipped["without a throughput of New"] == 1
    with pytest.raises(InputError, match="--throughputs FILE"):
        read(tmp_path, "gavel", GAVEL)
    with pytest.raises(InputError, match="no worker type 'a100'"):
        read(tmp_path, "gavel", GAVEL, throughputs=str(tmp_path / "table.json"), worker="a100")


def deployment(replicas: int, name: str = "web") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi", "example.com/nic": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "nodeSelector": {"a": "b"}}}
    metadata = {"name": name, "namespace": "shop"}
    spec = {"replicas": replicas, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def simkube(events: list[dict[str, Any]], **more: Any) -> bytes:
    config = {"trackedObjects": {"apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]}}}
    return msgspec.msgpack.encode({"version": 2, "config": config, "events": events, "index": {}, **more})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": None}, "an object of the trace is not valid"),
        ({"metadata": {}}, "an object of the trace is not valid: KeyError: 'name'"),
        ({"spec": {"replicas": "x", "template": deployment(1)["spec"]["template"]}}, "not valid: ValueError"),
        (
            {"spec": {"replicas": -1, "template": deployment(1)["spec"]["template"]}},
            "not valid: ValueError: -1 replicas",
        ),
        ({"spec": {"replicas": 10**12, "template": deployment(1)["spec"]["template"]}}, "more than 500,000 pods"),
    ],
)
def test_invalid_objects_of_simkube_are_rejected(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "t.sktrace"
    path.write_bytes(simkube([{"ts": 100, "applied_objs": [deployment(1) | change], "deleted_objs": []}]))
    with pytest.raises(InputError, match=message):
        list(import_pods("simkube", path))


def test_replicas_of_simkube_arrive_and_end(tmp_path: Path) -> None:
    events = [
        {"ts": 100, "applied_objs": [deployment(1)], "deleted_objs": []},
        {"ts": 160, "applied_objs": [deployment(3)], "deleted_objs": []},
        {"ts": 200, "applied_objs": [deployment(2)], "deleted_objs": []},
        {"ts": 300, "applied_objs": [], "deleted_objs": [deployment(2)]},
    ]
    path = tmp_path / "t.sktrace"
    path.write_bytes(simkube(events))
    pods = sorted(import_pods("simkube", path), key=lambda pod: pod.name)
    assert [(pod.arrives, pod.runs) for pod in pods] == [(100, 200), (160, 140), (160, 40)]
    assert (pods[0].cpu_milli, pods[0].memory_mib, pods[0].requests) == (500, 1024, {"example.com/nic": 1})
    assert (pods[0].namespace, pods[0].labels, pods[0].spec) == ("shop", {"app": "web"}, {"nodeSelector": {"a": "b"}})
    lifecycles = {("apps/v1.Deployment", "shop/web"): {99: [{"start_ts": 101, "end_ts": 131}]}}
    path.write_bytes(simkube(events[:1], pod_lifecycles=lifecycles))
    assert [pod.runs for pod in import_pods("simkube", path)] == [30.0]
    path.write_bytes(b"\x81\xa7version\x01")
    with pytest.raises(InputError, match="not a SimKube trace"):
        list(import_pods("simkube", path))


@pytest.mark.parametrize(
    ("format_", "text", "message"),
    [
        ("phily", PHILLY, "did you mean 'philly'? For other tables, use a mapping"),
        ("philly", PHILLY.replace("duration", "seconds"), "unknown column 'duration'"),
        ("philly", PHILLY.replace("66.0,1", "long,1"), "line 2, column duration: 'long' is not a number"),
        ("philly", PHILLY.replace("2017-10-09 07:01:55", "yesterday"), "'yesterday' is not a time"),
        ("philly", PHILLY.replace("66.0,1,", f"66.0,{10**9},"), "125,000,000 pods in one row; the limit is 100,000"),
        ("helios", HELIOS.replace("64,2,", f"64,{10**49},"), f"line 2, column node_num: '{10**39}' is out of range"),
        ("helios", HELIOS.replace("16,64", "-16,64"), "line 2, column gpu_num: '-16' is negative"),
        ("philly", PHILLY.replace("2017-10-09 07:01:55", "1e300"), "'1e300' is not a time"),
        ("gavel", "a\tb\n", "2 columns separated by tabs"),
        ("simkube", "text", "not a SimKube trace"),
    ],
)
def test_problem_of_an_import_is_reported(tmp_path: Path, format_: str, text: str, message: str) -> None:
    (tmp_path / "table.json").write_bytes(msgspec.json.encode(THROUGHPUTS))
    with pytest.raises(InputError) as caught:
        read(tmp_path, format_, text, throughputs=str(tmp_path / "table.json"))
    assert message in str(caught.value)


MAPPING = {"columns": {"arrives": "t", "runs": {"column": "minutes", "times": 60}, "cpuMilli": {"value": 250}}}


def test_any_table_is_read_by_a_mapping(tmp_path: Path) -> None:
    mapping = msgspec.convert(MAPPING, TraceMapping)
    (tmp_path / "mine.csv").write_text("t,minutes\n20,2\n5,1\n")
    write_parquet(tmp_path / "mine.parquet", [{"t": 20, "minutes": 2.0}, {"t": 5, "minutes": 1.0}])
    expected = [(0.0, 60.0, 250), (15.0, 120.0, 250)]
    for name in ("mine.csv", "mine.parquet"):
        pods = sort_by_arrival(import_table(tmp_path / name, mapping))
        assert [(pod.arrives, pod.runs, pod.cpu_milli) for pod in pods] == expected, name


EXPERIMENT = """
name: mapped
traces: [{name: mine, file: mine.csv, mapping: %s}]
clusters: [{name: c, pools: [{name: p, count: 1, cpu: 4, memory: 8Gi}]}]
configurations: [{name: default}]
"""


def test_experiment_contains_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("t,minutes\n20,2\n5,1\n")
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT % msgspec.json.encode(MAPPING).decode())
    (trial,) = load_experiment(path).trials(seeds=(1,))
    assert [pod.arrives for pod in trial.trace.pods] == [0.0, 15.0]
    path.write_text(EXPERIMENT % "{columns: {arive: t}}")
    with pytest.raises(InputError, match="did you mean 'arrives'"):
        load_experiment(path)


def test_query_selects_rows(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "mine.csv").write_text("t,minutes\n20,2\n5,1\n")
    entry = "query: \"SELECT t, minutes FROM 'mine.csv' WHERE t > 10\""
    text = EXPERIMENT.replace("file: mine.csv", entry) % msgspec.json.encode(MAPPING).decode()
    (tmp_path / "e.yaml").write_text(text)
    (trial,) = load_experiment(tmp_path / "e.yaml").trials(seeds=(1,))
    assert [pod.runs for pod in trial.trace.pods] == [120.0]


def test_command_writes_a_sorted_trace_and_reports_omitted_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text(HELIOS)
    arguments = ["lab", "import", "helios", "--pods", str(tmp_path / "log.csv"), "--out", str(tmp_path / "t.jsonl")]
    assert moorage(arguments) == 0
    assert "2 pods (1 multi-pod job) requesting 16 GPUs, arriving within" in (output := capsys.readouterr().out)
    assert "1 rows without start_time" in output
    assert [pod.arrives for pod in read_trace(tmp_path / "t.jsonl").pods] == [0.0, 0.0]
    (tmp_path / "log.csv").write_text(HELIOS.splitlines()[0] + "\n")
    assert moorage(arguments) == 2
    assert "there are no pods in the list" in capsys.readouterr().err
