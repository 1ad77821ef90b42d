"""What extenders say about the candidates."""

from collections.abc import Mapping

import structlog

from moorage.common.errors import ExtenderError
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.handle import PreemptionExtender, PreemptionHandle
from moorage.scheduler.framework.victims import Victims

log = structlog.get_logger(__name__)


async def approved(handle: PreemptionHandle, pod: Pod, candidates: Mapping[str, Victims]) -> Mapping[str, Victims]:
    """Let every extender that wants to drop candidates and change victims, one after the other.

    ExtenderError if one that may not be ignored fails.
    """
    for extender in handle.extenders:
        if not candidates:
            break
        if not extender.handles_preemption_for(pod):
            continue
        try:
            answer = await extender.process_preemption(pod, candidates, handle.nodes)
        except ExtenderError as error:
            if not extender.is_ignorable:
                raise
            log.warning("extender left out of preemption", extender=extender.name, pod=pod.key, error=str(error))
            continue
        candidates = _with_victims(extender, answer)
    return candidates


def _with_victims(extender: PreemptionExtender, answer: Mapping[str, Victims]) -> Mapping[str, Victims]:
    empty = [name for name, victims in answer.items() if not victims.pods]
    if empty and not extender.is_ignorable:
        raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
    return {name: victims for name, victims in answer.items() if victims.pods}
