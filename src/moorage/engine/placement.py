"""Placing one pod, one profile's way: from finding nodes to permit. The scheduler decides what happens next."""

from typing import Final

import structlog
from msgspec import Struct

from moorage.api.pod import Pod
from moorage.config.types import Profile as ProfileConfig
from moorage.engine import timing
from moorage.engine.boundary import ask, failure, require_status
from moorage.engine.choice import Choice, Chooser
from moorage.engine.crosscheck import CrossCheck
from moorage.engine.diagnosis import Diagnosis
from moorage.engine.extending import Extending
from moorage.engine.feasibility import Found, Rotation, Search
from moorage.engine.handle import EngineHandle
from moorage.engine.profile import Profile
from moorage.engine.services import Services
from moorage.errors import ExtenderError, PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.plugin import PostFilterResult, Wait
from moorage.framework.registry import Registry
from moorage.framework.status import Code, Status

NO_NODES = "no nodes available to schedule pods"
LONGEST_WAIT = 15 * 60.0
NOBODY: Final[frozenset[str]] = frozenset()

log = structlog.get_logger(__name__)


class Rescue(Struct):
    """What the post-filters came up with: a message, and perhaps a nomination (``""`` clears the one there is)."""

    message: str
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    code: Code = Code.UNSCHEDULABLE


class Placement:
    """One profile at work.

    ``find`` returns the nodes a pod fits on, whatever extenders say of them; ``choose`` picks one of those.
    """

    def __init__(
        self,
        config: ProfileConfig,
        registry: Registry,
        services: Services,
        rotation: Rotation,
        percentage: int | None,
        cross_check: bool | float = False,
    ) -> None:
        handle = EngineHandle(services)
        self.stopwatch = timing.Stopwatch()
        self.profile = Profile(config, registry, handle)
        self.search = Search(self.profile, services, rotation, percentage)
        self.chooser = Chooser(self.profile, services.cache)
        self.extending = Extending(services.extenders, services.cache)
        self.find = self.search.find
        self.choose = self.chooser.choose
        handle.attach(self.search)
        if cross_check:
            self.search.cross_check = self.chooser.cross_check = CrossCheck(
                self.profile, float(cross_check), is_live=cross_check is not True
            )

    def time_with(self, stopwatch: timing.Stopwatch) -> None:
        """Have all extension points timed from now on."""
        self.stopwatch = self.search.stopwatch = self.chooser.stopwatch = stopwatch

    async def find_extended(self, pod: Pod) -> Found:
        """Find the nodes the pod fits on and extenders agree with."""
        found = self.search.find(pod)
        if found.promised is not None:
            if await self._is_agreed(found):
                return found
            found = self.search.find(pod, try_promised=False)
        await self.extending.narrow(found)
        return found

    async def _is_agreed(self, found: Found) -> bool:
        """Ask extenders about the node the pod was promised; if that fails, all nodes are looked at."""
        try:
            await self.extending.narrow(found)
        except ExtenderError as error:
            log.warning("promised node could not be judged", pod=found.pod.key, error=str(error))
            return False
        return found.count > 0

    async def choose_extended(self, found: Found) -> Choice:
        """Pick one of them, extenders having their say."""
        if found.count == 1:
            return self.chooser.choose(found)
        added = await self.extending.rate(found)
        return self.chooser.choose(found) if added is None else self.chooser.choose_with(found, added)

    async def rescue(self, found: Found) -> Rescue:
        """Ask the post-filters to do something for a pod that fits nowhere."""
        if not self.profile.post_filter:
            return Rescue("", nominated_node="")
        began = timing.read()
        rescue = await self._ask_post_filters(found)
        self.stopwatch.took(timing.POST_FILTER, began, rescue.code)
        return rescue

    async def _ask_post_filters(self, found: Found) -> Rescue:
        reasons: list[str] = []
        kept: PostFilterResult | None = None
        for plugin in self.profile.post_filter:
            try:
                result = await plugin.post_filter(found.cycle, found.pod, found.diagnosis.statuses)
            except PLUGIN_FAULTS as error:  # the boundary for plugins that wait; the pod stays unschedulable
                pass_on_interrupt(error)
                log.exception("post-filter failed", plugin=plugin.name, pod=found.pod.key)
                return Rescue(described(error), code=Code.ERROR)
            if not isinstance(result, PostFilterResult):
                problem = f"PostFilter plugin {plugin.name} answered {result!r}, which is no PostFilterResult"
                return Rescue(problem, code=Code.ERROR)
            if result.status is None:
                return Rescue(result.message, result.nominated_node, result.victims, Code.SUCCESS)
            if result.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return Rescue(result.status.message, result.nominated_node, result.victims, result.status.code)
            if not result.status.is_rejection:
                return Rescue(result.status.message, code=result.status.code)
            if result.nominated_node is not None:
                kept = result
            reasons += result.status.reasons
        return Rescue(", ".join(reasons), kept.nominated_node if kept else None)

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Have every reserve plugin set aside what the pod needs; stop at the first that cannot."""
        resting = NOBODY if self.profile.asks_all else self.profile.resting & cycle.skipped_filters
        if self.profile.reserving <= resting:
            self.stopwatch[timing.RESERVE](0.0)
            return None
        began = timing.read()
        for plugin in self.profile.reserve:
            if plugin.name in resting:
                continue
            said = ask("Reserve", plugin, plugin.reserve, cycle, pod, node_name)
            if said is not None and (status := require_status("Reserve", plugin, said)) is not None:
                self.stopwatch.took(timing.RESERVE, began, status.code)
                return self._refusal("Reserve", plugin.name, status)
        self.stopwatch[timing.RESERVE](timing.read() - began)
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Have every reserve plugin give back what it set aside, last first; one that cannot does not stop the rest."""
        began = timing.read()
        for plugin in reversed(self.profile.reserve):
            try:
                ask("Unreserve", plugin, plugin.unreserve, cycle, pod, node_name)
            except PluginError as error:
                log.warning("reserve plugin gave nothing back", plugin=plugin.name, pod=pod.key, error=str(error))
        self.stopwatch.took(timing.UNRESERVE, began)

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | dict[str, float] | None:
        """Ask whether the pod may be bound: a refusal, the plugins to wait for and how long, or ``None``."""
        if not self.profile.permit:
            self.stopwatch[timing.PERMIT](0.0)
            return None
        began = timing.read()
        waits: dict[str, float] = {}
        for plugin in self.profile.permit:
            said = ask("Permit", plugin, plugin.permit, cycle, pod, node_name)
            if isinstance(said, Wait):
                waits[plugin.name] = _seconds(plugin.name, said)
                continue
            status = require_status("Permit", plugin, said)
            if status is not None:
                self.stopwatch.took(timing.PERMIT, began, status.code)
                return self._refusal("Permit", plugin.name, status)
        self.stopwatch.took(timing.PERMIT, began, Code.WAIT if waits else Code.SUCCESS)
        return waits or None

    @staticmethod
    def _refusal(point: str, plugin: str, status: Status) -> Status:
        if not status.is_rejection:
            raise failure(point, plugin, status.message)
        return status.by(plugin)


def _seconds(plugin: str, wait: Wait) -> float:
    seconds = wait.seconds
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        return min(seconds, LONGEST_WAIT)
    raise failure("Permit", plugin, f"it answered {wait!r}: write Wait(seconds) with a number of 0 or more")


def one_node_diagnosis(node_name: str, status: Status) -> Diagnosis:
    """Describe a refusal on the chosen node: ``0/1 nodes are available: 1 <reason>.``"""
    diagnosis = Diagnosis(1, NodeStatuses({node_name: status}, Status.unresolvable()))
    diagnosis.blame(status)
    return diagnosis
