"""Clusters that go with the presets of traces."""

from typing import Final

from moorage.errors import InputError, did_you_mean
from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import Pool, Watts, cluster_of_pools

ZONES: Final = ("zone-a", "zone-b", "zone-c")
OPENB_MODELS: Final = (
    *(("G2", 549, 96_000, 8), ("T4", 404, 96_000, 2), ("P100", 134, 40_000, 2), ("V100M16-4", 40, 38_000, 4)),
    *(("V100M16-2", 15, 38_000, 2), ("G3", 39, 128_000, 8), ("V100M32", 30, 96_000, 8), ("A10", 2, 104_000, 1)),
)
"""Pool, nodes, milli-CPU, GPUs: 1,213 nodes, 6,212 GPUs and 107,018 cores in all, as the public trace has them."""


def _general(count: int) -> Pool:
    return Pool("general", count, "32", "128Gi", zones=ZONES, price=1.4, watts=Watts(110.0, 420.0))


CLUSTERS: Final[dict[str, tuple[Pool, ...]]] = {
    "web": (_general(26),),
    "batch": (_general(60),),
    "training": (
        Pool("gpu", 24, "96", "1024Gi", gpus=8, gpu_model="A100", zones=ZONES, price=22.0, watts=Watts(900.0, 4800.0)),
    ),
    "mixed": (
        _general(11),
        Pool("gpu", 12, "96", "1024Gi", gpus=8, gpu_model="A100", zones=ZONES, price=22.0, watts=Watts(900.0, 4800.0)),
    ),
    "openb": tuple(
        Pool(name.lower(), count, f"{cpu}m", "512Gi", pods=1000, gpus=gpus, gpu_model=name.split("-")[0])
        for name, count, cpu, gpus in OPENB_MODELS
    ),
}


def preset_cluster(name: str) -> LabCluster:
    """Return the cluster of a preset; InputError if there is none of that name."""
    pools = CLUSTERS.get(name)
    if pools is None:
        hint = did_you_mean(name, CLUSTERS) or f"write one of {', '.join(CLUSTERS)}"
        raise InputError("preset", f"there is no cluster preset {name!r}", hint=hint)
    return cluster_of_pools(name, pools, f"preset {name}")
