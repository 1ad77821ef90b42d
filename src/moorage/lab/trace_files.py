"""Traces in files: JSON lines, CSV or Parquet, selected by the file extension; in memory, or read during a trial."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from heapq import merge
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError, QuantityError, describe_decode_error
from moorage.common.user_files import open_file
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
from moorage.lab.trace import APP_LABEL, NodeOutage, Trace, TraceFacts, TracePod, collect_facts, make_spec

COLUMNS: Final = (
    *("name", "arrives", "runs", "cpuMilli", "memoryMib", "gpus", "gpuMilli", "gpuModels", "class", "priority"),
    *("fails", "namespace", "app", "tenant", "job", "gang", "gangSize", "retries", "after", "maxPerNode"),
)
"""The columns of a trace in CSV. Only the name is required. ``app`` becomes a label."""
RECORD_DEFAULTS: Final = {
    **{"runs": None, "retries": None, "namespace": "default", "arrives": 0.0},
    **dict.fromkeys(("class", "tenant", "job", "gang"), ""),
}
"""The values of columns other than 0 that a pod does not set."""
_POD: Final = msgspec.json.Decoder(TracePod)
_OUTAGE: Final = msgspec.json.Decoder(NodeOutage)
LocatedPod = tuple[Callable[[str], str], TracePod]
"""A pod, and a function that returns the location of one of its fields."""


CHUNK: Final = 200_000
"""Number of pods that are sorted in memory, and rows of a Parquet batch."""


class PodFile(Struct, frozen=True):
    """The pods of a file. Each iteration rereads the file."""

    path: str

    def __iter__(self) -> Iterator[TracePod]:
        last = 0.0
        for at, pod in _locate_pods(Path(self.path), []):
            if pod.arrives < last:
                problem = f"pod {pod.name} arrives at {pod.arrives:g}, before the previous one"
                hint = "a streamed trace is sorted by arrival: `moorage lab import` sorts, or remove stream"
                raise InputError(at("arrives"), problem, hint=hint)
            last = pod.arrives
            yield pod


class StreamedTrace(Struct, frozen=True):
    """A trace that is larger than memory: its pods are sorted by arrival and read while the trial runs."""

    name: str
    pods: PodFile
    facts: TraceFacts
    digest: str
    """Digest of the file."""
    outages: tuple[NodeOutage, ...] = ()


def stream_trace(path: Path, name: str = "") -> StreamedTrace:
    """Check all lines of a sorted trace and collect its facts. Raise InputError for a problem."""
    pods = PodFile(str(path))
    outages: list[NodeOutage] = []
    if path.suffix not in (".csv", ".parquet"):
        # Outages are few: keep them, and reread the pods.
        for _ in _locate_pods(path, outages, check=False):
            pass
    facts = collect_facts(pods)
    if not facts.pods:
        raise InputError(str(path), "there are no pods in the trace", hint="write one on each line")
    digest = blake2b(digest_size=16)
    with open_file(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return StreamedTrace(name or path.name.split(".")[0], pods, facts, digest.hexdigest(), tuple(outages))


def sort_by_arrival(pods: Iterable[TracePod], chunk: int = CHUNK) -> Iterator[TracePod]:
    """Yield pods in the order of their arrival, from 0. Sorted chunks are stored in temporary files."""
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(TracePod).decode

    def read(file: BinaryIO) -> Iterator[TracePod]:
        while size := file.read(4):
            yield decode(file.read(int.from_bytes(size)))

    pod_iterator = iter(pods)
    with ExitStack() as stack:
        chunks: list[Iterator[TracePod]] = []
        while part := sorted(islice(pod_iterator, chunk), key=_arrival):
            if len(part) < chunk:
                chunks.append(iter(part))
                break
            file = stack.enter_context(TemporaryFile())
            for pod in part:
                data = encode(pod)
                file.write(len(data).to_bytes(4) + data)
            file.seek(0)
            chunks.append(read(file))
        first: float | None = None
        for pod in merge(*chunks, key=_arrival):
            first = pod.arrives if first is None else first
            yield replace(pod, arrives=pod.arrives - first) if first else pod


def _arrival(pod: TracePod) -> float:
    return pod.arrives


def read_trace(path: Path, name: str = "") -> Trace:
    """Read a trace. Raise InputError with file, line and column of a problem."""
    outages: list[NodeOutage] = []
    names: dict[str, str] = {}
    pods = tuple(pod for at, pod in _locate_pods(path, outages) if _is_unique(at, pod, names))
    if not pods:
        raise InputError(str(path), "there are no pods in the trace", hint="write one on each line")
    return Trace(name or path.name.split(".")[0], pods, tuple(outages))


def _is_unique(at: Callable[[str], str], pod: TracePod, locations: dict[str, str]) -> bool:
    """Return True. Raise InputError for a duplicate name."""
    if pod.name in locations:
        raise duplicate_name(at("name"), "pod", pod.name, locations[pod.name])
    locations[pod.name] = at("name")
    return True


def _locate_pods(path: Path, outages: list[NodeOutage], *, check: bool = True) -> Iterator[LocatedPod]:
    """Yield the pods of a file. Add the outages to a list."""
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
    return check_pods(entries) if check else iter(entries)


def _read_json(path: Path, outages: list[NodeOutage]) -> Iterator[LocatedPod]:
    """Yield the pods. Add the outages to a list."""
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
        tenant=line.text("tenant"),
        job=line.text("job"),
        gang=line.text("gang"),
        gang_size=line.integer("gangSize", 0),
        retries=line.integer("retries") if line.text("retries") else None,
        after=split_models(line.text("after")),
        max_per_node=line.integer("maxPerNode", 0),
    )


def split_models(text: str) -> tuple[str, ...]:
    """Split names that are joined by a bar."""
    return tuple(model.strip() for model in text.split("|") if model.strip())


def _parse_record(record: dict[str, Any], location: str) -> TracePod:
    fields = {name: value for name, value in record.items() if value is not None}
    for name in ("gpuModels", "after"):
        if isinstance(fields.get(name), str):
            fields[name] = split_models(fields[name])
    if app := fields.pop("app", ""):
        fields["labels"] = {"app": app}
    if fields.get("gpus"):
        fields.setdefault("gpuMilli", WHOLE_GPU)
    try:
        return msgspec.convert(fields, TracePod)
    except msgspec.ValidationError as error:
        raise InputError(location, describe_decode_error(error)) from error


def check_pods(entries: Iterable[LocatedPod]) -> Iterator[LocatedPod]:
    """Yield the pods. Raise InputError for impossible requests, invalid gangs and invalid specs."""
    for at, pod in entries:
        if not pod.name:
            raise InputError(at("name"), "the pod has no name")
        if bool(pod.gang) != bool(pod.gang_size):
            missing_field = "gangSize" if pod.gang else "gang"
            raise InputError(
                at(missing_field), f"pod {pod.name} has no {missing_field}", hint="write both gang and gangSize"
            )
        if pod.max_per_node and not pod.labels.get(APP_LABEL):
            raise InputError(at("maxPerNode"), f"pod {pod.name} has no label app", hint="add it to labels")
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
                raise InputError(at("spec"), describe_decode_error(error), hint="write it as in a pod") from error
        yield at, pod


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace. The file extension selects the format."""
    write_pods(path, trace.pods, trace.outages)


def write_pods(path: Path, pods: Iterable[TracePod], outages: Sequence[NodeOutage] = ()) -> None:
    """Write pods one by one; CSV and Parquet have no outages."""
    if path.suffix == ".csv":
        write_csv(path, COLUMNS, map(_make_record, pods))
        return
    with report_unwritable(path):
        if path.suffix == ".parquet":
            write_parquet(path, map(_make_record, pods))
            return
        encode = msgspec.json.Encoder().encode
        with path.open("wb") as file:
            file.writelines(encode(line) + b"\n" for lines in (pods, outages) for line in lines)


def _make_record(pod: TracePod) -> dict[str, Any]:
    fields = msgspec.to_builtins(pod)
    record = {name: fields.get(name, RECORD_DEFAULTS.get(name, 0)) for name in COLUMNS}
    joined = {"gpuModels": "|".join(pod.gpu_models), "after": "|".join(pod.after)}
    return record | joined | {"app": pod.labels.get(APP_LABEL, "")}
