"""Clusters that go with the presets of traces."""

from typing import Final

from moorage.common.errors import InputError, did_you_mean
from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import NodePool, Watts, cluster_of_pools
from moorage.lab.openb import openb_like_cluster

OPENB: Final = "openb"
ZONES: Final = ("zone-a", "zone-b", "zone-c")


def _general(count: int) -> NodePool:
    return NodePool("general", count, "32", "128Gi", zones=ZONES, price=1.4, watts=Watts(110.0, 420.0))


CLUSTERS: Final[dict[str, tuple[NodePool, ...]]] = {
    "web": (_general(26),),
    "batch": (_general(60),),
    "training": (
        NodePool(
            "gpu", 24, "96", "1024Gi", gpus=8, gpu_model="A100", zones=ZONES, price=22.0, watts=Watts(900.0, 4800.0)
        ),
    ),
    "mixed": (
        _general(11),
        NodePool(
            "gpu", 12, "96", "1024Gi", gpus=8, gpu_model="A100", zones=ZONES, price=22.0, watts=Watts(900.0, 4800.0)
        ),
    ),
}


def preset_cluster(name: str, where: str = "preset") -> LabCluster:
    """Return the cluster of a preset; raise InputError if the name is unknown."""
    if name == OPENB:
        return openb_like_cluster()
    pools = CLUSTERS.get(name)
    if pools is None:
        names = (*CLUSTERS, OPENB)
        hint = did_you_mean(name, names) or f"write one of {', '.join(names)}"
        raise InputError(where, f"there is no cluster preset {name!r}", hint=hint)
    return cluster_of_pools(name, pools, f"preset {name}")
