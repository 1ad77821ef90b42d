"""Insufficient resources: request less, or enlarge a node."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.common.errors import InputError
from moorage.insight.explain.obstacles import list_short_resources
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import LAST_RESORT, RELUCTANT, Draft, ProposedChange, Remedy, Subject, fix
from moorage.insight.whatif.edits import Edit
from moorage.kube.api.container import Container
from moorage.kube.api.quantity import NANO, nano_value
from moorage.kube.api.requests import CPU, MEMORY, NATIVE, PODS
from moorage.scheduler.framework.nodeinfo import NodeInfo

HUGEPAGES: Final = "hugepages-"
EPHEMERAL: Final = "ephemeral-storage"
SMALLER_UNITS: Final = {"": "m", "Ti": "Gi", "Gi": "Mi", "Mi": "Ki", "T": "G", "G": "M", "M": "k"}
"""Units that are often confused, and the smaller one of each pair; without a unit, cores and milli-CPU."""
UNLIKELY_FACTOR: Final = 10
"""A request that exceeds the largest node by this factor has probably a wrong unit."""
MIN_UNLIKELY: Final = 64
"""Smaller numbers are not usual with the smaller unit."""
MIN_USEFUL: Final = 0.1
"""A pod hardly works with a smaller part of its request."""
MIN_ORDINARY: Final = 0.5
"""An operator prefers other changes to requests below this part of the original."""
MEBIBYTE: Final = 1 << 20
MAX_NODES: Final = 3
"""Number of nodes to try for one kind of change."""


def find_unit(resource: str) -> int:
    """Return the usual step of an amount in the scheduler's unit: milli-CPU, bytes, pieces."""
    if resource == MEMORY:
        return MEBIBYTE
    if resource.startswith(HUGEPAGES):
        return max(1, nano_value(resource.removeprefix(HUGEPAGES)) // NANO)
    return 1


def format_amount(resource: str, amount: int) -> str:
    """Format an amount in the scheduler's unit as a quantity.

    >>> format_amount("cpu", 1500), format_amount("cpu", 2000), format_amount("memory", 512 * 2**20)
    ('1500m', '2', '512Mi')
    """
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if amount and (resource == MEMORY or resource.startswith(HUGEPAGES)):
        return f"{amount // MEBIBYTE}Mi" if amount % MEBIBYTE == 0 else str(amount)
    return str(amount)


def describe_amount(resource: str, amount: int) -> str:
    """Format an amount for a text. Edits have bytes of ephemeral storage."""
    is_whole = resource == EPHEMERAL and amount and amount % MEBIBYTE == 0
    return f"{amount // MEBIBYTE}Mi" if is_whole else format_amount(resource, amount)


def shortage(node: NodeInfo, resource: str, request: int) -> int:
    """Return the missing amount of a resource on a node for a request."""
    if resource == PODS:
        return len(node.pods) + 1 - node.allocatable.get(PODS, 0)
    return request - (node.allocatable.get(resource, 0) - node.requested.get(resource, 0))


def correct_requests(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Correct resources that no node has and that are probably misspelt."""
    draft, texts = subject.draft(), list[str]()
    names = {name for info in subject.nodes for name in info.allocatable}
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(subject.content.get("spec", {}).get(kind) or ()):
            for field in ("requests", "limits"):
                path = ("spec", kind, index, "resources", field)
                for name, text in dict((container.get("resources") or {}).get(field) or {}).items():
                    if intended := find_intended(name, names) or _find_other_vendor(name, names):
                        draft.remove(*path, name).put((*path, intended), text)
                        texts.append(f"{name} to {intended} in the {field} of container {container.get('name')}")
    if texts and (offer := subject.offer("request", f"Change {' and '.join(texts)}", draft.edit(), cost=-1)):
        yield offer


def _find_other_vendor(resource: str, names: set[str]) -> str:
    """Return the only resource of the same name from another vendor, if no node has this one.

    >>> _find_other_vendor("amd.com/gpu", {"nvidia.com/gpu", "cpu"}), _find_other_vendor("a/x", {"a/x", "b/x"})
    ('nvidia.com/gpu', '')
    """
    device = resource.rpartition("/")[2]
    candidates = [name for name in names if "/" in resource and name.endswith(f"/{device}")]
    return candidates[0] if len(candidates) == 1 and resource not in names else ""


def guess_unit(resource: str, text: str, largest: int) -> str:
    """Return an amount with the next smaller unit if it exceeds the largest node by far, otherwise an empty string.

    >>> guess_unit("cpu", "500", 4000), [guess_unit("memory", f"{n}Gi", 8 << 30) for n in (512, 512000)]
    ('500m', ['512Mi', '512000Ki'])
    >>> guess_unit("cpu", "8", 4000), guess_unit("nvidia.com/gpu", "80", 4)
    ('', '')
    """
    number = text.rstrip("TGMi")
    if not number.isdecimal() or int(number) < MIN_UNLIKELY:
        return ""
    unit = SMALLER_UNITS.get(text[len(number) :], "")
    scale = NANO // 1000 if resource == CPU else NANO
    is_known = unit and (unit == "m") == (resource == CPU) and resource in (CPU, MEMORY, EPHEMERAL)
    if not is_known or not nano_value(text) > UNLIKELY_FACTOR * largest * scale > 0:
        return ""
    while nano_value(f"{number}{unit}") > largest * scale and unit in SMALLER_UNITS:
        unit = SMALLER_UNITS[unit]
    return f"{number}{unit}"


def correct_units(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Correct the unit of requests that exceed the largest node by far."""
    draft, texts = subject.draft(), list[str]()
    largest: dict[str, int] = {}
    for info in subject.nodes:
        largest |= {name: max(amount, largest.get(name, 0)) for name, amount in info.allocatable.items()}
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(subject.content.get("spec", {}).get(kind) or ()):
            for field in ("requests", "limits"):
                for name, amount in ((container.get("resources") or {}).get(field) or {}).items():
                    if intended := guess_unit(name, str(amount), largest.get(name, 0)):
                        draft.put(("spec", kind, index, "resources", field, name), intended)
                        subject_text = f"the {name} {field.removesuffix('s')} of container {container.get('name')}"
                        texts.append(f"{subject_text} from {amount} to {intended}")
    if texts:
        text = f"Change {' and '.join(texts)}: no node is that large"
        if offer := subject.offer("request", text, draft.edit(), cost=-1):
            yield offer


def lower_requests(subject: Subject, rows: list[int], plugin: str = "NodeResourcesFit") -> Iterator[Remedy]:
    """Lower requests as little as possible: of a resource, or of all that are short on the same nodes."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        status = subject.obstacles.of(row).get(plugin)
        if status is not None and (names := list_short_resources(status)) and PODS not in names:
            groups.setdefault(names, []).append(row)
    for names, group_rows in sorted(groups.items(), key=lambda item: len(item[0])):
        try:
            offer = _lower(subject, names, group_rows)
        except InputError:
            continue
        if offer is not None:
            yield offer


def _lower(subject: Subject, names: tuple[str, ...], rows: list[int]) -> Remedy | None:
    """Lower several resources to what fits on the best node, then each as little as possible."""
    requests = subject.pod.requests
    best = min(
        (subject.nodes[row] for row in rows),
        key=lambda node: sum(shortage(node, name, requests[name]) / max(1, requests[name]) for name in names),
    )
    targets = {name: max(0, requests[name] - shortage(best, name, requests[name])) // find_unit(name) for name in names}

    def make_edits(amounts: Mapping[str, int]) -> list[Edit]:
        draft = subject.draft()
        for name, steps in amounts.items():
            lower(draft, subject, name, steps * find_unit(name))
        return [draft.edit()] if draft.operations else []

    for name in names:

        def with_steps(steps: int, name: str = name) -> list[Edit]:
            return make_edits({**targets, name: steps})

        highest = -(-requests[name] // find_unit(name))
        best_steps = subject.largest(0, highest, with_steps, max(0, targets[name]))
        if best_steps is None:
            return None
        targets[name] = best_steps
    if len(names) > 1 and any(
        subject.trial(*make_edits({k: v for k, v in targets.items() if k != name})) for name in names
    ):
        return None  # fewer resources are sufficient, elsewhere
    draft = subject.draft()
    lowered = [text for name in names for text in lower(draft, subject, name, targets[name] * find_unit(name))]
    if any("/" in name for name in names) and any(text.endswith(" to 0") for text in lowered):
        return None  # a container without the device that it requests cannot work
    remaining = min(targets[name] * find_unit(name) / max(1, requests[name]) for name in names)
    cost = len(names) + (LAST_RESORT if remaining < MIN_USEFUL else RELUCTANT * (remaining < MIN_ORDINARY))
    return subject.offer("request", f"Lower {' and '.join(lowered)}", draft.edit(), cost=cost)


class ContainerRequest:
    """The request of a container for one resource: the original and the lowered amount."""

    def __init__(self, kind: str, index: int, container: Container, resource: str) -> None:
        self.kind, self.index, self.name = kind, index, container.name
        self.is_sidecar = kind == "initContainers" and container.is_sidecar
        self.text = container.resources.requests.get(resource, 0)
        self.original = self.now = nano_value(self.text)


def lower(draft: Draft, subject: Subject, resource: str, most: int) -> list[str]:
    """Lower the requests of containers until the pod requests at most ``limit``, the largest first.

    Return descriptions of the changes.
    """
    descriptions: list[str] = []
    spec = subject.pod.spec
    scale = NANO // 1000 if resource == CPU else NANO
    overhead = nano_value(spec.overhead.get(resource, 0)) if spec.overhead else 0
    limit = max(0, most * scale - overhead)
    level = spec.resources.requests.get(resource) if spec.resources is not None else None
    if level is not None and nano_value(level) > limit:
        amount = describe_amount(resource, limit // scale)
        descriptions.append(f"the {resource} request of the pod from {level} to {amount}")
        _write(draft, ("spec", "resources"), resource, limit // scale)
    parts = [
        ContainerRequest(kind, index, item, resource)
        for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers))
        for index, item in enumerate(containers)
    ]
    step = find_unit(resource) * scale
    while excess := _excess(parts, limit):
        over, members = excess
        hungriest = max(members, key=lambda part: part.now)
        remaining = max(0, hungriest.now - over)
        hungriest.now = remaining // step * step
    for part in parts:
        if part.now < part.original:
            if level is not None:
                _remove_request(draft, part, resource)
                continue
            amount = describe_amount(resource, part.now // scale)
            descriptions.append(f"the {resource} request of container {part.name} from {part.text} to {amount}")
            _write(draft, ("spec", part.kind, part.index, "resources"), resource, part.now // scale)
    return descriptions


def _remove_request(draft: Draft, part: ContainerRequest, resource: str) -> None:
    """Remove the request of a container, where the pod-level request covers all containers.

    The API server rejects containers that request more than their pod. Raise InputError if the request follows from a
    limit.
    """
    resources = draft.content["spec"][part.kind][part.index].get("resources") or {}
    if resource in (resources.get("limits") or {}) or resource not in (resources.get("requests") or {}):
        raise InputError(f"container {part.name}", f"its {resource} request is as large as its limit")
    draft.remove("spec", part.kind, part.index, "resources", "requests", resource)


def _excess(parts: Sequence[ContainerRequest], limit: int) -> tuple[int, list[ContainerRequest]] | None:
    """Find a phase of the pod in which it requests too much, and the containers of that phase."""
    sidecars: list[ContainerRequest] = []
    running_parts = [part for part in parts if part.kind == "containers" or part.is_sidecar]
    moments = [running_parts]
    for part in parts:
        if part.kind == "initContainers":
            if not part.is_sidecar:
                moments.append([part, *sidecars])
            else:
                sidecars.append(part)
    for members in moments:
        total = sum(part.now for part in members)
        if total > limit and any(part.now for part in members):
            return total - limit, members
    return None


def _write(draft: Draft, path: tuple[str | int, ...], resource: str, amount: int) -> None:
    """Write a request, and the limit of resources that cannot be overcommitted."""
    parent: Any = draft.content
    for step in path:
        parent = (parent.get(step) if isinstance(parent, dict) else parent[step]) or {}
    limits, requests = parent.get("limits") or {}, parent.get("requests") or {}
    is_shared = resource in NATIVE
    if not is_shared and resource in limits:
        draft.put((*path, "limits", resource), format_amount(resource, amount))
    if is_shared or resource in requests or resource not in limits:
        draft.put((*path, "requests", resource), format_amount(resource, amount))


@fix()
def enlarge_node(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Add the missing amounts to the node that lacks the least."""
    requests = subject.pod.requests

    def missing(row: int) -> dict[str, int]:
        status = subject.obstacles.of(row).get("NodeResourcesFit")
        names = list_short_resources(status) if status is not None else ()
        return {name: shortage(subject.nodes[row], name, requests.get(name, 0)) for name in names}

    def weight(row: int) -> float:
        node = subject.nodes[row]
        return sum(amount / max(1, node.allocatable.get(name, 0)) for name, amount in missing(row).items())

    for row in sorted((row for row in rows if missing(row)), key=weight)[:MAX_NODES]:
        if (proposal := _enlarge(subject, subject.nodes[row], missing(row))) is not None:
            yield proposal


def _enlarge(subject: Subject, node: NodeInfo, short: Mapping[str, int]) -> ProposedChange | None:
    """Enlarge a node as little as possible: for one pod, or for all pods that have to fit together."""
    have = {name: node.allocatable.get(name, 0) for name in short}

    def count_steps(name: str, amount: int) -> int:
        return -(-(have[name] + amount) // find_unit(name))

    def make_edits(totals: Mapping[str, int]) -> list[Edit]:
        # The kubelet reports these values and would revert a patch: only a larger node has more.
        draft = subject.draft_object("Node", node.name, must_replace=True)
        field = "allocatable" if draft.content.get("status", {}).get("allocatable") else "capacity"
        for name, steps in totals.items():
            draft.put(("status", field, name), format_amount(name, steps * find_unit(name)))
        return [draft.edit()]

    totals = {name: count_steps(name, amount * subject.pods) for name, amount in short.items()}
    for name, amount in short.items():
        other_totals = {resource: steps for resource, steps in totals.items() if resource != name}
        if other_totals and subject.trial(*make_edits(other_totals)):
            totals = other_totals  # the pod of the group that lacks this resource may fit on another node then
            continue

        def with_steps(steps: int, name: str = name, other_totals: Mapping[str, int] = other_totals) -> list[Edit]:
            return make_edits({**other_totals, name: steps})

        lowest = have[name] // find_unit(name)
        smallest = subject.smallest(lowest, totals[name] + 1, with_steps, count_steps(name, amount))
        if smallest is None:
            return None
        totals[name] = smallest
    amounts = {name: steps * find_unit(name) for name, steps in totals.items()}
    texts = [_describe_enlargement(subject, node, name, amount) for name, amount in amounts.items()]
    # A machine grows only if it is replaced.
    cost = max(_enlarging_cost(subject, node, name, amount) for name, amount in amounts.items())
    return ProposedChange("node-capacity", ". ".join(texts), make_edits(totals), cost)


def _enlarging_cost(subject: Subject, node: NodeInfo, resource: str, amount: int) -> int:
    """Return the cost of a larger node. A node gets no first device if other nodes have devices."""
    largest = max(info.allocatable.get(resource, 0) for info in subject.nodes)
    is_first = "/" in resource and largest > 0 and resource not in node.allocatable
    if 0 < UNLIKELY_FACTOR * largest < amount or is_first:
        return LAST_RESORT
    return RELUCTANT if resource in (CPU, MEMORY, EPHEMERAL) else 0


def lacks_devices(subject: Subject, row: int) -> bool:
    """Return whether the pod requests an extended resource that a node lacks but other nodes have."""
    own = subject.nodes[row].allocatable
    missing = [name for name, amount in subject.pod.requests.items() if amount and "/" in name and not own.get(name)]
    return any(info.allocatable.get(name) for name in missing for info in subject.nodes)


def _describe_enlargement(subject: Subject, node: NodeInfo, resource: str, total: int) -> str:
    """Describe how a node gets more of a resource: what an operator has to do depends on the resource."""
    now = node.allocatable.get(resource, 0)
    if resource == PODS:
        return f"Raise the limit of pods on node {node.name} from {now} to {total} (maxPods of its kubelet)"
    if resource.startswith(HUGEPAGES):
        was = f" instead of {format_amount(resource, now)}" if now else ""
        sizes = {name for info in subject.nodes for name, value in info.allocatable.items() if value}
        similar = sorted(name for name in sizes if name.startswith(HUGEPAGES) and name != resource) if not now else []
        hint = f" (nodes have {', '.join(similar)})" if similar else ""
        return f"Reserve {format_amount(resource, total)}{was} of {resource} on node {node.name}{hint}"
    if "/" in resource and not now:
        if resource in node.allocatable or resource in node.node.status.capacity:
            return f"Repair the device plugin of node {node.name}, which reports no {resource} (the pod needs {total})"
        if not any(info.allocatable.get(resource) for info in subject.nodes):
            reason = f"no node has this resource, and the pod needs {total}"
            similar, is_same_vendor = _similar_resources(subject, resource)
            if similar:
                reason += f"; nodes have {', '.join(similar[:MAX_NODES])}"
            if is_same_vendor:
                return f"Configure the device plugin of node {node.name} to offer {resource}: {reason}"
            return f"Install the device plugin of {resource} on node {node.name}: {reason}"
    return f"Add {describe_amount(resource, total - now)} {resource} to node {node.name}"


def _similar_resources(subject: Subject, resource: str) -> tuple[list[str], bool]:
    """List the resources of the nodes that have the same domain, such as partitions of a GPU, or else the same name."""
    domain, _, device = resource.rpartition("/")
    names = sorted({name for info in subject.nodes for name, amount in info.allocatable.items() if amount})
    of_vendor = [name for name in names if name.startswith(f"{domain}/")]
    return of_vendor or [name for name in names if name.endswith(f"/{device}")], bool(of_vendor)


def lower_extended(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Request less of extended resources that devices provide."""
    for name, request in subject.pod.requests.items():
        if "/" in name and request:

            def make_edits(amount: int, name: str = name) -> list[Edit]:
                draft = subject.draft()
                lower(draft, subject, name, amount)
                return [draft.edit()] if draft.operations else []

            largest = subject.largest(1, request, make_edits, request - 1) if request > 1 else None
            if largest is not None:
                draft = subject.draft()
                lowered = lower(draft, subject, name, largest)
                if offer := subject.offer("request", f"Lower {' and '.join(lowered)}", draft.edit()):
                    yield offer
