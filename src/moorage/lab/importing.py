"""Imports public traces: by a mapping of columns, or by a reader for formats that are not tables."""

from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain
from math import ceil, isfinite
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import InputError, QuantityError, did_you_mean
from moorage.common.user_files import MAX_OBJECTS, read_file
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.quantity import nano_value
from moorage.lab.formats import MOST, MOST_GPUS, Count, GpuCount, read_csv, read_parquet
from moorage.lab.openb import import_pods as import_openb
from moorage.lab.trace import APP_LABEL, TracePod
from moorage.lab.trace_files import LocatedPod, check_pods, split_models

TEXTS: Final = ("name", "class", "tenant", "job", "gang", "namespace", "app")
TIMES: Final = ("arrives", "starts", "ends")
NUMBERS: Final = ("runs", "cpuMilli", "memoryMib", "gpus", "gpuMilli", "gpuShare", "priority", "pods", "maxPerNode")
FIELDS: Final = (*TEXTS, *TIMES, *NUMBERS, "gpuModels")
"""The fields that a mapping can set. Without ``runs``, ``ends`` less ``starts`` (or ``arrives``) is the duration."""
MAX_ROW_PODS: Final = 100_000
"""Pods of one row of a table."""
NOTHING: Final = frozenset({"", "nan", "none", "null", "nat"})
"""Cells without a value, in lower case."""


class ColumnRule(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The source of a field: a column, multiplied by a factor, or a constant value."""

    column: str = ""
    times: float = 1.0
    value: str | float | None = None
    """The value without a column, or of empty cells."""


class TraceMapping(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Describes how the rows of a table become pods. A row with several pods is a gang."""

    columns: dict[str, str | ColumnRule] = {}
    """The column of each field, or a rule."""
    header: tuple[str, ...] = ()
    """The names of the columns, if the file has none."""
    separator: str = ","
    required: tuple[str, ...] = ()
    """Columns that must not be empty. Rows with empty cells are excluded."""
    keep: dict[str, tuple[str, ...]] = {}
    """Only rows with one of these values in a column."""
    gpus_per_pod: GpuCount = 0
    """Split the GPUs of a row into pods with at most this number."""
    cpu_milli_per_gpu: Count = 0
    memory_mib_per_gpu: Count = 0
    shared_total: bool = False
    """Whether ``gpus``, ``cpuMilli`` and ``memoryMib`` are those of all pods of a row."""
    requests: dict[str, str | ColumnRule] = {}
    """Additional resources and their columns."""


FORMATS: Final[dict[str, TraceMapping]] = {
    # Philly as simulators use it: timestamp, duration, num_gpus, gpu_time, cluster (the virtual cluster).
    "philly": TraceMapping(
        {"arrives": "timestamp", "runs": "duration", "gpus": "num_gpus", "tenant": "cluster"}, gpus_per_pod=8
    ),
    # The totals of a job are divided by its nodes.
    "helios": TraceMapping(
        {
            **{"name": "job_id", "arrives": "submit_time", "runs": "duration", "gpus": "gpu_num", "pods": "node_num"},
            **{"cpuMilli": ColumnRule("cpu_num", 1000.0), "tenant": "vc", "class": "state"},
        },
        required=("start_time",),
        shared_total=True,
    ),
    "acme": TraceMapping(
        {
            **{"name": "job_id", "arrives": "submit_time", "runs": "duration", "gpus": "gpu_num", "pods": "node_num"},
            **{"cpuMilli": ColumnRule("cpu_num", 1000.0), "tenant": "user", "class": "type"},
        },
        required=("start_time",),
        shared_total=True,
    ),
    # pai_task_table.csv of 2020: plan_cpu and plan_gpu are percentages of an instance. There is no header.
    "pai": TraceMapping(
        {
            **{"job": "job_name", "arrives": "start_time", "ends": "end_time", "pods": "inst_num"},
            **{"cpuMilli": ColumnRule("plan_cpu", 10.0), "memoryMib": ColumnRule("plan_mem", 1024.0)},
            **{"gpuShare": ColumnRule("plan_gpu", 10.0), "class": "task_name", "gpuModels": "gpu_type"},
        },
        header=(
            *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
            *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
        ),
        required=("start_time", "inst_num"),
    ),
    # Instances of services. Those without a creation time exist at the start.
    "dlrm": TraceMapping(
        {
            **{"name": "instance_sn", "app": "app_name", "class": "role", "tenant": "app_name"},
            **{"arrives": ColumnRule("creation_time", value=0.0), "starts": "scheduled_time", "ends": "deletion_time"},
            **{"cpuMilli": ColumnRule("cpu_request", 1000.0), "memoryMib": ColumnRule("memory_request", 1024.0)},
            **{"gpus": "gpu_request", "maxPerNode": "max_instance_per_node"},
        },
        requests={"alibaba.com/rdma": "rdma_request", "alibaba.com/disk": "disk_request"},
    ),
}
"""The mappings of public formats, by their published columns."""


class ImportOptions(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Settings that a format does not contain."""

    cpu_milli_per_gpu: Count = 0
    memory_mib_per_gpu: Count = 0
    gpus_per_pod: GpuCount = 0
    throughputs: str = ""
    """gavel: the JSON file with the steps per second of each job type."""
    worker: str = "v100"
    """gavel: the GPU model of the table."""
    as_gangs: bool = True
    """Whether the pods of a job start together."""


class Skipped:
    """Counts the rows that an import omits, by reason."""

    def __init__(self) -> None:
        self.reasons: dict[str, int] = {}

    def add(self, reason: str) -> None:
        """Count one row."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


def find_formats() -> list[str]:
    """Return the names of all formats."""
    return sorted((*FORMATS, *READERS))


def import_pods(
    format_: str, path: Path, options: ImportOptions | None = None, skipped: Skipped | None = None
) -> Iterator[TracePod]:
    """Yield the pods of a public trace in the order of its file. Raise InputError for a problem."""
    options, skipped = options or ImportOptions(), skipped or Skipped()
    if format_ in READERS:
        return READERS[format_](path, options, skipped)
    mapping = FORMATS.get(format_)
    if mapping is None:
        hint = did_you_mean(format_, find_formats()) or f"use one of {', '.join(find_formats())}."
        hint += " For other tables, use a mapping (see the page 'Import traces' of the documentation)"
        raise InputError("format", f"{format_!r} is not supported", hint=hint)
    settings = {
        name: value
        for name in ("cpu_milli_per_gpu", "memory_mib_per_gpu", "gpus_per_pod")
        if (value := getattr(options, name))
    }
    return import_table(path, replace(mapping, **settings), skipped, as_gangs=options.as_gangs)


def import_table(
    path: Path, mapping: TraceMapping, skipped: Skipped | None = None, *, as_gangs: bool = True
) -> Iterator[TracePod]:
    """Yield the pods of a CSV or Parquet file by a mapping."""
    rows = _read_parquet(path, mapping) if path.suffix == ".parquet" else _read_table(path, mapping)
    return import_rows(rows, mapping, path.name.split(".")[0], skipped, as_gangs=as_gangs)


def import_query(query: str, mapping: TraceMapping, directory: Path, location: str) -> Iterator[TracePod]:
    """Yield the pods of the result of a DuckDB query. Files in the query are relative to a directory."""
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise InputError(location, "DuckDB is not installed", hint="pip install 'moorage[duckdb]'") from None
    with duckdb.connect() as connection:
        try:
            connection.execute("SET file_search_path = ?", [str(directory.resolve())])
            result = connection.execute(query)
            names = [column[0] for column in result.description]
            _check_columns(mapping, names, location)
            rows = _fetch(result, names, location)
            yield from import_rows(rows, mapping, "row", None)
        except duckdb.Error as error:
            raise InputError(location, f"the query failed: {error}") from error


def _fetch(result: Any, names: list[str], location: str) -> Iterator["Row"]:
    number = 0
    while batch := result.fetchmany(10_000):
        for values in batch:
            number += 1
            yield Row(f"{location}, row {number}", dict(zip(names, values, strict=True)))


class Row(Struct, frozen=True):
    """One row of a table, with its location for messages."""

    location: str
    cells: Mapping[str, Any]

    def text(self, column: str) -> str:
        """Return a cell as text, or empty without a value."""
        text = str(self.cells.get(column, "")).strip()
        return "" if text.lower() in NOTHING else text

    def at(self, column: str) -> str:
        """Return the location of a cell."""
        return f"{self.location}, column {column}"


def _used_columns(mapping: TraceMapping) -> dict[str, str]:
    """Return the columns that a mapping reads, with the field of each."""
    rules = {**mapping.columns, **mapping.requests}
    fields = {rule if isinstance(rule, str) else rule.column: field for field, rule in rules.items()}
    fields.update(dict.fromkeys((*mapping.required, *mapping.keep), ""))
    fields.pop("", None)
    return fields


def check_mapping(mapping: TraceMapping, location: str) -> None:
    """Raise InputError for unknown fields of a mapping, and for one without any."""
    for field in mapping.columns:
        if field not in FIELDS:
            hint = did_you_mean(field, FIELDS) or f"write one of {', '.join(FIELDS)}"
            raise InputError(f"{location}.columns", f"unknown field {field!r}", hint=hint)
    if not mapping.columns:
        raise InputError(
            location, "the mapping has no columns", hint="write columns: {arrives: COLUMN, cpuMilli: COLUMN}"
        )
    if len(mapping.separator) != 1:
        raise InputError(
            f"{location}.separator", f"{mapping.separator!r} is not one character", hint='write "\\t" for tabs'
        )


def _check_columns(mapping: TraceMapping, names: list[str], location: str) -> None:
    for column in _used_columns(mapping):
        if column not in names:
            hint = did_you_mean(column, names) or f"the columns are {', '.join(names)}"
            raise InputError(location, f"unknown column {column!r}", hint=hint)


def _read_table(path: Path, mapping: TraceMapping) -> Iterator[Row]:
    is_checked = False
    for line in read_csv(path, (), (), separator=mapping.separator, header=mapping.header):
        if not is_checked:
            _check_columns(mapping, list(line.columns), f"{path}, line 1")
            is_checked = True
        yield Row(line.location, line.cells)


def _read_parquet(path: Path, mapping: TraceMapping) -> Iterator[Row]:
    for number, (location, cells) in enumerate(read_parquet(path)):
        if not number:
            _check_columns(mapping, list(cells), str(path))
        yield Row(location, cells)


def import_rows(
    rows: Iterable[Row], mapping: TraceMapping, prefix: str, skipped: Skipped | None, *, as_gangs: bool = True
) -> Iterator[TracePod]:
    """Yield the pods of rows. Names are unique, and a row without a name gets a number."""
    names: set[str] = set()
    skipped = skipped or Skipped()

    def convert() -> Iterator[LocatedPod]:
        for number, row in enumerate(rows):
            empty = next((column for column in mapping.required if not row.text(column)), None)
            mismatch = next((column for column, values in mapping.keep.items() if row.text(column) not in values), None)
            if empty is not None or mismatch is not None:
                skipped.add(f"without {empty}" if empty is not None else f"with other values of {mismatch}")
                continue
            yield from ((row.at, pod) for pod in _make_pods(row, mapping, f"{prefix}-{number}", as_gangs=as_gangs))

    for _, pod in check_pods(convert()):
        name = pod.name if pod.name not in names else f"{pod.name}-again-{len(names)}"
        names.add(name)
        yield replace(pod, name=name)


def _make_pods(row: Row, mapping: TraceMapping, default: str, *, as_gangs: bool) -> Iterator[TracePod]:
    get = _Fields(row, mapping.columns)
    arrives = get.time("arrives") or 0.0
    runs = get.number("runs")
    ends = get.time("ends")
    if runs is None and ends is not None:
        starts = get.time("starts")
        runs = ends - (arrives if starts is None else starts)
    job = get.text("job")
    name = get.text("name") or default
    gpus, share = round(get.amount("gpus")), get.number("gpuShare")
    milli = round(get.amount("gpuMilli") or WHOLE_GPU)
    if share is not None:
        # Thousandths of all GPUs of a pod: a part of a GPU, or complete GPUs.
        gpus, milli = (ceil(share / WHOLE_GPU), min(WHOLE_GPU, round(share))) if share > 0 else (0, 0)
    cpu, memory = get.amount("cpuMilli"), get.amount("memoryMib")
    pods = max(1, round(get.number("pods") or 1))
    if mapping.gpus_per_pod and gpus > mapping.gpus_per_pod:
        pods = max(pods, ceil(gpus / mapping.gpus_per_pod))
    if pods > MAX_ROW_PODS:
        hint = "split the row; for pods that do not start together, write a row for each"
        raise InputError(row.location, f"{pods:,} pods in one row; the limit is {MAX_ROW_PODS:,}", hint=hint)
    if mapping.shared_total or mapping.gpus_per_pod:
        gpus, cpu, memory = ceil(gpus / pods), cpu / pods, memory / pods
    if gpus > MOST_GPUS:
        raise InputError(row.at("gpus"), f"{gpus} GPUs for one pod", hint="write gpusPerPod")
    app, limit = get.text("app"), get.number("maxPerNode") or 0.0
    pod = TracePod(
        name=name,
        arrives=arrives,
        runs=None if runs is None else max(0.0, runs),
        cpu_milli=round(cpu) or mapping.cpu_milli_per_gpu * gpus,
        memory_mib=round(memory) or mapping.memory_mib_per_gpu * gpus,
        gpus=gpus,
        gpu_milli=milli if gpus else 0,
        gpu_models=split_models(get.text("gpuModels")) if gpus else (),
        kind=get.text("class"),
        tenant=get.text("tenant"),
        priority=round(get.number("priority") or 0),
        job=job or (name if pods > 1 else ""),
        gang=get.text("gang"),
        namespace=get.text("namespace") or "default",
        labels={APP_LABEL: app} if app else {},
        max_per_node=max(0, round(limit)),
        requests={
            resource: amount
            for resource in mapping.requests
            if (amount := ceil(_Fields(row, mapping.requests).amount(resource))) > 0
        },
    )
    if pods == 1:
        yield pod
        return
    group = {"gang": pod.gang or name, "gang_size": pods} if as_gangs else {}
    for index in range(pods):
        yield replace(pod, name=f"{name}-{index}", **group)


class _Fields:
    """Reads the fields of a row."""

    def __init__(self, row: Row, rules: Mapping[str, str | ColumnRule]) -> None:
        self._row, self._rules = row, rules

    def _find(self, field: str) -> tuple[str, ColumnRule]:
        rule = self._rules.get(field, ColumnRule())
        rule = ColumnRule(rule) if isinstance(rule, str) else rule
        text = self._row.text(rule.column) if rule.column else ""
        return text or ("" if rule.value is None else str(rule.value)), rule

    def text(self, field: str) -> str:
        return self._find(field)[0]

    def number(self, field: str) -> float | None:
        text, rule = self._find(field)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        location = self._row.at(rule.column or field)
        if not isfinite(number):
            raise InputError(location, f"{text!r} is not a number", hint="write a number")
        if abs(number * rule.times) > MOST:
            problem = f"{text[:40]!r} is out of range: {field} is at most {MOST:,}"
            raise InputError(location, problem, hint="write a smaller number, or the factor `times` of the column")
        return number * rule.times

    def amount(self, field: str) -> float:
        """Return a number of at least 0, which is the default. Raise InputError for a negative number."""
        number = self.number(field) or 0.0
        if number < 0:
            text, rule = self._find(field)
            hint = "remove the number, or exclude the row with the query of an experiment"
            raise InputError(self._row.at(rule.column or field), f"{text!r} is negative", hint=hint)
        return number

    def time(self, field: str) -> float | None:
        """Return seconds: of a number, or of a date and time (UTC without a zone)."""
        text, rule = self._find(field)
        if not text:
            return None
        try:
            seconds = float(text) * rule.times
            if abs(seconds) <= MOST:
                return seconds
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            hint = "write seconds, or a date such as 2017-10-09 07:01:55"
            raise InputError(self._row.at(rule.column or field), f"{text[:40]!r} is not a time", hint=hint) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _read_openb(path: Path, _options: ImportOptions, _skipped: Skipped) -> Iterator[TracePod]:
    yield from import_openb(path).pods


GAVEL_COLUMNS: Final = {
    7: ("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor"),
    9: (
        *("job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "scale_factor"),
        *("priority_weight", "SLO", "arrival_time"),
    ),
    10: (
        *("job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps"),
        *("scale_factor", "priority_weight", "SLO", "arrival_time"),
    ),
}
"""The columns of gavel's traces, by their number: the format changed twice."""


def _read_gavel(path: Path, options: ImportOptions, skipped: Skipped) -> Iterator[TracePod]:
    """Yield a gang of pods with one GPU for each job. Its duration follows from the table of throughputs."""
    table = _read_throughputs(options)
    content = read_file(path, limit=MAX_OBJECTS).decode(errors="replace")
    for number, line in enumerate(content.splitlines(), start=1):
        location = f"{path}, line {number}"
        cells = line.split("\t")
        names = GAVEL_COLUMNS.get(len(cells))
        if names is None:
            numbers = ", ".join(map(str, GAVEL_COLUMNS))
            raise InputError(location, f"{len(cells)} columns separated by tabs", hint=f"a gavel trace has {numbers}")
        row = _Fields(Row(location, dict(zip(names, cells, strict=True))), {name: name for name in names})
        workers, steps = round(row.number("scale_factor") or 0), row.number("total_steps") or 0.0
        if not workers:
            skipped.add("without workers")
            continue
        kind = row.text("job_type")
        speed = table.get((kind, workers)) or workers * table.get((kind, 1), 0.0)
        if not speed:
            skipped.add(f"without a throughput of {kind}")
            continue
        if (kind, workers) not in table:
            skipped.add("estimated: throughput of one worker times the number of workers (not omitted)")
        mapping = TraceMapping(
            {
                **{"name": ColumnRule(value=f"job-{number}"), "class": ColumnRule(value=kind.partition(" (")[0])},
                **{"arrives": "arrival_time", "runs": ColumnRule(value=steps / speed), "gpus": ColumnRule(value=1.0)},
                **{"pods": "scale_factor"},
            },
            cpu_milli_per_gpu=options.cpu_milli_per_gpu,
            memory_mib_per_gpu=options.memory_mib_per_gpu,
        )
        yield from _make_pods(row._row, mapping, "", as_gangs=options.as_gangs)


def _read_throughputs(options: ImportOptions) -> dict[tuple[str, int], float]:
    """Read gavel's JSON: worker type, then ``('job type', workers)``, then ``null`` for a job that runs alone."""
    if not options.throughputs:
        hint = "write --throughputs FILE: scheduler/simulation_throughputs.json of the gavel repository"
        raise InputError("gavel", "durations follow from a table of throughputs", hint=hint)
    path = Path(options.throughputs)
    try:
        content = msgspec.json.decode(read_file(path, limit=MAX_OBJECTS), type=dict[str, dict[str, dict[str, Any]]])
    except UNREADABLE as error:
        raise InputError(str(path), f"not a table of throughputs: {error}") from error
    if options.worker not in content:
        hint = did_you_mean(options.worker, content) or f"write one of {', '.join(content)}"
        raise InputError("--worker", f"the table has no worker type {options.worker!r}", hint=hint)
    table = {}
    for key, values in content[options.worker].items():
        try:
            kind, workers = literal_eval(key)
            table[str(kind), int(workers)] = float(values["null"])
        except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
            raise InputError(f"{path}, {key}", "not a job type with its throughput") from error
    return table


SIMKUBE_VERSION: Final = 2
MAX_PODS: Final = 500_000
"""Pods of a trace that is in memory."""
SIMKUBE_SPEC: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "preemptionPolicy")


class SimkubeEvent(Struct):
    """The objects that were applied and deleted at one moment."""

    ts: float
    applied_objs: list[dict[str, Any]] = []
    deleted_objs: list[dict[str, Any]] = []


class SimkubeTrace(Struct):
    """A SimKube trace of version 2. Other fields are ignored."""

    version: int
    config: dict[str, Any]
    events: list[SimkubeEvent]
    pod_lifecycles: dict[Any, dict[int, list[dict[str, float | None]]]] = {}


def _read_simkube(path: Path, _options: ImportOptions, skipped: Skipped) -> Iterator[TracePod]:
    """Yield the pods of tracked objects: replicas that are added arrive, replicas that are removed end."""
    try:
        trace = msgspec.msgpack.decode(read_file(path, limit=MAX_OBJECTS), type=SimkubeTrace, strict=False)
    except UNREADABLE as error:
        raise InputError(str(path), f"not a SimKube trace: {error}", hint="export it with `skctl export`") from error
    if trace.version != SIMKUBE_VERSION:
        raise InputError(str(path), f"version {trace.version} is not supported", hint=f"use version {SIMKUBE_VERSION}")
    try:
        pods = _follow_objects(path, trace, skipped)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        problem = f"an object of the trace is not valid: {type(error).__name__}: {error}"
        raise InputError(str(path), problem, hint="export the trace again with `skctl export`") from error
    yield from sorted(pods, key=lambda pod: pod.arrives)


def _follow_objects(path: Path, trace: SimkubeTrace, skipped: Skipped) -> list[TracePod]:
    """Return the pods of all objects."""
    lifecycles = {
        tuple(key) if isinstance(key, list | tuple) else key: iter(sorted(map(_lifetime, chain(*hashes.values()))))
        for key, hashes in trace.pod_lifecycles.items()
    }
    running: dict[str, list[TracePod]] = {}
    finished: list[TracePod] = []
    counts: dict[str, int] = {}
    total = 0
    for event in trace.events:
        for obj, is_deleted in (*((o, False) for o in event.applied_objs), *((o, True) for o in event.deleted_objs)):
            key = f"{obj.get('apiVersion')}.{obj.get('kind')}"
            owner = f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"
            templates = _find_templates(obj, trace.config, key)
            if not templates and not is_deleted:
                skipped.add(f"{key} without a pod template")
                continue
            replicas = 0 if is_deleted else _count_replicas(obj)
            pods = running.setdefault(f"{key}/{owner}", [])
            total += max(0, replicas * len(templates) - len(pods))
            if total > MAX_PODS:
                raise InputError(f"{path}, {owner}", f"the trace has more than {MAX_PODS:,} pods")
            while len(pods) > replicas * max(1, len(templates)):
                # Controllers remove the newest pods first.
                last = pods.pop()
                finished.append(replace(last, runs=event.ts - last.arrives))
            added = range(len(pods), replicas * len(templates))
            # Replicas share the contents of their template.
            models = [_make_template_pod(part, owner, event.ts, f"{path}, {owner}") for part in templates if added]
            for index in added:
                number = counts[owner] = counts.get(owner, -1) + 1
                model = models[index % len(models)]
                pod = replace(model, name=f"{model.name}-{number}")
                lifetime = next(lifecycles.get((key, owner), iter(())), None)
                if lifetime is not None and lifetime[1] is not None:
                    finished.append(replace(pod, runs=max(0.0, lifetime[1])))
                else:
                    pods.append(pod)
    return [*finished, *chain(*running.values())]


def _lifetime(lifecycle: dict[str, float | None]) -> tuple[float, float | None]:
    start, end = lifecycle.get("start_ts") or 0.0, lifecycle.get("end_ts")
    return start, None if end is None else end - start


def _find_templates(obj: dict[str, Any], config: dict[str, Any], key: str) -> list[dict[str, Any]]:
    tracked = config.get("trackedObjects", {}).get(key, {})
    paths = tracked.get("podSpecTemplatePaths") or [tracked.get("podSpecTemplatePath") or "/spec/template"]
    templates = []
    for pointer in [paths] if isinstance(paths, str) else paths:
        part: Any = obj
        for step in pointer.strip("/").split("/"):
            part = part.get(step) if isinstance(part, dict) else None
        if isinstance(part, dict) and "spec" in part:
            templates.append(part)
    return templates


def _count_replicas(obj: dict[str, Any]) -> int:
    spec = obj.get("spec", {})
    count = next((spec[name] for name in ("replicas", "parallelism") if spec.get(name) is not None), 1)
    if int(count) < 0:
        raise ValueError(f"{count} replicas")
    return int(count)


def _make_template_pod(template: dict[str, Any], owner: str, at: float, location: str) -> TracePod:
    """Return a pod of a template, with the name of its owner."""
    namespace, _, name = owner.partition("/")
    totals: dict[str, int] = {}
    try:
        for container in template["spec"].get("containers", ()):
            for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
                totals[resource] = totals.get(resource, 0) + nano_value(quantity)
    except QuantityError as error:
        raise InputError(location, str(error)) from error
    cpu, memory = totals.pop("cpu", 0), totals.pop("memory", 0)
    return TracePod(
        name=f"{namespace}.{name}",
        arrives=at,
        cpu_milli=cpu // 10**6,
        memory_mib=ceil(memory / 10**9 / (1 << 20)),
        kind=name,
        tenant=namespace,
        namespace=namespace,
        labels={str(key): str(value) for key, value in (template.get("metadata", {}).get("labels") or {}).items()},
        requests={resource: amount // 10**9 for resource, amount in totals.items()},
        spec={name: template["spec"][name] for name in SIMKUBE_SPEC if template["spec"].get(name)},
    )


READERS: Final[dict[str, Callable[[Path, ImportOptions, Skipped], Iterator[TracePod]]]] = {
    "openb": _read_openb,
    "gavel": _read_gavel,
    "simkube": _read_simkube,
}
"""The formats that are not tables, or have two forms."""
