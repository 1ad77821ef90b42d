"""Search for the smallest changes that would let a pod fit.

Single changes are first, by obstacle. If none helps, two are combined, then three, up to :data:`MAX_TOGETHER`. The
plugins accept the pod on the changed cluster for every suggestion.
"""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.insight.explain.fixes import (
    configuration,
    device_selectors,
    devices,
    evictions,
    neighbors,
    node_selection,
    nodes,
    resources,
    volumes,
)
from moorage.insight.explain.obstacles import FIT
from moorage.insight.explain.subject import (
    DEFAULT_SECONDS,
    LAST_RESORT,
    RELUCTANT,
    Fix,
    LimitReached,
    Limits,
    Remedy,
    Subject,
)
from moorage.insight.whatif.edits import Edit, ObjectId, PatchObject
from moorage.insight.whatif.session import Session

_VOLUMES: Final[tuple[Fix, ...]] = (
    *(
        volumes.correct_names,
        volumes.make_claim,
        volumes.correct_class,
        volumes.change_class,
        volumes.await_provisioner,
    ),
    *(
        volumes.shrink_claim,
        volumes.allow_zone,
        volumes.recreate_claim,
        volumes.match_volume,
        volumes.make_volume,
        volumes.drop_volumes,
    ),
)
FIXES: Final[dict[str, tuple[Fix, ...]]] = {
    "NodeResourcesFit": (
        *(resources.correct_requests, resources.correct_units),
        *(resources.lower_requests, resources.enlarge_node),
    ),
    "TaintToleration": (nodes.tolerate, nodes.untaint),
    "NodeUnschedulable": (nodes.uncordon, nodes.tolerate_cordon),
    "NodeAffinity": (node_selection.correct, node_selection.loosen, nodes.label_node),
    "NodeDeclaredFeatures": (nodes.declare_features,),
    "NodePorts": (neighbors.free_ports,),
    "InterPodAffinity": (
        neighbors.correct_topology_keys,
        neighbors.correct_terms,
        neighbors.prefer_terms,
        neighbors.drop_labels,
        neighbors.label_domain,
    ),
    "PodTopologySpread": (
        neighbors.correct_topology_keys,
        neighbors.honor_policies,
        neighbors.lower_min_domains,
        neighbors.allow_skew,
        neighbors.drop_labels,
        neighbors.label_domain,
    ),
    "VolumeBinding": _VOLUMES,
    "VolumeZone": _VOLUMES,
    "VolumeRestrictions": _VOLUMES,
    "NodeVolumeLimits": (*_VOLUMES, volumes.raise_volume_limit),
    "DynamicResources": (
        *(devices.correct_names, devices.make_claim, devices.shrink_claims, device_selectors.correct_selectors),
        *(
            device_selectors.install_driver,
            devices.loosen_claims,
            devices.tolerate_devices,
            devices.drop_claims,
            resources.lower_extended,
        ),
    ),
}
"""The fixes for the rejections of each plugin."""

INTRUSIVENESS: Final = (
    *("gate", "cordon", "toleration", "spread", "affinity", "selector", "port", "claim", "volume"),
    *("topology", "label", "node-label", "node-taint", "add-node", "request", "group", "delete-pod"),
    *("node-capacity", "node-feature", "priority", "config"),
)
"""Kinds of changes, the least intrusive first: the pod, then its surroundings, then the rules for all pods.

If the nodes are full, an operator adds one before the owner of the workload lowers its requests.
"""
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"),
        ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"),
    ),
    "NodeUnschedulable": ("NodeUnschedulable", "TaintToleration"),
}
"""Plugins that one change may satisfy together: all of them look at volumes, and a cordon is a taint as well."""
GATE_OWNERS: Final = {
    "kueue.x-k8s.io": "Kueue",
    "volcano.sh": "Volcano",
    "run.ai": "Run:ai",
    "koordinator.sh": "Koordinator",
    "yunikorn.apache.org": "YuniKorn",
    "armadaproject.io": "Armada",
}
"""Controllers that own scheduling gates, by the domain of the gate."""
MAX_TOGETHER: Final = 4
"""Maximum number of obstacles on one node that are removed together."""
MAX_ALIKE_ROWS: Final = 8
"""Number of nodes to try among those with the same obstacles."""
MAX_IDEAS: Final = 4
SEVERAL: Final = "several"
FEW_NODES: Final = 500
"""In clusters of this size, disabling a plugin is tried even if other changes help."""


class SearchResult(Struct):
    """The result of a search."""

    offers: list[Remedy] = field(default_factory=list)
    stopped: str = ""
    """Reason for an incomplete search."""
    trials: int = 0


def search(
    session: Session,
    key: str,
    *,
    only_node: str = "",
    seconds: float = DEFAULT_SECONDS,
    spared: frozenset[str] = frozenset(),
) -> SearchResult:
    """Search for changes with which a pending pod fits, anywhere or on one node. ``spared`` pods remain."""
    limits = Limits(monotonic() + seconds)
    return collect(_search(Subject(session, key, limits, only_node=only_node, spared=spared)), limits)


def collect(offers: Iterator[Remedy], limits: Limits) -> SearchResult:
    """Collect all distinct offers, or as many as the limits allow. Sort them."""
    result = SearchResult()
    try:
        for offer in offers:
            if all(offer.edits != earlier.edits for earlier in result.offers):
                result.offers.append(offer)
    except LimitReached as limit:
        result.stopped = str(limit)
    result.trials = limits.trials

    def rank(kind: str) -> int:
        return INTRUSIVENESS.index(kind) if kind in INTRUSIVENESS else len(INTRUSIVENESS)

    def intrusiveness(offer: Remedy) -> tuple[bool, int, int, list[int], int, int]:
        """Order by kind; then combinations, by the most intrusive of their parts, last resorts, and preemption."""
        preempts = not offer.attempt.node and bool(offer.attempt.victims)
        parts = sorted(map(rank, offer.parts), reverse=True)
        return (
            preempts,
            _reluctance(offer),
            -1 if offer.cost < 0 else rank(offer.kind),
            parts,
            offer.cost,
            len(offer.edits),
        )

    result.offers.sort(key=intrusiveness)
    return result


def _search(subject: Subject) -> Iterator[Remedy]:
    if subject.attempt.gates and find_gate_owners(subject.content):
        return  # only their owners know when the pod may be scheduled
    released = _find_release(subject) if subject.attempt.gates else None
    if released is None:
        yield from offers(subject)
        return
    kind, text, edits = released
    offer = subject.offer(kind, text, *edits)
    if offer is None and subject.may_preempt:
        offer = subject.preempting().offer(kind, text, *edits)
    if offer is not None:
        yield offer
        return
    for offer in _search(subject.with_base(*edits)):
        if (sufficient := _without_release(subject, offer, edits)) is not None:
            yield sufficient
            continue
        if kind == "claim" and any(map(_removes_claims, offer.edits)):
            continue
        parts = (kind, *(offer.parts or (offer.kind,)))
        several = SEVERAL if offer.parts else "pair"
        yield replace(offer, kind=several, text=f"{text}. {offer.text}", edits=merge_edits(offer.edits), parts=parts)


def _removes_claims(edit: Edit) -> bool:
    """Return whether an edit removes claims of a pod."""
    operations = edit.operations if isinstance(edit, PatchObject) else ()
    return any(item["op"] == "remove" and item["path"].startswith("/spec/resourceClaims") for item in operations)


def _without_release(subject: Subject, offer: Remedy, release: Sequence[Edit]) -> Remedy | None:
    """Return an offer without the release if it suffices, for example because it removes the unknown claim."""
    first = (*subject.base, *release)
    if tuple(offer.edits[: len(first)]) != first:
        return None
    candidate = subject if offer.attempt.node else subject.preempting()
    alone = candidate.offer(offer.kind, offer.text, *offer.edits[len(first) :], cost=offer.cost)
    return None if alone is None else replace(alone, parts=offer.parts)


def offers(subject: Subject) -> Iterator[Remedy]:
    """Search for single changes, then for combinations, and last for a plugin to disable."""
    costs: list[int] = []
    for offer in _single(subject):
        costs.append(offer.cost)
        yield offer
    if any(cost < RELUCTANT for cost in costs):
        return
    may_disable, is_helped = all(cost >= LAST_RESORT for cost in costs), False
    stopped: LimitReached | None = None
    try:
        for offer in together(subject):
            is_helped = True
            yield offer
    except LimitReached as limit:
        stopped = limit
    # The last resort, and the most expensive one: the cluster is reloaded for each plugin.
    if may_disable and (not is_helped or len(subject.nodes) <= FEW_NODES):
        yield from configuration.disable_plugins(subject, set(subject.obstacles.plugins()))
    if stopped is not None:
        raise stopped


def find_gate_owners(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the scheduling gates of a pod that a well-known controller owns, with its name.

    >>> gates = [{"name": name} for name in ("kueue.x-k8s.io/admission", "notvolcano.sh/gate", "mine")]
    >>> find_gate_owners({"spec": {"schedulingGates": gates}})
    {'kueue.x-k8s.io/admission': 'Kueue'}
    """
    owners = {}
    for gate in (content.get("spec") or {}).get("schedulingGates") or ():
        name = str(gate.get("name"))
        domain = name.rpartition("/")[0]
        owner = gate_owner(domain)
        if owner or f".{domain}".endswith((".k8s.io", ".kubernetes.io")):
            owners[name] = owner or f"the controller of {domain}"
    return owners


def gate_owner(domain: str) -> str:
    """Return the well-known controller of a domain, or empty for others."""
    return next((owner for suffix, owner in GATE_OWNERS.items() if f".{domain}".endswith(f".{suffix}")), "")


def _find_release(subject: Subject) -> tuple[str, str, list[Edit]] | None:
    """Return the change that admits the pod to the queue: without its gates, a missing group or claim template."""
    spec = subject.content.get("spec") or {}
    if gates := spec.get("schedulingGates"):
        names = " and ".join(str(gate.get("name")) for gate in gates)
        owners = sorted({domain for gate in gates if (domain := str(gate.get("name")).rpartition("/")[0])})
        names += f", unless a controller of {' or '.join(owners)} removes it" if owners else ""
        edit = subject.live_draft().remove("spec", "schedulingGates").edit()
        return "gate", f"Remove the scheduling gate {names}", [edit]
    group = (spec.get("schedulingGroup") or {}).get("podGroupName")
    if group and ObjectId("PodGroup", subject.pod.namespace, group) not in subject.session.objects:
        text = f"Remove it from the pod group {group}, which does not exist"
        return "group", text, [subject.draft().remove("spec", "schedulingGroup").edit()]
    return next(devices.name_template(subject), None)


def _single(subject: Subject) -> Iterator[Remedy]:
    if not subject.preempts and not subject.is_nominated:
        yield from evictions.raise_priority(subject)
    yield from by_plugin(subject)
    yield from nodes.add_node(subject, [])
    yield from evictions.delete_pods(subject, [])
    yield from configuration.change_arguments(subject, set(subject.obstacles.plugins()))


def by_plugin(subject: Subject) -> Iterator[Remedy]:
    """Try the fixes of all plugins that reject nodes. A fix that does not help may let the pod preempt."""
    preempting: Subject | None = None
    attempted: set[tuple[object, ...]] = set()
    for plugin in subject.obstacles.plugins():
        for fix in FIXES.get(plugin, ()):
            if (fix, _family(plugin)) in attempted:
                continue
            attempted.add((fix, _family(plugin)))
            offers = list(_run_fix(fix, subject, plugin))
            if not offers and subject.may_preempt:
                preempting = preempting or subject.preempting()
                offers = list(_run_fix(fix, preempting, plugin))
            yield from offers


def _run_fix(fix: Fix, subject: Subject, plugin: str) -> Iterator[Remedy]:
    rows = subject.rows_where_only(*_family(plugin))
    try:
        yield from fix(subject, rows) if rows else ()
    except InputError:
        return  # the manifest does not contain the field to change


def _family(plugin: str) -> tuple[str, ...]:
    return FAMILIES.get(plugin, (plugin,))


def together(subject: Subject) -> Iterator[Remedy]:
    """Remove all obstacles of a node, of those with the fewest, so that changes are as small as possible."""
    rows = _rows_by_obstacles(subject)
    for count in range(2, MAX_TOGETHER + 1):
        is_helped = False
        for names, alike in rows.get(count, {}).items():
            for row in alike[:MAX_ALIKE_ROWS]:
                offer = next(_clear_obstacles(subject, names, row, subject), None)
                if offer is not None:
                    is_helped = True
                    kind = "pair" if len(offer.parts) == 2 else SEVERAL
                    yield replace(offer, kind=kind, edits=merge_edits(offer.edits))
                    break
        if is_helped:
            return
    if any(count > MAX_TOGETHER for count in rows):
        raise LimitReached(f"every other node has more than {MAX_TOGETHER} problems")


def _rows_by_obstacles(subject: Subject) -> dict[int, dict[tuple[str, ...], list[int]]]:
    grouped: dict[int, dict[tuple[str, ...], list[int]]] = {}
    only_node = subject.nodes.find(subject.only_node) if subject.only_node else None
    for row in range(len(subject.nodes)) if not subject.only_node else () if only_node is None else (only_node.row,):
        # An obstacle is named by the first plugin of its family.
        by_family: dict[tuple[str, ...], str] = {}
        for plugin in subject.obstacles.of(row):
            by_family.setdefault(_family(plugin), plugin)
        # Obstacles with an amount are last: the amount is then as small as the remaining nodes permit.
        names = tuple(sorted(by_family.values(), key=lambda name: name == FIT))
        count = len(names)
        if 1 < count < MAX_TOGETHER and resources.lacks_devices(subject, row):
            count = MAX_TOGETHER  # a device plugin is rarely installed for one pod
        grouped.setdefault(count, {}).setdefault(names, []).append(row)
    return grouped


def _clear_obstacles(subject: Subject, plugins: Sequence[str], row: int, original: Subject) -> Iterator[Remedy]:
    """Remove the obstacles of a node one after the other. Skip changes that are not needed."""
    first, *later_plugins = plugins
    if not later_plugins:
        if row in subject.rows_where_only(*_family(first)):
            remedies = (offer for fix in _list_fixes(first) for offer in _run_fix(fix, subject, first))
            for offer in sorted(remedies, key=_reluctance):
                if original.needs_all(*offer.edits[len(original.base) :]):
                    yield offer
        return
    for idea in _find_ideas(subject, first, row):
        try:
            nested = subject.with_base(*idea.edits[len(subject.base) :])
        except InputError:
            continue
        # One change may remove several obstacles: a cordoned node may also have a taint.
        remaining_plugins = [plugin for plugin in later_plugins if plugin in nested.obstacles.of(row)]
        for offer in _clear_obstacles(nested, remaining_plugins, row, original) if remaining_plugins else ():
            parts = (idea.kind, *(offer.parts or (offer.kind,)))
            cost = max(idea.cost, offer.cost)
            yield replace(offer, text=f"{idea.text}. {offer.text}", parts=parts, cost=cost)


def _reluctance(offer: Remedy) -> int:
    """Order changes as an operator would try them. Otherwise their order remains."""
    return max(0, offer.cost) // RELUCTANT


def _find_ideas(subject: Subject, plugin: str, row: int) -> Iterator[Remedy]:
    """Find changes after which a plugin accepts a node, regardless of the other plugins."""
    family = _family(plugin)
    # Other plugins of the family are separate obstacles here: a cordoned node may have further taints.
    aiming = subject.aiming(tuple(name for name in family if _family(name) == family), row)
    ideas: list[Remedy] = []
    for fix in _list_fixes(plugin):
        try:
            ideas += list(fix(aiming, [row]))[:MAX_IDEAS]
        except InputError:
            continue
    yield from sorted(ideas, key=_reluctance)


def _list_fixes(plugin: str) -> Iterator[Fix]:
    """List the fixes of a plugin on a node with several obstacles: pods of the node may also be deleted."""
    yield from FIXES.get(plugin, ())
    if plugin in evictions.FIXED_BY_DELETING_PODS:
        yield evictions.delete_pods_of_node
    if plugin == FIT:
        yield nodes.add_node


def merge_edits(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Combine consecutive patches of an object."""
    merged_edits: list[Edit] = []
    for edit in edits:
        last = merged_edits[-1] if merged_edits else None
        if isinstance(edit, PatchObject) and isinstance(last, PatchObject) and last.target == edit.target:
            operations = (*last.operations, *edit.operations)
            merged_edits[-1] = replace(last, operations=operations, must_replace=last.must_replace or edit.must_replace)
        else:
            merged_edits.append(edit)
    return tuple(merged_edits)
