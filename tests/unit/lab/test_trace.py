"""Pods of a trace."""

from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.lab.trace import PodMaker, TracePod


def test_gpu_demand_comes_from_requests_and_annotations() -> None:
    maker = PodMaker()
    pod = maker.make(TracePod("p", cpu_milli=500, memory_mib=1024, gpus=1, gpu_milli=460, gpu_models=("A", "B")))
    assert pod.requests == {"cpu": 500, "memory": 1 << 30, GPU_MILLI: 460}
    assert pod.annotations == {GPU_COUNT: "1", GPU_MILLI: "460", GPU_MODEL: "A|B"}
    assert maker.make(TracePod("q", cpu_milli=500, memory_mib=1024)).annotations == {}
