"""Runs the plugins of a profile: the phases that the scheduler calls for each pod."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import structlog
from msgspec import Struct

from moorage.common.errors import ExtenderError, PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.types import ProfileConfig
from moorage.scheduler.engine import extension_points, group_points
from moorage.scheduler.engine.cycle.extenders import Extending
from moorage.scheduler.engine.cycle.filter import WHOLE_CLUSTER, Filtering, Rotation, SearchRequest
from moorage.scheduler.engine.cycle.score import Scoring
from moorage.scheduler.engine.cycle.search_result import (
    Choice,
    ExtendedNodes,
    NoNode,
    OneNode,
    SearchResult,
    SeveralNodes,
)
from moorage.scheduler.engine.extender import Extender
from moorage.scheduler.engine.extension_points import POST_FILTER, call_plugin_async, wrong_result
from moorage.scheduler.engine.handle import ProfileHandles
from moorage.scheduler.engine.phases import (
    GENERATE_PLACEMENTS_PHASE,
    GROUP_POST_FILTER_PHASE,
    NO_HOOKS,
    PERMIT_PHASE,
    PLACEMENT_FEASIBLE_PHASE,
    POST_FILTER_PHASE,
    RESERVE_PHASE,
    SCORE_PLACEMENTS_PHASE,
    UNRESERVE_PHASE,
    PhaseHooks,
)
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.reference import CrossCheck
from moorage.scheduler.engine.services import Services
from moorage.scheduler.framework.faults import described
from moorage.scheduler.framework.plugin import Plugin, PostFilterResult
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import Code, Status

log = structlog.get_logger(__name__)


class PostFiltered(Struct, frozen=True):
    """The result of the post-filters: a message, and perhaps a nomination (``""`` clears the current one)."""

    message: str
    nominated_node: str | None = None
    victims: tuple[Pod, ...] = ()
    code: Code = Code.UNSCHEDULABLE


NOT_RUN: Final = PostFiltered("")
"""The result without preemption: the nomination of the pod does not change."""


class ProfileRunner:
    """Runs the plugins of a profile; ``hooks`` time or trace the phases."""

    def __init__(  # noqa: PLR0913, PLR0917 - called once, by Profiles
        self,
        config: ProfileConfig,
        registry: Registry,
        services: Services,
        rotation: Rotation,
        percentage: int | None,
        cross_check: bool | float = False,
        extenders: Sequence[Extender] = (),
        hooks: PhaseHooks = NO_HOOKS,
        shared: Mapping[str, Plugin] = MappingProxyType({}),
    ) -> None:
        self.extenders = extenders
        self.cache = services.cache
        self.handles = ProfileHandles(services, config.scheduler_name or "", extenders)
        try:
            self.profile = profile = Profile(config, registry, self.handles.make, shared)
        except BaseException:
            self.handles.cancel()  # the plugins built before the failure may have started background work
            raise
        check = CrossCheck(profile, float(cross_check), is_live=cross_check is not True) if cross_check else None
        self.filtering = Filtering(profile, services, rotation, percentage, hooks, check)
        self.scoring = Scoring(profile, services.cache, services.ties, hooks, check)
        self.extending = Extending(extenders, services.cache)
        self.find = self.filtering.find
        self.choose = self.scoring.choose
        self.post_filter = hooks.wrap(partial(post_filter, profile), POST_FILTER_PHASE)
        self.reserve = hooks.wrap(partial(extension_points.reserve, profile), RESERVE_PHASE)
        self.unreserve = hooks.wrap(partial(extension_points.unreserve, profile), UNRESERVE_PHASE)
        self.permit = hooks.wrap(partial(extension_points.permit, profile), PERMIT_PHASE)
        self.placement_feasible = hooks.wrap(
            partial(group_points.placement_feasible, profile), PLACEMENT_FEASIBLE_PHASE
        )
        self.generate_placements = hooks.wrap(
            partial(group_points.generate_placements, profile), GENERATE_PLACEMENTS_PHASE
        )
        self.score_placements = hooks.wrap(partial(group_points.score_placements, profile), SCORE_PLACEMENTS_PHASE)
        self.post_filter_group = hooks.wrap(partial(group_points.post_filter_group, profile), GROUP_POST_FILTER_PHASE)
        self.handles.attach(profile, self.filtering.nominated.filter_node)

    async def find_extended(self, pod: Pod, request: SearchRequest = WHOLE_CLUSTER) -> SearchResult | ExtendedNodes:
        """Return the nodes that pass the filters of plugins and extenders."""
        pre = self.filtering.pre_filter(pod, request)
        if pre.rejection is not None:
            return self.filtering.rejected(pre)
        result = self.filtering.filter(pre)
        if isinstance(result, OneNode) and result.is_nominated:
            try:
                agreed = await self.extending.narrow(result)
            except ExtenderError as error:
                log.warning("nominated node could not be filtered", pod=pod.key, error=str(error))
            else:
                if not isinstance(agreed, NoNode):
                    return agreed
            result = self.filtering.filter(pre, try_nominated=False)
        return await self.extending.narrow(result)

    async def choose_extended(self, result: OneNode | SeveralNodes | ExtendedNodes) -> Choice:
        """Select a node, with the scores of extenders."""
        if isinstance(result, OneNode):
            return Choice(result.node)
        if isinstance(result, SeveralNodes):
            nodes = self.extending.in_order(result)
            extender_scores = await self.extending.score(result.pod, nodes)
            if extender_scores is None:
                return self.choose(result)
            return self.scoring.choose_with_scores(
                ExtendedNodes(result, np.flatnonzero(result.feasible)), extender_scores
            )
        table = result.table or self.cache.nodes
        extender_scores = await self.extending.score(result.result.pod, [table[int(row)] for row in result.rows])
        return (
            self.choose(result.result)
            if extender_scores is None
            else self.scoring.choose_with_scores(result, extender_scores)
        )


async def post_filter(profile: Profile, no_node: NoNode) -> PostFiltered:
    """Run the post-filters in order, until one succeeds or returns an unresolvable status."""
    if not profile.post_filter:
        return PostFiltered("", nominated_node="")
    reasons: list[str] = []
    nomination: PostFilterResult | None = None
    for plugin in profile.post_filter:
        try:
            result = await call_plugin_async(
                POST_FILTER, plugin, plugin.post_filter, no_node.cycle, no_node.pod, no_node.diagnosis.statuses
            )
        except PluginError as error:  # the pod remains unschedulable
            cause = error.__cause__
            problem = str(error) if cause is None else described(cause, f"{plugin.name}.post_filter")
            log.warning("post-filter failed", plugin=plugin.name, pod=no_node.pod.key, error=problem)
            return PostFiltered(problem, code=Code.ERROR)
        if not (
            # The type of every field, because structs accept any value.
            isinstance(result, PostFilterResult)
            and isinstance(result.nominated_node, str | None)
            and isinstance(result.status, Status | None)
            and isinstance(result.message, str)
            and isinstance(result.victims, tuple)
            and all(isinstance(victim, Pod) for victim in result.victims)
        ):
            return PostFiltered(str(wrong_result(POST_FILTER, plugin, result)), code=Code.ERROR)
        if result.status is None:
            return PostFiltered(result.message, result.nominated_node, result.victims, Code.SUCCESS)
        if result.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFiltered(result.status.message, result.nominated_node, result.victims, result.status.code)
        if not result.status.is_rejection:
            plugin._faults.note_error("post_filter", f"{plugin.name}.post_filter: {result.status.message}")
            return PostFiltered(result.status.message, code=result.status.code)
        if result.nominated_node is not None:
            nomination = result
        reasons += result.status.reasons
    return PostFiltered(", ".join(reasons), nomination.nominated_node if nomination else None)
