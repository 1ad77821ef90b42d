"""A cluster for trials: nodes, other objects, and pools that scale.

Annotations of a node contain its price and its power consumption, regardless of its origin.
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
    """A pool that adds nodes while pods are unschedulable, and removes nodes that were empty for a while."""

    name: str
    template: Node
    scaling: Scaling
    most_added: int
    """Maximum number of nodes in addition to the initial ones."""


class LabCluster(Struct, frozen=True):
    """The cluster at the start of a trial."""

    name: str
    nodes: tuple[Node, ...]
    objects: tuple[KubeObject, ...] = ()
    """Other objects: running pods, volumes, namespaces."""
    scaled: tuple[ScaledPool, ...] = ()
