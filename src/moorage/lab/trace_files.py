"""Traces in files: JSON lines, CSV or Parquet, by the ending of the name."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.common.errors import InputError, QuantityError
from moorage.kube.api.quantity import nano_value
from moorage.lab.amounts import LOWEST_PRIORITY, MOST_GPUS
from moorage.lab.lines import CsvLine, column_of, decode_line, named_twice, read_csv, read_json_lines
from moorage.lab.parquet import read_parquet, write_parquet
from moorage.lab.pods import spec_of
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
WHOLE: Final = 1000
Placed = tuple[Callable[[str], str], TracePod]
"""A pod, and a function that reports errors in its fields with their place."""


def read_trace(path: Path, name: str = "") -> Trace:
    """Read a trace; raise InputError with file, line and column of a problem."""
    trace_name = name or path.name.split(".")[0]
    outages: list[NodeOutage] = []
    if path.suffix == CSV:
        entries = _from_csv(path)
    elif path.suffix == PARQUET:
        entries = _from_parquet(path)
    else:
        entries = _from_json(path, outages)
    pods = tuple(_checked(entries))
    if not pods:
        raise InputError(str(path), "there are no pods in the trace", hint="write one on each line")
    return Trace(trace_name, pods, tuple(outages))


def _from_json(path: Path, outages: list[NodeOutage]) -> Iterator[Placed]:
    """Read pods; nodes that are gone for a while are put aside."""
    for location, raw in read_json_lines(path, msgspec.Raw):
        line = bytes(raw).decode()
        if '"node"' in line and '"name"' not in line:
            outages.append(decode_line(_OUTAGE, line, location))
            continue
        pod = decode_line(_POD, line, location)
        if pod.gpus and '"gpuMilli"' not in line:
            pod = msgspec.structs.replace(pod, gpu_milli=WHOLE)
        yield partial(_in_json, location, line), pod


def _in_json(location: str, line: str, field: str) -> str:
    return f"{location}, column {column_of(line, field)} ({field})"


def _from_parquet(path: Path) -> Iterator[Placed]:
    for location, record in read_parquet(path):
        yield partial("{}, column {}".format, location), _from_record(record, location)


def _from_csv(path: Path) -> Iterator[Placed]:
    for line in read_csv(path, ("name",), COLUMNS):
        yield line.at, _pod_of(line)


def _pod_of(line: CsvLine) -> TracePod:
    gpus = line.integer("gpus", 0, most=MOST_GPUS)
    return TracePod(
        name=line.text("name"),
        arrives=line.number("arrives", 0.0),
        runs=line.number("runs") if line.text("runs") else None,
        cpu_milli=line.integer("cpuMilli", 0),
        memory_mib=line.integer("memoryMib", 0),
        gpus=gpus,
        gpu_milli=line.integer("gpuMilli", WHOLE if gpus else 0),
        gpu_models=models_of(line.text("gpuModels")),
        kind=line.text("class"),
        priority=line.integer("priority", 0, least=LOWEST_PRIORITY),
        fails=line.integer("fails", 0),
        namespace=line.text("namespace", "default"),
        labels={"app": line.text("app")} if line.text("app") else {},
    )


def models_of(text: str) -> tuple[str, ...]:
    """Read models of GPUs that are joined by a bar."""
    return tuple(model.strip() for model in text.split("|") if model.strip())


def _from_record(record: dict[str, Any], location: str) -> TracePod:
    fields = {name: value for name, value in record.items() if value is not None}
    if isinstance(fields.get("gpuModels"), str):
        fields["gpuModels"] = models_of(fields["gpuModels"])
    if app := fields.pop("app", ""):
        fields["labels"] = {"app": app}
    if fields.get("gpus"):
        fields.setdefault("gpuMilli", WHOLE)
    try:
        return msgspec.convert(fields, TracePod)
    except msgspec.ValidationError as error:
        raise InputError(location, str(error)) from error


def _checked(entries: Iterable[Placed]) -> Iterator[TracePod]:
    """Refuse what no cluster could have: two pods of one name, GPUs that are more than whole."""
    locations: dict[str, str] = {}
    for at, pod in entries:
        if not pod.name:
            raise InputError(at("name"), "the pod has no name")
        if pod.name in locations:
            raise named_twice(at("name"), "pod", pod.name, locations[pod.name])
        locations[pod.name] = at("name")
        if pod.gpus and not 0 < pod.gpu_milli <= WHOLE:
            problem = f"pod {pod.name} requests {pod.gpu_milli} thousandths of each GPU"
            raise InputError(at("gpuMilli"), problem, hint="write gpuMilli from 1 to 1000; 1000 is a whole GPU")
        if pod.gpu_milli and not pod.gpus:
            raise InputError(at("gpuMilli"), f"pod {pod.name} requests a part of no GPU", hint="write gpus as well")
        _check_spec(pod, at)
        yield pod


def _check_spec(pod: TracePod, at: Callable[[str], str]) -> None:
    for name, quantity in pod.requests.items():
        try:
            nano_value(quantity)
        except QuantityError as error:
            raise InputError(at("requests"), f"{name}: {error}") from error
    if pod.spec:
        try:
            spec_of(pod)
        except msgspec.ValidationError as error:
            raise InputError(at("spec"), str(error), hint="write it as in a pod") from error


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace; the file extension selects the format."""
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
