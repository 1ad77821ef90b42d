"""The input of both schedulers: a generated cluster in a form that a real API server accepts."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from moorage.common.errors import ConfigError
from tests.conformance.compare import Decision
from tests.conformance.generator import Case, generate, words
from tests.conformance.generator.cluster import EXTRA_FEATURES
from tests.conformance.generator.config import BARE_CONFIG
from tests.conformance.generator.words import Object
from tests.conformance.ours import decide
from tests.live.differential.pods import PodFitter

#: The order of creation: objects that refer to the uid of another follow it.
ORDER: Final = (
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "CSIDriver",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "Node",
    "CSINode",
    "Pod",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "VolumeAttachment",
    "CSIStorageCapacity",
    "DeviceClass",
    "ResourceSlice",
    "DeviceTaintRule",
    "ResourceClaim",
    "PodDisruptionBudget",
)
#: Besides speed, this also changes results upstream (docs/parity.md).
NOT_THE_SAME: Final = "InterPodAffinityHostnameFastPath"
CANARY: Final = "canary"
CANARY_CLASS: Final[Object] = {
    **words.thing("PriorityClass", CANARY, api="scheduling.k8s.io/v1"),
    "value": -(2**31),
    "preemptionPolicy": "Never",
}
_TO_BE_AWAITED: Final = ("bindingConditions", "bindingFailureConditions")


@dataclass(frozen=True)
class Entrant:
    """A pod to be placed, and the claims that are created with it."""

    pod: Object
    belongings: list[Object] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the pod's name."""
        name: str = self.pod["metadata"]["name"]
        return name

    @property
    def is_prepared(self) -> bool:
        """Whether the pod is gated until all objects that belong to it exist."""
        return bool(self.belongings or self.pod.get("status"))


@dataclass(frozen=True)
class Scene:
    """A cluster, the pods that arrive one by one, and the configuration of the schedulers.

    If victims linger, none leaves before the end: their preemptors remain pending and are treated as nominated.
    """

    seed: str
    objects: list[Object]
    entrants: list[Entrant]
    config: Object
    feature_gates: dict[str, bool]
    lingers: bool

    def of(self, kind: str) -> list[Object]:
        """Return the objects of a kind."""
        return [obj for obj in self.objects if obj["kind"] == kind]

    def entrant(self, name: str) -> Entrant:
        """Return the pod with a name."""
        return next(entrant for entrant in self.entrants if entrant.name == name)


def make_scene(seed: str, number: int) -> Scene:
    """Make a scene; the required events alternate, because random scenes seldom preempt."""
    features, happens, lingers = TURNS[number % len(TURNS)]
    cases = (generate(f"{seed}/{number}.{attempt}", features=features) for attempt in count())
    return scene_of(next(filter(happens, cases)), lingers=lingers)


def _decisions(case: Case) -> list[Decision]:
    """Decide in this process; empty if the configuration is rejected, which gates and arguments may cause."""
    try:
        return decide(case)
    except ConfigError:
        return []


def _somebody_is_judged(case: Case) -> bool:
    return bool(_decisions(case))


def _somebody_preempts(case: Case) -> bool:
    return any("postFilter" in decision for decision in _decisions(case))


def _is_placed_with(part: str) -> Callable[[Case], bool]:
    """Return whether a pod with an object of this kind gets a node."""

    def happens(case: Case) -> bool:
        equipped = {
            f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
            for pod in case.objects
            if pod["kind"] == "Pod" and part in pod["spec"]
        }
        return any("node" in decision and decision["pod"] in equipped for decision in _decisions(case))

    return happens


#: Features, required events, and whether victims linger.
TURNS: Final[tuple[tuple[frozenset[str], Callable[[Case], bool], bool], ...]] = (
    (frozenset(), _somebody_is_judged, False),
    (frozenset({"volumes"}), _is_placed_with("volumes"), False),
    (frozenset(), _somebody_preempts, True),
    (frozenset({"devices"}), _is_placed_with("resourceClaims"), False),
    (frozenset(EXTRA_FEATURES), _somebody_preempts, False),
)


def scene_of(case: Case, *, lingers: bool = False) -> Scene:
    """Adapt a generated cluster to a real API server, and remove random and time-dependent cases."""
    fitter = PodFitter()
    entrants: list[Entrant] = []
    objects: list[Object] = []
    for obj in map(deepcopy, case.objects):
        if obj["kind"] != "Pod":
            objects += _fitted(obj)
        elif "nodeName" in obj["spec"]:
            objects.append(fitter.fit(obj))
        elif "deletionTimestamp" not in obj["metadata"]:
            entrants.append(Entrant(fitter.fit(obj)))
    _hand_over(objects, entrants)
    _start_one_after_the_other(objects)
    objects += [*fitter.classes(), CANARY_CLASS]
    objects.sort(key=lambda obj: ORDER.index(obj["kind"]))
    gates = {name: on for name, on in case.feature_gates.items() if name != NOT_THE_SAME}
    return Scene(case.seed, objects, entrants, _config(case.config), gates, lingers)


def _fitted(obj: Object) -> list[Object]:
    kind, spec = obj["kind"], obj.get("spec", {})
    if kind in ("ReplicaSet", "StatefulSet"):
        spec["selector"] = {"matchLabels": spec["template"]["metadata"]["labels"]}
    elif kind == "ReplicationController":
        spec["selector"] = spec["template"]["metadata"]["labels"]
    elif kind == "Node" and "taints" in spec:
        spec["taints"] = list({(taint["key"], taint["effect"]): taint for taint in spec["taints"]}.values())
    elif kind == "ResourceSlice":
        for device in spec.get("devices", ()):
            _await_nothing(device)
        return _split(obj)
    elif kind == "ResourceClaim":
        _await_no_device(obj)
    elif kind == "PodDisruptionBudget":
        obj["status"] |= {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    return [obj]


def _split(piece: Object) -> list[Object]:
    """Put counters into a separate slice, as the API server requires."""
    spec = piece["spec"]
    if not (spec.get("devices") and spec.get("sharedCounters")):
        return [piece]
    spec["pool"]["resourceSliceCount"] += 1
    counters = deepcopy(piece)
    counters["metadata"]["name"] += "-counters"
    del counters["spec"]["devices"], spec["sharedCounters"]
    return [counters, piece]


def _await_nothing(part: Object) -> None:
    """Remove the binding conditions of a device: no driver would report them here."""
    for key in _TO_BE_AWAITED:
        part.pop(key, None)


def _await_no_device(claim: Object) -> None:
    status = claim.get("status", {})
    status.pop("devices", None)
    for result in status.get("allocation", {}).get("devices", {}).get("results", ()):
        _await_nothing(result)


def _hand_over(objects: list[Object], entrants: list[Entrant]) -> None:
    """Add the claims that future pods own: they are created with their pod."""
    owners = {entrant.pod["metadata"].get("uid"): entrant for entrant in entrants}
    for obj in [*objects]:
        for reference in obj["metadata"].get("ownerReferences", ()):
            if reference["kind"] == "Pod" and (owner := owners.get(reference["uid"])) is not None:
                owner.belongings.append(obj)
                objects.remove(obj)


def _start_one_after_the_other(objects: list[Object]) -> None:
    """Set different start times for all pods: between equal candidates, upstream's preemption is random."""
    running = [obj for obj in objects if obj["kind"] == "Pod"]
    for number, pod in enumerate(running):
        pod["status"]["startTime"] = f"2026-01-01T00:00:{number:02}Z"


def _config(config: Object | None) -> Object:
    """Evaluate all nodes, one at a time, without timeouts and random starts."""
    created = deepcopy(config or BARE_CONFIG)
    created |= {"parallelism": 1, "percentageOfNodesToScore": 100}
    for profile in created["profiles"]:
        profile.pop("percentageOfNodesToScore", None)
        profile["pluginConfig"] = [
            entry for entry in profile.get("pluginConfig", ()) if entry["name"] not in ("DefaultPreemption",)
        ]
        for entry in profile["pluginConfig"]:
            for timeout in ("bindTimeoutSeconds", "bindingTimeout"):
                entry["args"].pop(timeout, None)
    return created
