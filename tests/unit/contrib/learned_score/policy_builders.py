"""Plugins with policies of tests.support, and the nodes that they score."""

from collections.abc import Iterator
from contextlib import contextmanager

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.contrib.learned_score.plugin import LearnedScore
from moorage.contrib.learned_score.process import REASONS
from moorage.scheduler.config.contrib_args import LearnedScoreArgs
from moorage.scheduler.config.durations import Duration
from moorage.testing.builders import make_node, make_pod
from moorage.testing.rig import Rig

POLICIES = "tests.support.policies_on_trial"


PATIENT, BRIEF, UNLIMITED = Duration.of(seconds=30), Duration.parse("200ms"), Duration()


NODES = (
    make_node("small", allocatable={"cpu": "2", "memory": "8Gi", "pods": "110"}),
    make_node("medium", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"}),
    make_node("large", allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"}),
)


POD = make_pod("web", requests={"cpu": "1", "memory": "1Gi"})


@contextmanager
def started(
    policy: str, limit: Duration = PATIENT, fallback: str = "LeastAllocated"
) -> Iterator[tuple[LearnedScore, Rig]]:
    rig = Rig(*NODES)
    name = policy if policy.endswith(".onnx") else f"{POLICIES}:{policy}"
    plugin = LearnedScore(args=LearnedScoreArgs(name, limit, fallback), handle=rig)
    run_virtual(plugin.start(), VirtualClock())
    try:
        yield plugin, rig
    finally:
        run_virtual(plugin.close(), VirtualClock())


def counted(plugin: LearnedScore) -> dict[str, float]:
    return {reason: count for reason in REASONS if (count := plugin.fallbacks.value(reason=reason))}
