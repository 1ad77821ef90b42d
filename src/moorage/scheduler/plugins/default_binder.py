"""DefaultBinder: bind a pod to its node through the API."""

from collections.abc import Coroutine
from typing import Any

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import BindPlugin
from moorage.scheduler.framework.status import Status


class DefaultBinder(BindPlugin):
    """Bind through the API. API errors are raised, so that the attempt fails as an error and is rolled back."""

    call_timeout = None  # the client has timeouts

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle

    def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Coroutine[Any, Any, Status | None]:
        return self._handle.cluster.bind(pod, node_name)
