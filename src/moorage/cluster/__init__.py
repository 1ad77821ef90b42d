"""The embedded cluster: API server, controllers, fake kubelets and a scheduler, in real or virtual time.

Other areas import names from here only; each is loaded on first use.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.cluster.apiserver.api import Api
    from moorage.cluster.apiserver.server import ApiServer
    from moorage.cluster.applying import Manifest, manifests_in, manifests_of
    from moorage.cluster.controllers.actions import ControllerAction
    from moorage.cluster.controllers.fake_nodes import NodeShape, fake_node
    from moorage.cluster.controllers.informer_cache import InformerCache
    from moorage.cluster.controllers.kubelet import KubeletPace
    from moorage.cluster.controllers.persistent_volumes import TOPOLOGY
    from moorage.cluster.dry_run import DryRun, add_workload_pods
    from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
    from moorage.cluster.files.custom import notes_on
    from moorage.cluster.files.loading import ClusterInput, Creation, cluster_of
    from moorage.cluster.offline import DiscardingApi, InstantApi, OfflineScheduler, search_all_nodes
    from moorage.cluster.simulation.log_report import history_lines
    from moorage.cluster.simulation.logged_run import LoggedRun
    from moorage.cluster.simulation.recording import FailedAttempt, RecordedDecision, RunRecorder, why_not
    from moorage.cluster.simulation.replay import ClusterMoment, Replay, WaitingRecord
    from moorage.cluster.simulation.report import print_decisions, summary
    from moorage.cluster.simulation.run_report import print_run, shown_time
    from moorage.cluster.simulation.simulated_cluster import Pace
    from moorage.cluster.simulation.simulation import Run, simulate
    from moorage.cluster.transport import InProcess
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "apiserver.api": ("Api",),
            "apiserver.server": ("ApiServer",),
            "applying": (
                "Manifest",
                "manifests_in",
                "manifests_of",
            ),
            "controllers.actions": ("ControllerAction",),
            "controllers.fake_nodes": (
                "NodeShape",
                "fake_node",
            ),
            "controllers.informer_cache": ("InformerCache",),
            "controllers.kubelet": ("KubeletPace",),
            "controllers.persistent_volumes": ("TOPOLOGY",),
            "dry_run": (
                "DryRun",
                "add_workload_pods",
            ),
            "embedded": (
                "ClusterOptions",
                "EmbeddedCluster",
            ),
            "files.custom": ("notes_on",),
            "files.loading": (
                "ClusterInput",
                "Creation",
                "cluster_of",
            ),
            "offline": (
                "DiscardingApi",
                "InstantApi",
                "OfflineScheduler",
                "search_all_nodes",
            ),
            "simulation.log_report": ("history_lines",),
            "simulation.logged_run": ("LoggedRun",),
            "simulation.recording": (
                "FailedAttempt",
                "RecordedDecision",
                "RunRecorder",
                "why_not",
            ),
            "simulation.replay": (
                "ClusterMoment",
                "Replay",
                "WaitingRecord",
            ),
            "simulation.report": (
                "print_decisions",
                "summary",
            ),
            "simulation.run_report": (
                "print_run",
                "shown_time",
            ),
            "simulation.simulated_cluster": ("Pace",),
            "simulation.simulation": (
                "Run",
                "simulate",
            ),
            "transport": ("InProcess",),
        },
    )

__all__ = [
    "TOPOLOGY",
    "Api",
    "ApiServer",
    "ClusterInput",
    "ClusterMoment",
    "ClusterOptions",
    "ControllerAction",
    "Creation",
    "DiscardingApi",
    "DryRun",
    "EmbeddedCluster",
    "FailedAttempt",
    "InProcess",
    "InformerCache",
    "InstantApi",
    "KubeletPace",
    "LoggedRun",
    "Manifest",
    "NodeShape",
    "OfflineScheduler",
    "Pace",
    "RecordedDecision",
    "Replay",
    "Run",
    "RunRecorder",
    "WaitingRecord",
    "add_workload_pods",
    "cluster_of",
    "fake_node",
    "history_lines",
    "manifests_in",
    "manifests_of",
    "notes_on",
    "print_decisions",
    "print_run",
    "search_all_nodes",
    "shown_time",
    "simulate",
    "summary",
    "why_not",
]
