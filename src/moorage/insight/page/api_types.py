"""Types of the page's JSON API: columns for nodes, groups for pending pods; camelCase on the wire."""

import msgspec


class PageData(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base class of API types."""


class Grouping(PageData, frozen=True):
    """A column of which few values are distinct: the values, and for each node which one; -1 for none."""

    values: list[str]
    of: list[int]


class NodeLayout(PageData, frozen=True):
    """Properties of nodes that do not depend on pods. ``labels`` are those that divide the nodes into a few groups."""

    version: int
    names: list[str]
    labels: dict[str, Grouping]
    allocatable: dict[str, list[int]]
    taints: Grouping
    cordoned: list[int]
    not_ready: list[int]


class NodeLoad(PageData, frozen=True):
    """The requested resources of each node, in the order of the layout."""

    requested: dict[str, list[int]]
    pods: list[int]


class WaitingPodLine(PageData, frozen=True):
    """A pod that waits, as one line of a list; ``since`` is in seconds of the source's clock."""

    pod: str
    place: str
    since: float
    attempts: int = 0
    reasons: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    message: str = ""
    event: str = ""
    group: str = ""
    priority: int = 0
    would_go_to: str = ""


class WaitingGroup(PageData, frozen=True):
    """Pods that wait for the same reasons; ``help`` is a change that would let the first example run."""

    id: str
    reasons: tuple[str, ...]
    plugins: tuple[str, ...]
    pods: int
    examples: tuple[str, ...]
    message: str
    oldest: float
    help: str = ""
    is_helped: bool = False
    """Whether the search for something that helps has ended."""


class RetryEvent(PageData, frozen=True):
    """An event that could bring pods back to the queue, how many, and the plugins that hope for it."""

    event: str
    pods: int
    plugins: tuple[str, ...]


class GroupLine(PageData, frozen=True):
    """A pod group, and how many of its members wait and have a node."""

    name: str
    waiting: int
    placed: int
    place: str = ""


class DecisionLine(PageData, frozen=True):
    """An attempt that ended; ``number`` grows by one with each."""

    number: int
    time: float
    pod: str
    result: str
    node: str = ""
    text: str = ""
    attempt: int = 0


class RunDifference(PageData, frozen=True):
    """A pod that fares differently: its node in each run, ``waits``, or nothing if it is not there."""

    pod: str
    before: str
    after: str


class TimeLines(PageData, frozen=True):
    """Values over time, one per step of ``step`` seconds, for the charts of the page."""

    start: float
    step: float
    placed: list[int]
    failed: list[int]
    waiting: list[int]
    latency: list[float]
    """The mean time from a pod's first attempt to its node, of those placed in this step."""


class PageState(PageData, frozen=True):
    """A cluster at one moment."""

    version: int
    layout: int
    time: float
    nodes: int
    placed: int
    """The number of pods on nodes."""
    waiting: int
    bound: int
    """The number of pods bound since the start."""
    queues: dict[str, int]
    groups: list[WaitingGroup]
    groups_left: int
    pods_left: int
    events: list[RetryEvent]
    pod_groups: list[GroupLine]
    load: NodeLoad
    note: str = ""


class About(PageData, frozen=True):
    """The subject of the page: ``kind`` is ``still``, ``played`` or ``live``; ``runs`` are the names of the runs."""

    kind: str
    title: str
    runs: list[str]
    seconds: float = 0.0
    clock_start: float = 0.0
    note: str = ""
    weights: dict[str, dict[str, int]] = {}
    """For each profile the weights of its score plugins."""
