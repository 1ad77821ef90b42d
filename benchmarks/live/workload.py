"""The workload of a benchmark: a YAML file that lists objects and the expected result of the pods.

```yaml
title: identical pods
pods: 10000                       # default of PODS
goal: {cpu_ms: 0.6, theirs: 3.1, speedup: 2}   # of the design, at 5,000 nodes
objects:                          # created in this order, before a scheduler runs
  - {like: node, count: nodes}    # a template of parts.yaml ...
  - like: pod
    count: pods
    with: {metadata: {labels: {group: "g${i // 500}"}}}   # ... with these fields merged into it
expect: {bound: pods, reported: 0}
churn:                            # created and deleted while the pods are scheduled
  - {like: node, every: 0.5, keep: 5}
arriving: {like: pod}             # for `make bench-latency`: created at a constant rate
alone: true                       # not part of `WORKLOADS=all`
gates: GenericWorkload=true       # feature gates of both schedulers and of the API server
serves: [scheduling.k8s.io/v1beta1]   # versions that the API server serves on request only
flags: [--leader-elect=false]     # more flags of both schedulers
patience: 600                     # seconds without a binding until a round is aborted (default: 90)
```
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from benchmarks.live.templates import Expression, Template, merged
from moorage.common.errors import InputError, did_you_mean
from moorage.kube.api.kinds import BY_NAME

DIRECTORY: Final = Path(__file__).resolve().parents[1] / "workloads"
PARTS: Final = "parts"
NAMESPACE: Final = "default"
PATIENCE: Final = 90.0
"""Seconds without a binding until a round ends. Preemptors sometimes wait for a flush of the queue."""


class Goal(msgspec.Struct, forbid_unknown_fields=True):
    """The goal of the design: the CPU per pod if kube-scheduler takes ``theirs``, and the speedup.

    Milliseconds depend on the machine, so only the ratio to kube-scheduler in the same run counts.
    """

    cpu_ms: float
    theirs: float
    speedup: float

    @property
    def less_cpu(self) -> float:
        """Return the required ratio of kube-scheduler's CPU to Moorage's."""
        return self.theirs / self.cpu_ms


class GroupEntry(msgspec.Struct, forbid_unknown_fields=True):
    """Objects of one template, as written."""

    like: str
    count: int | str = 1
    every: float = 0.0
    keep: int = 0
    over: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class WorkloadEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A workload file, as written."""

    title: str
    pods: int
    objects: list[GroupEntry]
    expect: dict[str, int | str]
    goal: Goal | None = None
    churn: list[GroupEntry] = []
    arriving: GroupEntry | None = None
    alone: bool = False
    gates: str = ""
    serves: list[str] = []
    flags: list[str] = []
    patience: float = PATIENCE


@dataclass(frozen=True, slots=True)
class Group:
    """Objects of one template: their number and their URL path."""

    path: str
    template: Template
    count: Expression
    every: float = 0.0
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload at a size."""

    name: str
    title: str
    goal: Goal | None
    nodes: int
    pods: int
    groups: tuple[Group, ...]
    churn: tuple[Group, ...]
    bound: int
    reported: int
    arriving: Group | None = None
    gates: str = ""
    serves: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    patience: float = PATIENCE

    @property
    def gate_flags(self) -> tuple[str, ...]:
        """The feature gates as a flag."""
        return (f"--feature-gates={self.gates}",) if self.gates else ()

    @property
    def server_flags(self) -> tuple[str, ...]:
        """Return the additional flags of the API server."""
        served = ",".join(f"{version}=true" for version in self.serves)
        return (*self.gate_flags, f"--runtime-config={served}") if served else self.gate_flags

    def objects(self) -> Iterator[Iterator[tuple[str, bytes]]]:
        """Return the URL path and the JSON of each object, in groups; each group must exist before the next."""
        for group in self.groups:
            count = group.count.of(nodes=self.nodes, pods=self.pods)
            bodies = group.template.all(count, nodes=self.nodes, pods=self.pods)
            yield ((group.path, body) for body in bodies)


def names() -> list[str]:
    """Return the names of all workloads."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml") if path.stem != PARTS)


def drained() -> list[str]:
    """Return the names of the workloads of `all`."""
    return [name for name in names() if not _read(name).alone]


def load(name: str, nodes: int, pods: int = 0) -> Workload:
    """Read a workload for a number of nodes and pods; the default number of pods is in the file."""
    if name not in names():
        raise InputError(
            "--workloads",
            f"there is no workload {name!r}",
            hint=did_you_mean(name, names()) or f"there are {', '.join(names())}",
        )
    where = _where(name)
    entry = _read(name)
    sizes = {"nodes": nodes, "pods": pods or entry.pods}
    expected = {key: Expression(str(text), f"{where}: expect.{key}").of(**sizes) for key, text in entry.expect.items()}
    parts = yaml.safe_load((DIRECTORY / f"{PARTS}.yaml").read_text())
    return Workload(
        name=name,
        title=entry.title,
        goal=entry.goal,
        nodes=nodes,
        pods=sizes["pods"],
        groups=tuple(_group(each, parts, f"{where}: objects[{at}]") for at, each in enumerate(entry.objects)),
        churn=tuple(_group(each, parts, f"{where}: churn[{at}]") for at, each in enumerate(entry.churn)),
        bound=expected["bound"],
        reported=expected.get("reported", 0),
        arriving=_group(entry.arriving, parts, f"{where}: arriving") if entry.arriving else None,
        gates=entry.gates,
        serves=tuple(entry.serves),
        flags=tuple(entry.flags),
        patience=entry.patience,
    )


def _read(name: str) -> WorkloadEntry:
    try:
        return msgspec.convert(yaml.safe_load((DIRECTORY / f"{name}.yaml").read_text()), WorkloadEntry)
    except (msgspec.ValidationError, yaml.YAMLError) as error:
        raise InputError(_where(name), str(error)) from error


def _where(name: str) -> str:
    return f"workloads/{name}.yaml"


def _group(entry: GroupEntry, parts: Mapping[str, Any], where: str) -> Group:
    if entry.like not in parts:
        raise InputError(where, f"parts.yaml has no {entry.like!r}", hint=did_you_mean(entry.like, parts))
    content = merged(parts[entry.like], entry.over)
    kind = BY_NAME[content["kind"]]
    return Group(
        path=kind.path(namespace=NAMESPACE if kind.namespaced else ""),
        template=Template(content, where),
        count=Expression(str(entry.count), where),
        every=entry.every,
        keep=entry.keep,
    )
