"""Gangs for Coscheduling: with the PodGroups of scheduler-plugins, or with annotations alone."""

from typing import Any

from msgspec.structs import replace
from tests.support.groups import PRIORITY, GroupBench, member

from moorage.contrib.community.coscheduling.gangs import (
    GANG,
    GANG_SIZE,
    GROUP_LABEL,
    CoschedulingGroup,
    CoschedulingSpec,
)
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod

COSCHEDULING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: Coscheduling}]
    queueSort:
      enabled: [{name: Coscheduling}]
      disabled: [{name: "*"}]
  pluginConfig:
  - name: Coscheduling
    args: {ARGS}
"""


def coscheduling_bench(args: str = "{}", gates: str = "") -> GroupBench:
    """Return a scheduler with Coscheduling."""
    return GroupBench(gates=gates, config=COSCHEDULING.replace("{ARGS}", args))


def pod_group(name: str = "g", minimum: int = 3, **spec: Any) -> CoschedulingGroup:
    """Return a PodGroup of scheduler-plugins."""
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resource_version="1")
    return CoschedulingGroup(metadata=meta, spec=CoschedulingSpec(min_member=minimum, **spec))


def labeled(name: str, group: str = "g", *, cpu: str = "1", priority: int = PRIORITY, **fields: Any) -> Pod:
    """Return a pod with the label of a group."""
    return member(name, "", cpu=cpu, priority=priority, labels={GROUP_LABEL: group}, **fields)


def annotated(
    name: str, gang: str = "g", size: str | None = "3", *, cpu: str = "1", priority: int = PRIORITY, **fields: Any
) -> Pod:
    """Return a pod with the annotations of a gang."""
    pod = member(name, "", cpu=cpu, priority=priority, **fields)
    annotations = {GANG: gang} | ({} if size is None else {GANG_SIZE: size})
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
