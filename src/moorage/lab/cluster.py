"""Clusters for trials, from pools in YAML, nodes in CSV, Kubernetes objects or a snapshot, detected by content.

Annotations of a node contain its price and its power consumption, regardless of its origin.
"""

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import msgspec.inspect
from msgspec import Struct

from moorage.common.errors import (
    MAX_PROBLEMS,
    ConfigError,
    ConfigErrors,
    InputError,
    QuantityError,
    describe_mismatch,
    did_you_mean,
)
from moorage.common.user_files import MAX_OBJECTS, read_text
from moorage.kube.api.affinity import Taint
from moorage.kube.api.documents import read_documents
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node, NodeSpec, NodeStatus
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity, nano_value
from moorage.lab.formats import (
    MOST_GPUS,
    Amount,
    Count,
    CsvLine,
    GpuCount,
    Name,
    NodeCount,
    check_unique_names,
    read_csv,
    write_csv,
)
from moorage.lab.instance_types import read_offers

PRICE: Final = "moorage.io/price-per-hour"
WATTS_IDLE: Final = "moorage.io/watts-idle"
WATTS_BUSY: Final = "moorage.io/watts-busy"
POOL_LABEL: Final = "moorage.io/pool"
NODE_COLUMNS: Final = (
    *("name", "cpuMilli", "memoryMib", "gpus", "gpuModel", "pods", "pool", "zone", "price", "wattsIdle", "wattsBusy"),
)
"""The columns of nodes in CSV. Name, cpuMilli and memoryMib are required."""
_NUMBER_COLUMNS: Final = {PRICE: "price", WATTS_IDLE: "wattsIdle", WATTS_BUSY: "wattsBusy"}
_LABEL_COLUMNS: Final = {POOL_LABEL: "pool", ZONE_LABEL: "zone"}
PODS: Final = 110
PATH_PART: Final = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")
"""A key or an index of a path such as ``traces[0].import``."""
T = TypeVar("T")


class Scaling(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Limits and delays of an autoscaled pool. Its initial nodes are never removed."""

    at_most: NodeCount
    startup_seconds: Amount = 120.0
    idle_seconds: Amount = 600.0
    batch_seconds: Amount = 0.0
    """Unschedulable pods of this interval are packed on new nodes together."""
    consolidation: Literal["empty", "underused"] = "empty"
    """The nodes to remove: empty ones, or also nodes if their pods fit on other nodes or on a cheaper one."""
    keeps: tuple[str, ...] = ()
    """Classes of pods that consolidation does not evict."""


class ScaledPool(Struct, frozen=True):
    """A pool that adds nodes while pods are unschedulable, and removes nodes that were empty for a while."""

    name: str
    templates: tuple[Node, ...]
    """The nodes to choose from: the cheapest one that fits is added."""
    scaling: Scaling
    most_added: int
    """Maximum number of nodes in addition to the initial ones."""


class LabCluster(Struct, frozen=True):
    """The cluster at the start of a trial."""

    name: str
    nodes: tuple[Node, ...]
    objects: tuple[KubeObject, ...] = ()
    """Other objects: running pods, volumes, namespaces."""
    scaled: tuple[ScaledPool, ...] = ()


class Watts(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The power consumption of a node, idle and with all CPU requested."""

    idle: Amount = 0.0
    busy: Amount = 0.0


class NodePool(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A number of equal nodes, or an autoscaled pool that chooses among instance types."""

    name: Name
    count: NodeCount
    cpu: Quantity | None = None
    memory: Quantity | None = None
    instance_types: str = ""
    """A file of instance types with prices; replaces cpu, memory, pods, zones and price."""
    requirements: dict[str, tuple[str, ...]] = {}
    """The accepted values of labels of the instance types."""
    pods: Count = PODS
    gpus: GpuCount = 0
    gpu_model: str = ""
    zones: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: dict[str, Quantity] = {}
    price: Amount = 0.0
    """Price per hour, in any currency."""
    watts: Watts = Watts()
    scaling: Scaling | None = None


class PoolsFile(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A cluster file with pools."""

    pools: tuple[NodePool, ...]


def build_cluster(name: str, pools: Iterable[NodePool], location: str, directory: Path = Path()) -> LabCluster:
    """Build a cluster from its pools. Files of instance types are relative to the directory."""
    nodes: list[Node] = []
    scaled: list[ScaledPool] = []
    pool_names: set[str] = set()
    for number, pool in enumerate(pools):
        field_path = f"{location}, pools[{number}]"
        if pool.name in pool_names:
            raise InputError(field_path, f"there are two pools named {pool.name!r}", hint="rename one of them")
        pool_names.add(pool.name)
        _check_pool(pool, field_path)
        nodes += [_make_pool_node(pool, f"{pool.name}-{index}", index) for index in range(pool.count)]
        if pool.scaling is not None:
            if pool.instance_types:
                templates = _make_templates(pool, directory, field_path)
            else:
                templates = (_make_pool_node(pool, pool.name, 0),)
            scaled.append(ScaledPool(pool.name, templates, pool.scaling, max(0, pool.scaling.at_most - pool.count)))
    return check_cluster(LabCluster(name, tuple(nodes), scaled=tuple(scaled)), location)


def _check_pool(pool: NodePool, location: str) -> None:
    """Raise InputError for missing, contradictory or negative sizes."""
    if pool.instance_types:
        if pool.count or pool.scaling is None or pool.cpu is not None or pool.memory is not None:
            problem = "instanceTypes needs scaling and count: 0, and replaces cpu and memory"
            raise InputError(location, problem, hint="write permanent nodes as another pool")
        return
    if pool.requirements:
        raise InputError(f"{location}.requirements", "only valid with instanceTypes", hint="add instanceTypes: FILE")
    for field_name in ("cpu", "memory"):
        if getattr(pool, field_name) is None:
            raise InputError(location, f"{field_name} is missing", hint=f"write {field_name}, or instanceTypes: FILE")
    for quantity in (pool.cpu or 0, pool.memory or 0, *pool.resources.values()):
        try:
            is_negative = nano_value(quantity) < 0
        except QuantityError as error:
            raise InputError(location, str(error)) from error
        if is_negative:
            raise InputError(location, f"{quantity!r} is negative", hint="write a quantity of at least 0")


def _make_templates(pool: NodePool, directory: Path, location: str) -> tuple[Node, ...]:
    """Build a node for each accepted offering of the instance types."""
    offers = read_offers(directory / pool.instance_types, pool.requirements, location)
    return tuple(
        make_lab_node(
            pool.name,
            {"pods": pool.pods, **offer.allocatable, **pool.resources},
            gpus=pool.gpus,
            model=pool.gpu_model,
            labels={POOL_LABEL: pool.name, **offer.labels, **pool.labels},
            taints=pool.taints,
            numbers={PRICE: offer.price, WATTS_IDLE: pool.watts.idle, WATTS_BUSY: pool.watts.busy},
        )
        for offer in offers
    )


def _make_pool_node(pool: NodePool, name: str, index: int) -> Node:
    """Build one node of a pool. The zones are used in turn."""
    zone = {ZONE_LABEL: pool.zones[index % len(pool.zones)]} if pool.zones else {}
    return make_lab_node(
        name,
        {"cpu": pool.cpu or 0, "memory": pool.memory or 0, "pods": pool.pods, **pool.resources},
        gpus=pool.gpus,
        model=pool.gpu_model,
        labels={POOL_LABEL: pool.name, **zone, **pool.labels},
        taints=pool.taints,
        numbers={PRICE: pool.price, WATTS_IDLE: pool.watts.idle, WATTS_BUSY: pool.watts.busy},
    )


def make_lab_node(
    name: str,
    allocatable: dict[str, Quantity],
    *,
    gpus: int = 0,
    model: str = "",
    labels: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    numbers: dict[str, float] | None = None,
) -> Node:
    """Build a node with all labels, annotations and capacities that the lab needs."""
    devices = {GPU_COUNT: gpus, GPU_MILLI: gpus * WHOLE_GPU} if gpus else {}
    all_labels = {HOSTNAME_LABEL: name, **(labels or {}), **({GPU_MODEL: model} if model else {})}
    annotations = {key: f"{number:g}" for key, number in (numbers or {}).items() if number}
    metadata = ObjectMeta(
        name=name, uid=f"node/{name}", resource_version="1", labels=all_labels, annotations=annotations
    )
    return Node(metadata, NodeSpec(taints=taints), NodeStatus(allocatable={**allocatable, **devices}))


def read_lab_cluster(path: Path, name: str = "") -> LabCluster:
    """Read a cluster. Raise InputError with the location of a problem."""
    cluster_name = name or path.name.split(".")[0]
    if path.suffix == ".csv":
        lines = check_unique_names(read_csv(path, ("name", "cpuMilli", "memoryMib"), NODE_COLUMNS), "name", "node")
        return check_cluster(LabCluster(cluster_name, tuple(map(_parse_node, lines))), str(path))
    if path.suffix in (".yaml", ".yml"):
        documents = list(read_documents(read_text(path, limit=MAX_OBJECTS), source=str(path)))
        if len(documents) == 1 and isinstance(documents[0], dict) and "pools" in documents[0]:
            pools = convert_or_explain(documents[0], PoolsFile, str(path)).pools
            return build_cluster(cluster_name, pools, str(path), path.parent)
    from moorage.cluster import cluster_from_documents
    from moorage.insight import ClusterSource, load_cluster

    is_snapshot = path.suffix == ".gz" or ".snapshot" in path.name
    source = ClusterSource(snapshot=str(path)) if is_snapshot else ClusterSource(files=(str(path),))
    cluster = cluster_from_documents(load_cluster(source).documents)
    other_objects = tuple(obj for obj in cluster.objects if not isinstance(obj, Node | Pod))
    return check_cluster(LabCluster(cluster_name, cluster.nodes, (*other_objects, *cluster.running)), str(path))


def convert_or_explain(content: Any, kind: type[T], where: str) -> T:
    """Convert plain data to a struct. Raise ConfigErrors with the paths of the first invalid and all unknown fields."""
    errors: list[ConfigError] = []
    content = deepcopy(content)
    while True:
        try:
            converted = msgspec.convert(content, kind, strict=True)
            break
        except msgspec.ValidationError as error:
            field_path, problem = describe_mismatch(error)
            location = f"{where}, {field_path}" if field_path else where
            unknown = re.fullmatch(r"unknown field '(.+)'", problem)
            hint = (
                did_you_mean(unknown[1], _field_names_at(msgspec.inspect.type_info(kind), field_path))
                if unknown
                else ""
            )
            errors.append(ConfigError(location, problem, hint=hint or "docs/reference/lab.md lists all fields"))
            # msgspec stops at the first error: convert again without an unknown field to find the next.
            if unknown is None or len(errors) > MAX_PROBLEMS or not _remove_field(content, field_path, unknown[1]):
                break
    if errors:
        raise ConfigErrors(errors)
    return converted


def _remove_field(content: Any, path: str, name: str) -> bool:
    """Remove a field of the object at a path such as ``traces[0].import``. Return whether it was found."""
    for key, index in PATH_PART.findall(path):
        try:
            content = content[key] if key else content[int(index)]
        except (LookupError, TypeError, ValueError):  # keys of mappings are written as [...]
            return False
    if not isinstance(content, dict) or name not in content:
        return False
    del content[name]
    return True


def _field_names_at(info: Any, path: str) -> set[str]:
    """Return the names of the fields that are valid at a path such as ``traces[0]``."""
    infos = _alternatives(info)
    for key, _ in PATH_PART.findall(path):
        infos = [
            alternative for info in infos for child in _children(info, key) for alternative in _alternatives(child)
        ]
    return {
        field.encode_name for info in infos if isinstance(info, msgspec.inspect.StructType) for field in info.fields
    }


def _alternatives(info: Any) -> list[Any]:
    """Return the types of a union, or the type itself."""
    return list(info.types) if isinstance(info, msgspec.inspect.UnionType) else [info]


def _children(info: Any, key: str) -> Iterator[Any]:
    """Yield the types of the field ``key``, of the values of a mapping, or of the items of a list."""
    if key and isinstance(info, msgspec.inspect.StructType):
        yield from (field.type for field in info.fields if field.encode_name == key)
    else:
        yield from (getattr(info, part) for part in ("item_type", "value_type") if hasattr(info, part))
        yield from getattr(info, "item_types", ())


def _parse_node(line: CsvLine) -> Node:
    allocatable: dict[str, Quantity] = {
        "cpu": f"{line.integer('cpuMilli')}m",
        "memory": f"{line.integer('memoryMib')}Mi",
        "pods": line.integer("pods", PODS),
    }
    return make_lab_node(
        line.text("name"),
        allocatable,
        gpus=line.integer("gpus", 0, most=MOST_GPUS),
        model=line.text("gpuModel"),
        labels={label: line.text(column) for label, column in _LABEL_COLUMNS.items() if line.text(column)},
        numbers={annotation: line.number(column, 0.0) for annotation, column in _NUMBER_COLUMNS.items()},
    )


def check_cluster(cluster: LabCluster, location: str) -> LabCluster:
    """Return the cluster. Raise InputError for no nodes, duplicate names, or invalid numbers."""
    if not cluster.nodes and not cluster.scaled:
        raise InputError(location, "the cluster has no nodes", hint="write pools or nodes")
    node_names: set[str] = set()
    for node in cluster.nodes:
        if node.name in node_names or not node.name:
            problem = f"there are two nodes named {node.name!r}" if node.name else "a node has no name"
            raise InputError(location, problem)
        node_names.add(node.name)
        for annotation in _NUMBER_COLUMNS:
            read_number(node, annotation)
    return cluster


def read_number(node: Node, annotation: str) -> float:
    """Return a number from an annotation of a node; 0 if it is missing."""
    text = node.annotations.get(annotation, "0")
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        problem = f"{text!r} is not a number of at least 0"
        raise InputError(f"node {node.name}, annotation {annotation}", problem, hint="write a number, such as 1.25")
    return number


def write_nodes_csv(path: Path, nodes: Iterable[Node]) -> None:
    """Write nodes as CSV."""
    write_csv(path, NODE_COLUMNS, map(_make_record, nodes))


def _make_record(node: Node) -> dict[str, Any]:
    allocatable = node.allocatable
    return {
        "name": node.name,
        "cpuMilli": allocatable.get("cpu", 0),
        "memoryMib": allocatable.get("memory", 0) >> 20,
        "gpus": allocatable.get(GPU_COUNT, 0),
        "gpuModel": node.labels.get(GPU_MODEL, ""),
        "pods": allocatable.get("pods", PODS),
        **{column: node.labels.get(label, "") for label, column in _LABEL_COLUMNS.items()},
        **{column: node.annotations.get(annotation, "") for annotation, column in _NUMBER_COLUMNS.items()},
    }
