"""The extended handle of in-tree plugins, with indexes of the cluster's pods."""

from typing import Protocol

from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.state.claim_index import ClaimIndex
from moorage.scheduler.state.pod_groups import PodGroups
from moorage.scheduler.state.pod_index import PodIndex


class ClusterHandle(Handle, Protocol):
    """A handle for plugins that count pods on nodes. The indexes may change from one release to the next."""

    pods: PodIndex
    """Pods on nodes, counted by label selector and by affinity term."""
    claims: ClaimIndex
    """Which pods on nodes use which claims, and which inline disks."""
    has_groups: bool
    """Whether pods may be members of groups, as objects (gate GenericWorkload) or as some plugin describes them."""
    groups: PodGroups
    """The state of pod groups; only if groups exist."""
