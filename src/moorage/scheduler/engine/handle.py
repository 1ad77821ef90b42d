"""The services of a profile's plugins, backed by the engine's own parts."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from moorage.common.errors import PluginError
from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity
from moorage.scheduler.engine.extension_points import ADD_POD, REMOVE_POD, change_what_if, reserve, unreserve
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.scheduler.framework.groups import GroupTree, Proposal
from moorage.scheduler.framework.handle import Nominator, PreemptionExtender, WaitingPod
from moorage.scheduler.framework.logs import PluginLog
from moorage.scheduler.framework.metering import Meter, PluginMetrics
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import RowArray
from moorage.scheduler.framework.plugin import FilterPlugin, Hold, Plugin, PreFilterExtensions
from moorage.scheduler.framework.status import Status
from moorage.scheduler.state.objects import ObjectCache
from moorage.scheduler.state.pod_groups import PodGroups

K = TypeVar("K", bound=KubeObject)
S = TypeVar("S")
FilterNode = Callable[[CycleState, Pod, NodeInfo], Status | None]
SearchGroup = Callable[[GroupTree], Awaitable[tuple[Status | None, Sequence[Proposal]]]]


CANCEL_SECONDS: Final = 2.0
"""The time for background work to end after its cancellation."""


async def _no_groups(_group: GroupTree) -> tuple[Status | None, Sequence[Proposal]]:
    return Status.error("no group is being tried"), ()


class EngineHandle:
    """The handle of a plugin of a profile. A plugin uses the part in its declared handle type.

    It implements :class:`moorage.scheduler.framework.handle.PreemptionHandle` and
    :class:`moorage.scheduler.state.handle.ClusterHandle`, whose docstrings are the contract.
    """

    def __init__(
        self, services: Services, plugin: type[Plugin], profile: str, extenders: Sequence[PreemptionExtender]
    ) -> None:
        cache = services.cache
        self.profile, self.extenders = profile, extenders
        self.log = PluginLog(plugin.__module__, {"plugin": plugin.name, "profile": profile})
        self.metrics = PluginMetrics(services.meter, plugin.name, profile)
        self.nodes, self.pods, self.claims = cache.nodes, cache.pods, cache.claims
        self.has_groups = cache.groups is not None
        self.groups = PodGroups() if cache.groups is None else cache.groups
        self.features, self.clock, self.cluster = services.features, services.clock, services.cluster
        self.nominator: Nominator = services.nominator
        self.meter: Meter = services.meter
        self.activate = services.activate
        self.listed: dict[type[KubeObject], None] = {}
        """The kinds that the plugin requested, in order."""
        self.shares: set[StateKey[Any]] = set()
        """Under which keys it shares something with other plugins."""
        self._plugin = plugin.name
        self._services = services
        self._profile: Profile | None = None
        self._filter_node: FilterNode | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.search_group: SearchGroup = _no_groups
        """Looks for places for a group. Set where groups are tried."""

    def attach(self, profile: Profile, filter_node: FilterNode) -> None:
        """Give the handle its profile, which is built from plugins that already hold the handle."""
        self._profile = profile
        self._filter_node = filter_node

    @property
    def _complete_profile(self) -> Profile:
        assert self._profile is not None, "filters can be run once the profile is complete"
        return self._profile

    @property
    def order(self) -> RowArray:
        """The rows of all nodes in the order in which they are visited."""
        return self._services.cache.order

    @property
    def filters(self) -> Sequence[FilterPlugin]:
        """The filters of the profile, in order."""
        return self._complete_profile.filter

    @property
    def extensions(self) -> Sequence[PreFilterExtensions]:
        """The pre-filters of the profile that update their state for what-ifs."""
        return self._complete_profile.extensions

    def lister(self, kind: type[K]) -> ObjectCache[K]:
        """Return all objects of a kind. The call makes the scheduler list and watch it."""
        name, objects = find_kind(kind).name, self._services.objects
        # Once the profile is complete, the informers are running: another kind would remain empty.
        if self._profile is not None and kind not in objects.kinds():
            problem = f"{name} is not listed: request the lister in the constructor of {self._plugin}"
            raise PluginError(self._plugin, problem)
        self.listed[kind] = None
        return objects[kind]

    def shared(self, key: StateKey[S], make: Callable[[], S]) -> S:
        """Return the value that plugins of all profiles share under a key. The first call makes it."""
        shared = self._services.shared
        if key not in shared:
            before, self.listed = self.listed, {}
            try:
                shared[key] = make(), tuple(self.listed)
            finally:
                self.listed = before | self.listed
        value: S = shared[key][0]
        # All plugins that share it depend on the same kinds.
        self.listed.update(dict.fromkeys(shared[key][1]))
        self.shares.add(key)
        return value

    def run_filters(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Filter one node, perhaps a what-if, by all filters of the profile, nominated pods included."""
        assert self._filter_node is not None, "filters can be run once the profile is complete"
        return self._filter_node(cycle, pod, node)

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Have the pre-filters of a what-if follow a pod that is added to a node."""
        return change_what_if(ADD_POD, self._complete_profile, cycle, pod, added, node)

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Have the pre-filters of a what-if follow a pod that is taken off a node."""
        return change_what_if(REMOVE_POD, self._complete_profile, cycle, pod, removed, node)

    def invalidate(self, *node_names: str) -> None:
        """Recompute the plugin's cached results for these nodes, because its own state for them changed."""
        if self._profile is None:
            return  # nothing is cached yet
        columns, depends_on = self._services.cache.columns, self._profile.plugins[self._plugin].depends_on
        for name in node_names:
            if (row := columns.row_of.get(name)) is not None:
                columns.invalidate(row, depends_on)

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits on permit."""
        return self._services.waiting.get(uid)

    def waiting_pods(self) -> Collection[WaitingPod]:
        """Return all pods that wait on permit."""
        return self._services.waiting.all()

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Stop a pod between permit and bind, so that it is retried. Return whether it was in these phases."""
        return self._services.cancel_pre_bind(uid, reason)

    @contextmanager
    def without(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Have the cluster be without some pods inside a ``with`` block, within one cycle."""
        lifted = self._services.cache.lift(pods)
        try:
            yield
        finally:
            self._services.cache.restore_lifted(lifted)

    async def place_group(self, group: GroupTree) -> tuple[Status | None, Sequence[Proposal]]:
        """Find nodes for the current group in the present state of the cluster, without placing it."""
        return await self.search_group(group)

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Run the reserve plugins of the profile for a pod on a node."""
        return reserve(self._complete_profile, cycle, pod, node_name)

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Have the reserve plugins of the profile give that back."""
        unreserve(self._complete_profile, cycle, pod, node_name)

    def wake_rejected(self) -> None:
        """Retry the pods that the plugin rejected or gates, after their backoff."""
        if self._profile is not None:  # otherwise there are no pods yet
            self._services.wake_rejected(self.profile, self._plugin)

    def hold(self, node_name: str, requests: Mapping[str, Quantity]) -> Hold:
        """Keep resources of a node from all pods, until the hold is released or the plugin is closed."""
        if self._profile is None or self._is_closed:
            raise PluginError(self._plugin, f"{self._plugin} is not running: call handle.hold in start or later")
        return self._services.holds.add(self, self._plugin, node_name, requests)

    def resort_queue(self) -> None:
        """Recompute the sort keys of all queued pods before the next attempt."""
        if self._profile is not None:
            self._services.resort_queue()

    def in_background(self, work: Coroutine[Any, Any, object], *, name: str, must_finish: bool = False) -> None:
        """Run background work concurrent with the scheduling cycles, until it or the plugin ends. Log its exception."""
        if must_finish:
            guarded = self._guard(work, name)
            # Work that never begins, for example in a dry run, is closed with its guard.
            weakref.finalize(guarded, work.close).atexit = False
            self._services.background.start(guarded, name=name)
        elif self._is_closed:
            work.close()
        else:
            task = self._services.background.spawn(self._guard(work, name), name=f"{self._plugin}: {name}")
            if task is None:
                work.close()
            else:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(lambda _task: work.close())  # a task cancelled early never began it

    async def _guard(self, work: Coroutine[Any, Any, object], name: str) -> None:
        try:
            await work
        except GeneratorExit:  # it is torn down
            raise
        except PLUGIN_FAULTS as error:  # exceptions of plugin code must not end the process
            pass_on_interrupt(error)
            self._record(error, f"background work {name!r}")
            self.log.exception("background work failed", work=name, error=described(error))

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles, unless the plugin is closed before."""

        def act() -> None:
            try:
                if not self._is_closed:
                    action()
            except PLUGIN_FAULTS as error:  # the author's code may raise anything
                pass_on_interrupt(error)
                self._record(error, "delayed action")
                self.log.exception("delayed action failed", error=described(error))

        self._services.background.call_later(seconds, act)

    def _record(self, error: BaseException, work: str) -> None:
        if self._profile is not None:
            problem = described(error, f"{work} of {self._plugin}")
            self._profile.plugins[self._plugin]._faults.add(error, problem)

    def cancel(self) -> None:
        """Cancel what the plugin left running, and run nothing more."""
        self._is_closed = True
        self._services.holds.release_all(self)
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel what the plugin left running, and wait a moment until it has ended."""
        self.cancel()
        if self._tasks:
            _, stubborn = await asyncio.wait(self._tasks, timeout=CANCEL_SECONDS)
            for task in stubborn:
                # The task ignores its cancellation; a loop that waits for it would never end.
                hint = "let asyncio.CancelledError pass, or raise it again"
                self.log.warning("background task continues after it was cancelled", work=task.get_name(), hint=hint)
                steps = task.get_coro()
                with suppress(RuntimeError):  # it ignores this, too
                    if isinstance(steps, Coroutine):
                        steps.close()
                task.cancel()
                await asyncio.wait((task,), timeout=CANCEL_SECONDS)
                if task.done() and not task.cancelled():
                    task.exception()


class ProfileHandles:
    """The handles of a profile's plugins, by the plugin's name."""

    def __init__(self, services: Services, profile: str, extenders: Sequence[PreemptionExtender] = ()) -> None:
        self._services = services
        self._profile = profile
        self._extenders = extenders
        self.made: dict[str, EngineHandle] = {}

    def make(self, plugin: type[Plugin]) -> EngineHandle:
        """Make the handle of a plugin that is about to be built."""
        handle = self.made[plugin.name] = EngineHandle(self._services, plugin, self._profile, self._extenders)
        return handle

    def cancel(self) -> None:
        """Cancel what plugins began in the background that are not going to be used."""
        for handle in self.made.values():
            handle.cancel()

    def attach(self, profile: Profile, filter_node: FilterNode) -> None:
        """Give the handles their profile, which is built from plugins that already hold them."""
        for handle in self.made.values():
            handle.attach(profile, filter_node)

    def set_group_search(self, search: SearchGroup) -> None:
        """Have plugins look for places for entire groups."""
        for handle in self.made.values():
            handle.search_group = search
