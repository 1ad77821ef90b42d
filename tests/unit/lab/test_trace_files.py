"""Trace files: formats and errors."""

from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.lab.formats import MAX_LINE, pyarrow_or_none
from moorage.lab.generating import generate
from moorage.lab.trace import NodeOutage, PodMaker, Trace, TracePod
from moorage.lab.trace_files import read_trace, write_trace


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text", "message"),
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
        ("t.csv", "", "line 1, column 1: the file is empty"),
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
        ("t.csv", "name\n" + "a" * (MAX_LINE + 1), "line 2: the line is longer than 16 MiB"),
        ("t.jsonl", "\0" * (MAX_LINE + 1), "line 1: the line is longer than 16 MiB"),
    ],
)
def test_broken_line_is_reported_with_file_line_and_column(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_invalid_byte_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"name\na\nb\xe9\n")
    with pytest.raises(InputError, match="line 3, column 2: the file is not UTF-8"):
        read_trace(path)


def test_gpus_are_not_shared_by_default_and_priorities_may_be_negative(tmp_path: Path) -> None:
    lines = write(tmp_path / "t.jsonl", '{"name":"a","gpus":2,"priority":-5}\n')
    table = write(tmp_path / "t.csv", "name,gpus,priority\na,2,-5\n")
    assert read_trace(lines).pods == read_trace(table).pods == (TracePod("a", gpus=2, gpu_milli=1000, priority=-5),)


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_written_trace_is_read_back(tmp_path: Path, ending: str) -> None:
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
