"""Post-filters run for a pod without feasible nodes; the most important one is preemption."""

from typing import Final

import structlog
from msgspec import Struct

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.search_result import NoNode
from moorage.scheduler.engine.extension_points import POST_FILTER, ask_waiting
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.framework.faults import described, shown
from moorage.scheduler.framework.plugin import PostFilterResult
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


async def post_filter(profile: Profile, no_node: NoNode) -> PostFiltered:
    """Run the post-filters in order, until one succeeds or returns an unresolvable status."""
    if not profile.post_filter:
        return PostFiltered("", nominated_node="")
    reasons: list[str] = []
    nomination: PostFilterResult | None = None
    for plugin in profile.post_filter:
        try:
            result = await ask_waiting(
                POST_FILTER, plugin, plugin.post_filter, no_node.cycle, no_node.pod, no_node.diagnosis.statuses
            )
        except PluginError as error:  # the pod stays unschedulable
            cause = error.__cause__
            log.exception("post-filter failed", plugin=plugin.name, pod=no_node.pod.key)
            problem = str(error) if cause is None else described(cause)
            return PostFiltered(problem, code=Code.ERROR)
        if not _is_valid(result):
            problem = f"PostFilter plugin {plugin.name} returned {shown(result)}, which is not a PostFilterResult"
            return PostFiltered(problem, code=Code.ERROR)
        if result.status is None:
            return PostFiltered(result.message, result.nominated_node, result.victims, Code.SUCCESS)
        if result.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFiltered(result.status.message, result.nominated_node, result.victims, result.status.code)
        if not result.status.is_rejection:
            return PostFiltered(result.status.message, code=result.status.code)
        if result.nominated_node is not None:
            nomination = result
        reasons += result.status.reasons
    return PostFiltered(", ".join(reasons), nomination.nominated_node if nomination else None)


def _is_valid(result: object) -> bool:
    """Check the type of every field: structs accept any value."""
    return (
        isinstance(result, PostFilterResult)
        and isinstance(result.nominated_node, str | None)
        and isinstance(result.status, Status | None)
        and isinstance(result.message, str)
        and isinstance(result.victims, tuple)
        and all(isinstance(victim, Pod) for victim in result.victims)
    )
