"""The conditions of trials: changes to the trace, failures, and the time of measurements."""

from typing import Literal

from msgspec import Struct

from moorage.lab.amounts import Amount, Positive


class NodeFailures(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Nodes that fail at random, each independently of the others."""

    mean_seconds_between: Positive
    repair_seconds: Amount = 600.0


class Conditions(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The settings of every trial of an experiment."""

    shuffle: bool = False
    """Whether the pods arrive in an order that the seed decides."""
    inflate: Positive | None = None
    """Until what share of the cluster clones of randomly chosen pods are appended: 1.3 is 130% of its GPUs (or CPU)."""
    arrivals_only: bool = False
    """Whether pods arrive one by one, each after the previous decision, and never finish."""
    skip_unplaced: bool = False
    """Whether a pod that fits nowhere is given up after one attempt."""
    ties: Literal["upstream", "random", "name"] = "upstream"
    """The tie rule for nodes of equal score: kube-scheduler's order, random by seed, or the first name."""
    evicted_return: bool = True
    """Whether a pod that is evicted, or whose node fails, comes back as a new one."""
    node_failures: NodeFailures | None = None
    horizon: Positive | None = None
    """After how many seconds a trial ends, whatever is left."""
    point_every: Positive | None = None
    """Seconds between points; the default is every per cent of the requested resources, or a hundredth of the time."""
    pod_rows: bool = True
    """Whether to keep the result of each pod; a report needs it to compare placements."""
