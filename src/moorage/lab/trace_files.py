"""Traces in files: JSON lines, CSV or Parquet, selected by the file extension."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.common.errors import InputError, QuantityError
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.quantity import nano_value
from moorage.lab.formats import (
    LOWEST_PRIORITY,
    MOST_GPUS,
    CsvLine,
    decode_line,
    duplicate_name,
    find_column,
    read_csv,
    read_json_lines,
    read_parquet,
    report_unwritable,
    write_csv,
    write_parquet,
)
from moorage.lab.trace import NodeOutage, Trace, TracePod, make_spec

COLUMNS: Final = (
    *("name", "arrives", "runs", "cpuMilli", "memoryMib", "gpus", "gpuMilli", "gpuModels", "class", "priority"),
    *("fails", "namespace", "app"),
)
"""The columns of a trace in CSV; only the name is required. ``app`` becomes a label."""
_POD: Final = msgspec.json.Decoder(TracePod)
_OUTAGE: Final = msgspec.json.Decoder(NodeOutage)
LocatedPod = tuple[Callable[[str], str], TracePod]
"""A pod, and a function that returns the location of one of its fields."""


def read_trace(path: Path, name: str = "") -> Trace:
    """Read a trace; raise InputError with file, line and column of a problem."""
    outages: list[NodeOutage] = []
    entries: Iterable[LocatedPod]
    if path.suffix == ".csv":
        entries = ((line.at, _parse_csv(line)) for line in read_csv(path, ("name",), COLUMNS))
    elif path.suffix == ".parquet":
        entries = (
            (partial("{}, column {}".format, location), _parse_record(record, location))
            for location, record in read_parquet(path)
        )
    else:
        entries = _read_json(path, outages)
    pods = tuple(_check(entries))
    if not pods:
        raise InputError(str(path), "there are no pods in the trace", hint="write one on each line")
    return Trace(name or path.name.split(".")[0], pods, tuple(outages))


def _read_json(path: Path, outages: list[NodeOutage]) -> Iterator[LocatedPod]:
    """Yield the pods; add the outages to a list."""
    for location, raw in read_json_lines(path, msgspec.Raw):
        line = bytes(raw).decode()
        if '"node"' in line and '"name"' not in line:
            outages.append(decode_line(_OUTAGE, line, location))
            continue
        pod = decode_line(_POD, line, location)
        if pod.gpus and '"gpuMilli"' not in line:
            pod = msgspec.structs.replace(pod, gpu_milli=WHOLE_GPU)
        yield partial(_locate_in_json, location, line), pod


def _locate_in_json(location: str, line: str, field: str) -> str:
    return f"{location}, column {find_column(line, field)} ({field})"


def _parse_csv(line: CsvLine) -> TracePod:
    gpus = line.integer("gpus", 0, most=MOST_GPUS)
    return TracePod(
        name=line.text("name"),
        arrives=line.number("arrives", 0.0),
        runs=line.number("runs") if line.text("runs") else None,
        cpu_milli=line.integer("cpuMilli", 0),
        memory_mib=line.integer("memoryMib", 0),
        gpus=gpus,
        gpu_milli=line.integer("gpuMilli", WHOLE_GPU if gpus else 0),
        gpu_models=split_models(line.text("gpuModels")),
        kind=line.text("class"),
        priority=line.integer("priority", 0, least=LOWEST_PRIORITY),
        fails=line.integer("fails", 0),
        namespace=line.text("namespace", "default"),
        labels={"app": line.text("app")} if line.text("app") else {},
    )


def split_models(text: str) -> tuple[str, ...]:
    """Split GPU models that are joined by a bar."""
    return tuple(model.strip() for model in text.split("|") if model.strip())


def _parse_record(record: dict[str, Any], location: str) -> TracePod:
    fields = {name: value for name, value in record.items() if value is not None}
    if isinstance(fields.get("gpuModels"), str):
        fields["gpuModels"] = split_models(fields["gpuModels"])
    if app := fields.pop("app", ""):
        fields["labels"] = {"app": app}
    if fields.get("gpus"):
        fields.setdefault("gpuMilli", WHOLE_GPU)
    try:
        return msgspec.convert(fields, TracePod)
    except msgspec.ValidationError as error:
        raise InputError(location, str(error)) from error


def _check(entries: Iterable[LocatedPod]) -> Iterator[TracePod]:
    """Yield the pods; raise InputError for duplicate names, impossible GPU requests and invalid specs."""
    locations: dict[str, str] = {}
    for at, pod in entries:
        if not pod.name:
            raise InputError(at("name"), "the pod has no name")
        if pod.name in locations:
            raise duplicate_name(at("name"), "pod", pod.name, locations[pod.name])
        locations[pod.name] = at("name")
        if pod.gpus and not 0 < pod.gpu_milli <= WHOLE_GPU:
            problem = f"pod {pod.name} requests {pod.gpu_milli} thousandths of each GPU"
            raise InputError(at("gpuMilli"), problem, hint="write gpuMilli from 1 to 1000; 1000 is a whole GPU")
        if pod.gpu_milli and not pod.gpus:
            raise InputError(at("gpuMilli"), f"pod {pod.name} has gpuMilli without gpus", hint="add gpus")
        for name, quantity in pod.requests.items():
            try:
                nano_value(quantity)
            except QuantityError as error:
                raise InputError(at("requests"), f"{name}: {error}") from error
        if pod.spec:
            try:
                make_spec(pod)
            except msgspec.ValidationError as error:
                raise InputError(at("spec"), str(error), hint="write it as in a pod") from error
        yield pod


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace; the file extension selects the format."""
    if path.suffix == ".csv":
        write_csv(path, COLUMNS, map(_make_record, trace.pods))
        return
    with report_unwritable(path):
        if path.suffix == ".parquet":
            write_parquet(path, [_make_record(pod) for pod in trace.pods])
        else:
            encode = msgspec.json.Encoder().encode
            path.write_bytes(b"".join(encode(line) + b"\n" for line in (*trace.pods, *trace.outages)))


def _make_record(pod: TracePod) -> dict[str, Any]:
    fields = msgspec.to_builtins(pod)
    defaults = {"runs": None, "class": "", "namespace": "default", "arrives": 0.0}
    record = {name: fields.get(name, defaults.get(name, 0)) for name in COLUMNS}
    return record | {"gpuModels": "|".join(pod.gpu_models), "app": pod.labels.get("app", "")}
