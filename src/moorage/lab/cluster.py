"""A cluster to try policies on: nodes, what else is there, and pools that grow and shrink.

What a node costs and draws is said by its annotations, wherever it comes from.
"""

from typing import Final

from msgspec import Struct

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.lab.amounts import Amount, NodeCount

PRICE: Final = "moorage.io/price-per-hour"
WATTS_IDLE: Final = "moorage.io/watts-idle"
WATTS_BUSY: Final = "moorage.io/watts-busy"
POOL_LABEL: Final = "moorage.io/pool"


class Scaling(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """How an autoscaled pool grows and shrinks; the nodes that it begins with stay."""

    at_most: NodeCount
    startup_seconds: Amount = 120.0
    idle_seconds: Amount = 600.0


class ScaledPool(Struct, frozen=True):
    """A pool whose nodes come when pods wait in vain, and go when they have been empty for a while."""

    name: str
    template: Node
    scaling: Scaling
    most_added: int
    """How many nodes may be there beside those that it begins with."""


class LabCluster(Struct, frozen=True):
    """A cluster as it is when a trial begins."""

    name: str
    nodes: tuple[Node, ...]
    objects: tuple[KubeObject, ...] = ()
    """What else is there: pods that run already, volumes, namespaces."""
    scaled: tuple[ScaledPool, ...] = ()
