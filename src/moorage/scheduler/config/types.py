"""KubeSchedulerConfiguration v1 as immutable structs with all fields.

An absent field has upstream's default. Three fields are `None` if absent, because that changes the behavior:
`percentage_of_nodes_to_score` (every node is scored), `qps` and `burst` (no client-side limit).
"""

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from moorage.kube.api.struct import KubeStruct
from moorage.scheduler.config.durations import Duration

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
DEFAULT_PERCENTAGE: Final = 0
DEFAULT_QPS: Final = 50.0
DEFAULT_BURST: Final = 100
ALL_PLUGINS: Final = "*"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ExtensionPoint(StrEnum):
    """The extension points of plugins, under their names in `plugins`, in the order in which a profile is built."""

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    PLACEMENT_FEASIBLE = "placementFeasible"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"

    @property
    def plugin_type(self) -> str:
        """Upstream's name for plugins of this point, as its messages print it."""
        return f"{self.value[0].upper()}{self.value[1:]}Plugin"


class PluginEntry(KubeStruct, frozen=True):
    """A plugin in a list. Weight 0 means that no weight is set."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(KubeStruct, frozen=True):
    """Plugins to enable and to disable; `*` disables all defaults."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(KubeStruct, frozen=True):
    """A plugin set for each extension point, and one for every point a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()
    placement_feasible: PluginSet | None = None
    """Configurable from 1.38, or ``None`` before."""

    def at(self, point: ExtensionPoint) -> PluginSet:
        """Return the set written for one extension point."""
        plugin_set: PluginSet | None = getattr(self, point.name.lower())
        return PluginSet() if plugin_set is None else plugin_set

    @property
    def is_since_1_38(self) -> bool:
        """Whether this is a completed configuration of 1.38 or later.

        GangScheduling has no permit then, and several plugins can generate placements.
        """
        return self.placement_feasible is not None


class PluginConfig(KubeStruct, frozen=True):
    """The arguments of a plugin: its own struct where it declares one, plain data otherwise."""

    name: str = ""
    args: Any = None


class ProfileConfig(KubeStruct, frozen=True):
    """The configuration of a scheduler name."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    percentage_of_placements_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def find_args(self, plugin: str) -> Any:
        """Return the arguments of a plugin; `None` when it has none."""
        return next((config.args for config in self.plugin_config if config.name == plugin), None)


class LeaderElection(KubeStruct, frozen=True):
    """The election of the active scheduler."""

    leader_elect: bool = True
    lease_duration: Duration = Duration.of(seconds=15)
    renew_deadline: Duration = Duration.of(seconds=10)
    retry_period: Duration = Duration.of(seconds=2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(KubeStruct, frozen=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float | None = None
    burst: Int32 | None = None


class ExtenderTLS(KubeStruct, frozen=True):
    """Certificates for an extender; data wins over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""

    def __repr__(self) -> str:
        """Return the fields without certificates and keys."""
        return f"ExtenderTLS(server_name={self.server_name!r}, insecure={self.insecure})"


class ManagedResource(KubeStruct, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderConfig(KubeStruct, frozen=True):
    """A web service that filters, scores, preempts or binds. An empty verb means that it does not."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class SchedulerConfiguration(KubeStruct, frozen=True):
    """The configuration of a scheduler; the module docstring explains `None`."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    percentage_of_placements_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[ProfileConfig, ...] = ()
    extenders: tuple[ExtenderConfig, ...] = ()
    delay_cache_until_active: bool = False

    def find_percentage(self, profile: ProfileConfig) -> int | None:
        """Return the percentage of nodes to search: of the profile or the global one. `None` means every node."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own

    def find_placement_percentage(self, profile: ProfileConfig) -> int | None:
        """Return the percentage of placements to search, as :meth:`find_percentage` does for nodes (from 1.38)."""
        own = profile.percentage_of_placements_to_score
        return self.percentage_of_placements_to_score if own is None else own
