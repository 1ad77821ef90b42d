"""Traces in files: JSON lines, CSV or Parquet, by the ending of the name."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.errors import InputError
from moorage.lab.lines import CsvLine, decode_line, read_csv, read_json_lines
from moorage.lab.parquet import read_parquet, write_parquet
from moorage.lab.trace import NodeOutage, Trace, TracePod

COLUMNS: Final = (
    *("name", "arrives", "runs", "cpuMilli", "memoryMib", "gpus", "gpuMilli", "gpuModels", "class", "priority"),
    *("fails", "namespace", "app"),
)
"""The columns of a trace in CSV; only the name has to be there. ``app`` becomes a label."""
PARQUET: Final = ".parquet"
CSV: Final = ".csv"
_POD: Final = msgspec.json.Decoder(TracePod)
_OUTAGE: Final = msgspec.json.Decoder(NodeOutage)


def read_trace(path: Path, name: str = "") -> Trace:
    """Read a trace; InputError says what is wrong, with file, line and column."""
    named = name or path.name.split(".")[0]
    outages: list[NodeOutage] = []
    if path.suffix == CSV:
        pods = list(_from_csv(path))
    elif path.suffix == PARQUET:
        pods = [_from_record(record, place) for place, record in read_parquet(path)]
    else:
        lines = list(_from_json(path))
        pods = [line for _, line in lines if isinstance(line, TracePod)]
        outages = [line for _, line in lines if isinstance(line, NodeOutage)]
    _check(pods, path)
    return Trace(named, tuple(pods), tuple(outages))


def _from_json(path: Path) -> Iterator[tuple[str, TracePod | NodeOutage]]:
    for place, raw in read_json_lines(path, msgspec.Raw):
        line = bytes(raw).decode()
        is_outage = '"node"' in line and '"name"' not in line
        decoder: msgspec.json.Decoder[Any] = _OUTAGE if is_outage else _POD
        yield place, decode_line(decoder, line, place)


def _from_csv(path: Path) -> Iterator[TracePod]:
    for line in read_csv(path, ("name",), COLUMNS):
        yield _pod_of(line)


def _pod_of(line: CsvLine) -> TracePod:
    name = line.text("name")
    if not name:
        raise InputError(line.at("name"), "the pod has no name")
    gpus = line.integer("gpus", 0)
    return TracePod(
        name=name,
        arrives=line.number("arrives", 0.0),
        runs=line.number("runs") if line.text("runs") else None,
        cpu_milli=line.integer("cpuMilli", 0),
        memory_mib=line.integer("memoryMib", 0),
        gpus=gpus,
        gpu_milli=line.integer("gpuMilli", 1000 if gpus else 0),
        gpu_models=models_of(line.text("gpuModels")),
        kind=line.text("class"),
        priority=line.integer("priority", 0),
        fails=line.integer("fails", 0),
        namespace=line.text("namespace", "default"),
        labels={"app": line.text("app")} if line.text("app") else {},
    )


def models_of(text: str) -> tuple[str, ...]:
    """Read models of GPUs that are joined by a bar."""
    return tuple(model.strip() for model in text.split("|") if model.strip())


def _from_record(record: dict[str, Any], place: str) -> TracePod:
    given = {name: value for name, value in record.items() if value is not None}
    if isinstance(given.get("gpuModels"), str):
        given["gpuModels"] = models_of(given["gpuModels"])
    if app := given.pop("app", ""):
        given["labels"] = {"app": app}
    try:
        return msgspec.convert(given, TracePod)
    except msgspec.ValidationError as error:
        raise InputError(place, str(error)) from error


def _check(pods: list[TracePod], path: Path) -> None:
    """Refuse what no cluster could have: two pods of one name, GPUs that are more than whole."""
    seen: set[str] = set()
    for pod in pods:
        if pod.name in seen:
            raise InputError(str(path), f"there are two pods named {pod.name!r}", hint="name one of them differently")
        seen.add(pod.name)
        if pod.gpus and not 0 < pod.gpu_milli <= 1000:
            problem = f"pod {pod.name} asks for {pod.gpu_milli} thousandths of each GPU"
            raise InputError(str(path), problem, hint="write gpuMilli from 1 to 1000; 1000 is a whole GPU")


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace in the form that the ending of the name asks for."""
    try:
        if path.suffix == CSV:
            _write_csv(path, trace.pods)
        elif path.suffix == PARQUET:
            write_parquet(path, [_record_of(pod) for pod in trace.pods])
        else:
            encode = msgspec.json.Encoder().encode
            path.write_bytes(b"".join(encode(line) + b"\n" for line in (*trace.pods, *trace.outages)))
    except OSError as error:
        raise InputError(str(path), f"the file cannot be written: {error.strerror}") from error


def _write_csv(path: Path, pods: Iterable[TracePod]) -> None:
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for pod in pods:
            writer.writerow(_record_of(pod))


def _record_of(pod: TracePod) -> dict[str, Any]:
    return {
        "name": pod.name,
        "arrives": pod.arrives,
        "runs": pod.runs,
        "cpuMilli": pod.cpu_milli,
        "memoryMib": pod.memory_mib,
        "gpus": pod.gpus,
        "gpuMilli": pod.gpu_milli,
        "gpuModels": "|".join(pod.gpu_models),
        "class": pod.kind,
        "priority": pod.priority,
        "fails": pod.fails,
        "namespace": pod.namespace,
        "app": pod.labels.get("app", ""),
    }
