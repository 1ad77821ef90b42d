"""Containers: what they ask for, the ports they open, the images they run, and what the kubelet says of them."""

from typing import Any

import msgspec

from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.struct import Int32, KubeStruct


class ContainerClaim(KubeStruct, frozen=True):
    """A container's use of one of the pod's resource claims."""

    name: str = ""
    request: str = ""


class ResourceRequirements(KubeStruct, frozen=True):
    """Requests and limits; ``claims`` names resource claims of the pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(KubeStruct, frozen=True):
    """A port, and the node's port it takes if any."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""
    name: str = ""


class RestartRule(KubeStruct, frozen=True):
    """What to do when a container exits; only the action matters for scheduling."""

    action: str = ""


class VolumeMount(KubeStruct, frozen=True):
    """A mount of a volume: only what a node must support matters.

    Where it is mounted and under which name is left out: the token of a service account is mounted into every pod under
    a name of its own, and would make a template of each.
    """

    bind_mount_options: tuple[Any, ...] = ()


class Container(KubeStruct, frozen=True):
    """A container or init container; an init container with ``restartPolicy: Always`` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container keeps running beside the others."""
        return self.restart_policy == "Always"


class ContainerEnd(KubeStruct, frozen=True):
    """How a container ended."""

    exit_code: Int32 = 0


class ContainerState(KubeStruct, frozen=True):
    """What a container is doing, as far as it matters: nothing any more."""

    terminated: ContainerEnd | None = None


class ContainerStatus(KubeStruct, frozen=True):
    """What the kubelet has set aside for a container, for pods resized in place; and how it ended."""

    name: str = ""
    allocated_resources: ResourceList | None = None
    resources: ResourceRequirements | None = None
    state: ContainerState | None = None
