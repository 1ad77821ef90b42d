"""One pass: every pending pod is tried once, in queue order, each seeing the ones placed before it."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from moorage.api.meta import KubeObject, ObjectMeta
from moorage.api.pod import Pod
from moorage.clock import VirtualClock
from moorage.config.types import SchedulerConfiguration
from moorage.engine.cycle.filter import Rotation
from moorage.engine.cycle.found import Found, NoNode
from moorage.engine.cycle.profile_cycle import ProfileCycle
from moorage.engine.outcomes import NO_NODES, Diagnosis
from moorage.engine.services import Services
from moorage.errors import PluginError
from moorage.features import FeatureGates
from moorage.framework.registry import Registry
from moorage.framework.status import Status
from moorage.simulator.decisions import Decision, NodeEntry, Nomination, Result
from moorage.simulator.details import node_entries, rejection
from moorage.simulator.loading import ClusterInput
from moorage.state.cache import Cache
from moorage.state.objects import Objects

T = TypeVar("T")
K = TypeVar("K", bound=KubeObject)
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Waiting:
    """A pending pod, as a queue sort plugin sees it; the timestamp is its place in the input."""

    pod: Pod
    timestamp: float
    attempts: int = 0


class GivenNominations:
    """The nominations that came with the pods; a pod that is placed gives its own up."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_node: dict[str, dict[str, Pod]] = {}
        for pod in pods:
            if pod.nominated_node_name:
                self._by_node.setdefault(pod.nominated_node_name, {})[pod.uid] = pod

    def nominated_pods(self, node_name: str) -> Sequence[Pod]:
        """Return the pods that were promised a node and are not on it yet."""
        return list(self._by_node.get(node_name, {}).values())

    def nodes_with_nominations(self) -> Sequence[str]:
        """Return the nodes that are promised to some pod."""
        return [name for name, pods in self._by_node.items() if pods]

    def node_of(self, pod: Pod) -> str:
        """Return the node that came with the pod."""
        return pod.nominated_node_name

    def placed(self, pod: Pod) -> None:
        """Forget the promise made to a pod that has its node now."""
        self._by_node.get(pod.nominated_node_name, {}).pop(pod.uid, None)

    def left_the_queue(self, pod: Pod) -> None:
        """Know a pod that is in no queue any more by its identity alone, as upstream does: it asks for nothing."""
        promised = self._by_node.get(pod.nominated_node_name, {})
        if pod.uid in promised:
            promised[pod.uid] = Pod(metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid))


class NothingCarriedOut:
    """A cluster and a background in which nothing happens: one pass reports, it does not act."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Leave the pod where it is."""

    async def get(self, thing: K) -> K:
        """Return the object as it is known: nobody changes it."""
        return thing

    async def create(self, thing: K) -> K:
        """Pretend that the object was created."""
        return thing

    async def update(self, thing: K, *, subresource: str = "") -> K:
        """Pretend that the object was updated."""
        return thing

    async def patch_status(self, thing: KubeObject, patch: Mapping[str, Any]) -> None:
        """Leave the status as it is."""

    async def delete(self, thing: KubeObject) -> None:
        """Leave the object where it is."""

    def record(self, event: object) -> None:
        """Tell nobody."""

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Drop the work."""
        work.close()

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Try no pod twice."""

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Never come back to it: no time passes."""


class OnePass:
    """A cluster and the profiles that are to place its pending pods."""

    def __init__(
        self,
        cluster: ClusterInput,
        config: SchedulerConfiguration,
        registry: Registry,
        *,
        features: FeatureGates,
        search_all: bool = True,
        with_nodes: bool = True,
        cross_check: bool = False,
    ) -> None:
        self.cluster = cluster
        self._with_nodes = with_nodes
        self.cache = Cache()
        known = {profile.scheduler_name for profile in config.profiles}
        self.nominations = GivenNominations(pod for pod in cluster.waiting if pod.scheduler_name in known)
        nothing = NothingCarriedOut()
        services = Services(
            cache=self.cache,
            objects=_shelved(cluster),
            clock=VirtualClock(cluster.now),
            features=features,
            cluster=nothing,
            nominator=self.nominations,
            background=nothing,
            activate=nothing.activate,
        )
        for node in cluster.nodes:
            self.cache.add_node(node)
        for pod in cluster.running:
            self.cache.add_pod(pod)
        rotation = Rotation()
        self.placements = {
            profile.scheduler_name or "": ProfileCycle(
                profile,
                registry,
                services,
                rotation,
                None if search_all else config.percentage_for(profile),
                cross_check,
            )
            for profile in config.profiles
        }

    def run(self, progress: Progress | None = None) -> list[Decision]:
        """Try every pending pod of a known profile once; gated pods come last."""
        waiting = [
            Waiting(pod, float(place))
            for place, pod in enumerate(self.cluster.waiting)
            if pod.scheduler_name in self.placements
        ]
        sort = next(iter(self.placements.values())).profile.queue_sort[0]
        ready = sorted((item for item in waiting if self._gate(item.pod) is None), key=sort.sort_key)
        decisions = []
        for number, item in enumerate(ready):
            if item.pod.is_terminating:
                self.nominations.left_the_queue(item.pod)
                continue
            decisions.append(run_now(self.try_pod(item.pod)))
            if progress is not None:
                progress(number + 1, len(ready))
        waiting = [item for item in waiting if not item.pod.is_terminating]
        gated = [(item.pod, gate) for item in waiting if (gate := self._gate(item.pod)) is not None]
        return [*decisions, *(self._gated(pod, gate) for pod, gate in gated)]

    async def try_pod(self, pod: Pod) -> Decision:
        """Try one pod, and keep it on its node if it fits."""
        placement = self.placements[pod.scheduler_name]
        if len(self.cache) == 0:
            return self._decision(pod, Result.UNSCHEDULABLE, message=NO_NODES)
        try:
            found = placement.find(pod)
            if isinstance(found, NoNode):
                return await self._unschedulable(placement, pod, found.diagnosis, found)
            entries = self._entries(placement, found)
            choice = placement.choose(found)
            refusal = self._take(placement, pod, choice.node.name, found.cycle)
        except PluginError as error:
            return self._decision(pod, Result.ERROR, message=str(error))
        if refusal is not None:
            diagnosis = Diagnosis.on_node(choice.node.name, refusal)
            return self._refused(pod, diagnosis, nodes=entries)
        return self._decision(pod, Result.SCHEDULED, node=choice.node.name, tied=choice.tied, nodes=entries)

    def _entries(self, placement: ProfileCycle, found: Found) -> dict[str, NodeEntry]:
        return node_entries(placement, found) if self._with_nodes else {}

    def _take(self, placement: ProfileCycle, pod: Pod, node_name: str, cycle: Any) -> Status | None:
        """Assume the pod on its node and reserve what it needs there, or neither."""
        assumed = pod.on_node(node_name)
        self.cache.assume(assumed)
        self.nominations.placed(pod)
        try:
            refusal = placement.reserve(cycle, assumed, node_name) or placement.permit(cycle, assumed, node_name)
        except PluginError:
            self._give_back(placement, assumed, cycle)
            raise
        if not isinstance(refusal, Status):
            return None  # nobody is there to wait for: a pod that has to wait on permit counts as placed
        self._give_back(placement, assumed, cycle)
        return refusal

    def _give_back(self, placement: ProfileCycle, assumed: Pod, cycle: Any) -> None:
        placement.unreserve(cycle, assumed, assumed.node_name)
        self.cache.forget(assumed)

    async def _unschedulable(self, placement: ProfileCycle, pod: Pod, diagnosis: Diagnosis, found: Any) -> Decision:
        rescue = await placement.post_filter(found)
        diagnosis.post_filter_message = rescue.message
        nomination = None
        if rescue.nominated_node:
            victims = tuple(sorted(victim.key for victim in rescue.victims))
            nomination = Nomination(rescue.nominated_node, victims)
        if diagnosis.pre_filter is not None:
            return self._refused(pod, diagnosis, pre_filter=rejection(diagnosis.pre_filter), post_filter=nomination)
        return self._refused(pod, diagnosis, nodes=self._entries(placement, found), post_filter=nomination)

    def _refused(self, pod: Pod, diagnosis: Diagnosis, **fields: Any) -> Decision:
        plugins = tuple(sorted(diagnosis.unschedulable_plugins))
        message = diagnosis.message
        return self._decision(pod, Result.UNSCHEDULABLE, message=message, unschedulable_plugins=plugins, **fields)

    def _gate(self, pod: Pod) -> Status | None:
        """Return what holds a pod back from the queue, with the plugin's name."""
        for plugin in self.placements[pod.scheduler_name].profile.pre_enqueue:
            status = plugin.pre_enqueue(pod)
            if status is not None:
                return status.by(plugin.name)
        return None

    def _gated(self, pod: Pod, gate: Status) -> Decision:
        return self._decision(pod, Result.GATED, unschedulable_plugins=(gate.plugin,))

    @staticmethod
    def _decision(pod: Pod, result: Result, **fields: Any) -> Decision:
        return Decision(pod=pod.key, profile=pod.scheduler_name, result=result, **fields)


def _shelved(cluster: ClusterInput) -> Objects:
    objects = Objects()
    for thing in cluster.objects:
        objects[type(thing)].put(thing)
    return objects


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a plugin waits for something in a pass in which nothing happens")
