"""Types of the page's JSON API: columns for nodes, groups for pending pods; camelCase on the wire."""

import msgspec


class PageData(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base class of API types."""


class Grouping(PageData, frozen=True):
    """A column with few distinct values: the values, and the index of each node's value (-1 for none)."""

    values: list[str]
    of: list[int]


class NodeLayout(PageData, frozen=True):
    """Properties of nodes that do not depend on pods. ``labels`` divide the nodes into a few groups."""

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
    """A pending pod as one line of a list; ``since`` is in seconds of the source's clock."""

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
    owner: str = ""
    requests: dict[str, int] = {}
    created: str = ""


class WaitingGroup(PageData, frozen=True):
    """Pods that are pending for the same reasons, the decisive one first.

    ``help`` is a change that makes the first example fit. ``owners`` count the pods of the largest workloads.
    """

    id: str
    reasons: tuple[str, ...]
    plugins: tuple[str, ...]
    pods: int
    examples: tuple[str, ...]
    message: str
    oldest: float
    help: str = ""
    is_helped: bool = False
    """Whether the search for a change has ended."""
    owners: dict[str, int] = {}


class PodLine(PageData, frozen=True):
    """A pod as one line of a list: its node, or why it is pending."""

    pod: str
    node: str = ""
    reason: str = ""
    owner: str = ""
    priority: int = 0
    requests: dict[str, int] = {}
    created: str = ""


class RetryEvent(PageData, frozen=True):
    """An event that triggers a retry of pods, their number, and the plugins that registered it."""

    event: str
    pods: int
    plugins: tuple[str, ...]


class GroupLine(PageData, frozen=True):
    """A pod group with the number of its pending and placed members."""

    name: str
    waiting: int
    placed: int
    place: str = ""


class DecisionLine(PageData, frozen=True):
    """A finished attempt. ``number`` counts all attempts."""

    number: int
    time: float
    pod: str
    result: str
    node: str = ""
    text: str = ""
    attempt: int = 0


class TimeLines(PageData, frozen=True):
    """Values over time, one per step of ``step`` seconds, for the charts of the page."""

    start: float
    step: float
    placed: list[int]
    failed: list[int]
    waiting: list[int]
    latency: list[float]
    """The mean time from the first attempt to the node, of the pods placed in this step."""


class PageState(PageData, frozen=True):
    """A cluster at one time."""

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
    """The subject of the page: ``kind`` is ``still``, ``played`` or ``live``. ``runs`` are the names of the runs."""

    kind: str
    title: str
    runs: list[str]
    seconds: float = 0.0
    clock_start: float = 0.0
    note: str = ""
    weights: dict[str, dict[str, int]] = {}
    """For each profile the weights of its score plugins."""
