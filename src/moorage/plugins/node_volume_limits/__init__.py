"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach there."""

from moorage.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
