"""Base classes of the built-in controllers. The contract is :class:`.manager.Controller`."""

from collections.abc import Iterable, Sequence

from moorage.cluster.controllers.actions import ControllerAction
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import Owner, adopter_keys, owner_keys
from moorage.common.clock import Clock
from moorage.kube.api.meta import KubeObject


class BaseController:
    """A controller that uses the watched objects as keys."""

    name: str
    kinds: Sequence[type[KubeObject]]
    pause: float = 0.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        return (obj.key,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        raise NotImplementedError


class PodSetController(BaseController):
    """A controller of workloads: a changed object affects its owner or, without one, the workloads that select it."""

    pause = 0.1
    workload: type[Owner]

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, self.workload):
            return (obj.key,)
        workloads = cache[self.workload].in_namespace(obj.namespace)
        return owner_keys(obj, self.workload) or adopter_keys(obj, workloads)
