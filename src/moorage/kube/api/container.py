"""Containers: requests, ports, images and the status reported by the kubelet."""

from typing import Any

import msgspec

from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.struct import Int32, KubeStruct


class ContainerClaim(KubeStruct, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(KubeStruct, frozen=True):
    """Requests and limits; ``claims`` names resource claims of the pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(KubeStruct, frozen=True):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""
    name: str = ""


class RestartRule(KubeStruct, frozen=True):
    """The reaction to the exit of a container; only the action matters for scheduling."""

    action: str = ""


class VolumeMount(KubeStruct, frozen=True):
    """A mount of a volume, reduced to the features that a node must support.

    Path and name are omitted: the service account token is mounted into every pod under a unique name, and pods of one
    template would not be equal.
    """

    bind_mount_options: tuple[Any, ...] = ()


class Container(KubeStruct, frozen=True):
    """A container or init container. An init container with ``restartPolicy: Always`` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether an init container is a sidecar, which keeps running."""
        return self.restart_policy == "Always"


class ContainerEnd(KubeStruct, frozen=True):
    exit_code: Int32 = 0


class ContainerState(KubeStruct, frozen=True):
    """The state of a container; only termination matters for scheduling."""

    terminated: ContainerEnd | None = None


class ContainerStatus(KubeStruct, frozen=True):
    """The resources that the kubelet allocated to a container, for pods resized in place, and its exit state."""

    name: str = ""
    allocated_resources: ResourceList | None = None
    resources: ResourceRequirements | None = None
    state: ContainerState | None = None
