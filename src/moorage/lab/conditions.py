"""Under which conditions trials run: what is done to the trace, what fails, and what is measured when."""

from typing import Literal

from msgspec import Struct

from moorage.lab.amounts import Amount, Positive


class NodeFailures(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Nodes that fail at random, each independently of the others."""

    mean_seconds_between: Positive
    repair_seconds: Amount = 600.0


class Conditions(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What holds for every trial of an experiment."""

    shuffle: bool = False
    """Whether the pods arrive in an order that the seed decides."""
    inflate: Positive | None = None
    """Until what share of the cluster clones of randomly chosen pods are appended: 1.3 is 130% of its GPUs (or CPU)."""
    arrivals_only: bool = False
    """Whether pods come one after another, each when the one before has been decided on, and nobody leaves."""
    skip_unplaced: bool = False
    """Whether a pod that fits nowhere is given up after one attempt."""
    ties: Literal["upstream", "random", "name"] = "upstream"
    """What decides between nodes of equal score: kube-scheduler's order, the seed, or whose name comes first."""
    evicted_return: bool = True
    """Whether a pod that is evicted, or whose node fails, comes back as a new one."""
    node_failures: NodeFailures | None = None
    horizon: Positive | None = None
    """After how many seconds a trial ends, whatever is left."""
    point_every: Positive | None = None
    """Seconds between points; without it, every per cent of what is asked for, or a hundredth of the time."""
    pod_rows: bool = True
    """Whether what became of each pod is kept: a report needs it to say which pods went elsewhere."""
