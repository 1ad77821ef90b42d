"""Cluster files of the lab: pools in YAML, nodes in CSV, Kubernetes objects, or a snapshot, detected by content."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from moorage.common.errors import InputError, QuantityError
from moorage.kube.api.affinity import Taint
from moorage.kube.api.documents import read_documents
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL, WHOLE_GPU
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node, NodeSpec, NodeStatus
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity, nano_value
from moorage.lab.amounts import MOST_GPUS, Amount, Count, GpuCount, Name, NodeCount
from moorage.lab.cluster import POOL_LABEL, PRICE, WATTS_BUSY, WATTS_IDLE, LabCluster, ScaledPool, Scaling
from moorage.lab.ledger import number_of
from moorage.lab.lines import CsvLine, open_text, read_csv, with_own_names

NODE_COLUMNS: Final = (
    *("name", "cpuMilli", "memoryMib", "gpus", "gpuModel", "pods", "pool", "zone", "price", "wattsIdle", "wattsBusy"),
)
"""The columns of nodes in CSV; name, cpuMilli and memoryMib have to be there."""
PODS: Final = 110
T = TypeVar("T")


class Watts(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The power consumption of a node, idle and with all CPU requested."""

    idle: Amount = 0.0
    busy: Amount = 0.0


class NodePool(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Nodes that are alike."""

    name: Name
    count: NodeCount
    cpu: Quantity
    memory: Quantity
    pods: Count = PODS
    gpus: GpuCount = 0
    gpu_model: str = ""
    zones: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    resources: dict[str, Quantity] = {}
    price: Amount = 0.0
    """Per hour, in whatever currency."""
    watts: Watts = Watts()
    scaling: Scaling | None = None


class PoolsFile(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A cluster that is written as pools."""

    pools: tuple[NodePool, ...]


def cluster_of_pools(name: str, pools: Iterable[NodePool], where: str) -> LabCluster:
    """Make the nodes of some pools."""
    nodes: list[Node] = []
    scaled: list[ScaledPool] = []
    pool_names: set[str] = set()
    for number, pool in enumerate(pools):
        field_path = f"{where}, pools[{number}]"
        if pool.name in pool_names:
            raise InputError(
                field_path, f"there are two pools named {pool.name!r}", hint="name one of them differently"
            )
        pool_names.add(pool.name)
        for quantity in (pool.cpu, pool.memory, *pool.resources.values()):
            try:
                is_negative = nano_value(quantity) < 0
            except QuantityError as error:
                raise InputError(field_path, str(error)) from error
            if is_negative:
                raise InputError(
                    field_path, f"{quantity!r} is less than nothing", hint="write a quantity of at least 0"
                )
        nodes += [node_of_pool(pool, f"{pool.name}-{field_path}", field_path) for field_path in range(pool.count)]
        if pool.scaling is not None:
            template = node_of_pool(pool, pool.name, 0)
            scaled.append(ScaledPool(pool.name, template, pool.scaling, max(0, pool.scaling.at_most - pool.count)))
    return checked(LabCluster(name, tuple(nodes), scaled=tuple(scaled)), where)


def node_of_pool(pool: NodePool, name: str, number: int) -> Node:
    """Make one node of a pool; its zone follows from its place."""
    return make_lab_node(
        name,
        {"cpu": pool.cpu, "memory": pool.memory, "pods": pool.pods, **pool.resources},
        gpus=pool.gpus,
        model=pool.gpu_model,
        labels={POOL_LABEL: pool.name, **({ZONE_LABEL: pool.zones[number % len(pool.zones)]} if pool.zones else {})}
        | pool.labels,
        taints=pool.taints,
        numbers={PRICE: pool.price, WATTS_IDLE: pool.watts.idle, WATTS_BUSY: pool.watts.busy},
    )


def make_lab_node(
    name: str,
    allocatable: dict[str, Quantity],
    *,
    gpus: int = 0,
    model: str = "",
    labels: dict[str, str],
    taints: tuple[Taint, ...] = (),
    numbers: dict[str, float],
) -> Node:
    """Build a node whose labels, annotations and capacity contain everything that the lab needs."""
    shared = {GPU_COUNT: gpus, GPU_MILLI: gpus * WHOLE_GPU} if gpus else {}
    marks = {HOSTNAME_LABEL: name, **labels, **({GPU_MODEL: model} if model else {})}
    notes = {key: f"{number:g}" for key, number in numbers.items() if number}
    return Node(
        metadata=ObjectMeta(name=name, uid=f"node/{name}", resource_version="1", labels=marks, annotations=notes),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable={**allocatable, **shared}),
    )


def read_lab_cluster(path: Path, name: str = "") -> LabCluster:
    """Read a cluster; raise InputError with the place of a problem."""
    cluster_name = name or path.name.split(".")[0]
    if path.suffix == ".csv":
        lines = with_own_names(read_csv(path, ("name", "cpuMilli", "memoryMib"), NODE_COLUMNS), "name", "node")
        return checked(LabCluster(cluster_name, tuple(map(node_of_line, lines))), str(path))
    if path.suffix in (".yaml", ".yml") and (pools := _pools_in(path)) is not None:
        return cluster_of_pools(cluster_name, pools.pools, str(path))
    return _cluster_of_objects(path, cluster_name)


def _pools_in(path: Path) -> PoolsFile | None:
    with open_text(path) as file:
        documents = list(read_documents(file.read(), source=str(path)))
    if len(documents) != 1 or not isinstance(documents[0], dict) or "pools" not in documents[0]:
        return None
    return convert_or_explain(documents[0], PoolsFile, str(path))


def convert_or_explain(content: Any, kind: type[T], where: str) -> T:
    """Turn plain data into a struct; InputError names the path."""
    try:
        return msgspec.convert(content, kind, strict=True)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        field_path = path.rstrip("`").lstrip(".")
        raise InputError(
            f"{where}, {field_path}" if field_path else where, text, hint="see docs/reference/lab.md"
        ) from error


def _cluster_of_objects(path: Path, name: str) -> LabCluster:
    from moorage.cluster import cluster_of
    from moorage.insight import ClusterSource, load_cluster

    is_snapshot = path.suffix == ".gz" or ".snapshot" in path.name
    source = ClusterSource(snapshot=str(path)) if is_snapshot else ClusterSource(files=(str(path),))
    cluster = cluster_of(load_cluster(source).documents)
    other_objects = tuple(obj for obj in cluster.objects if not isinstance(obj, Node | Pod))
    return checked(LabCluster(name, cluster.nodes, (*other_objects, *cluster.running)), str(path))


def node_of_line(line: CsvLine) -> Node:
    """Make the node of a line of CSV."""
    allocatable: dict[str, Quantity] = {
        "cpu": f"{line.integer('cpuMilli')}m",
        "memory": f"{line.integer('memoryMib')}Mi",
        "pods": line.integer("pods", PODS),
    }
    optional_labels = {POOL_LABEL: line.text("pool"), ZONE_LABEL: line.text("zone")}
    numbers = {PRICE: "price", WATTS_IDLE: "wattsIdle", WATTS_BUSY: "wattsBusy"}
    return make_lab_node(
        line.text("name"),
        allocatable,
        gpus=line.integer("gpus", 0, most=MOST_GPUS),
        model=line.text("gpuModel"),
        labels={key: text for key, text in optional_labels.items() if text},
        numbers={key: line.number(column, 0.0) for key, column in numbers.items()},
    )


def checked(cluster: LabCluster, where: str) -> LabCluster:
    """Reject a cluster without nodes, with duplicate names, or with invalid numbers."""
    if not cluster.nodes and not cluster.scaled:
        raise InputError(
            where, "the cluster has no nodes", hint="write pools, or nodes, as docs/reference/lab.md has them"
        )
    node_names: set[str] = set()
    for node in cluster.nodes:
        if node.name in node_names or not node.name:
            problem = f"there are two nodes named {node.name!r}" if node.name else "a node has no name"
            raise InputError(where, problem)
        node_names.add(node.name)
        for annotation in (PRICE, WATTS_IDLE, WATTS_BUSY):
            number_of(node, annotation)
    return cluster


def write_nodes_csv(path: Path, nodes: Iterable[Node]) -> None:
    """Write nodes as CSV."""
    import csv

    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, NODE_COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(_records(nodes))
    except OSError as error:
        raise InputError(str(path), f"the file cannot be written: {error.strerror}") from error


def _records(nodes: Iterable[Node]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        has, marks, notes = node.allocatable, node.labels, node.annotations
        yield {
            "name": node.name,
            "cpuMilli": has.get("cpu", 0),
            "memoryMib": has.get("memory", 0) >> 20,
            "gpus": has.get(GPU_COUNT, 0),
            "gpuModel": marks.get(GPU_MODEL, ""),
            "pods": has.get("pods", PODS),
            "pool": marks.get(POOL_LABEL, ""),
            "zone": marks.get(ZONE_LABEL, ""),
            "price": notes.get(PRICE, ""),
            "wattsIdle": notes.get(WATTS_IDLE, ""),
            "wattsBusy": notes.get(WATTS_BUSY, ""),
        }
