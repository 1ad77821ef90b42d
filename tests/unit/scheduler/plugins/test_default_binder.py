import asyncio

import pytest

from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.plugins.default_binder import DefaultBinder
from moorage.testing import make_pod
from moorage.testing.rig import Rig


class Notebook:
    """An API that writes bindings down, or rejects them."""

    def __init__(self, refusal: MoorageError | None = None) -> None:
        self.bound: list[tuple[str, str]] = []
        self.refusal = refusal

    async def bind(self, pod: Pod, node_name: str) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.bound.append((pod.uid, node_name))


class RigWithApi(Rig):
    def __init__(self, api: Notebook) -> None:
        super().__init__()
        self.api = api

    @property
    def cluster(self) -> ClusterApi:
        return self.api  # type: ignore[return-value]


def test_the_pod_is_bound_to_its_node() -> None:
    api = Notebook()
    status = asyncio.run(DefaultBinder(handle=RigWithApi(api)).bind(CycleState(), make_pod(uid="u"), "n"))
    assert status is None
    assert api.bound == [("u", "n")]


def test_a_rejection_reaches_the_engine() -> None:
    api = Notebook(MoorageError("pod is already bound"))
    with pytest.raises(MoorageError, match="already bound"):
        asyncio.run(DefaultBinder(handle=RigWithApi(api)).bind(CycleState(), make_pod(), "n"))
