"""The embedded cluster: API server, controllers, fake kubelets and a scheduler, in real or virtual time.

Other areas import names from here only. Each is loaded on first use.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.cluster.absent_objects import create_absent
    from moorage.cluster.agenda import NEVER, Agenda
    from moorage.cluster.apiserver.api import Api
    from moorage.cluster.apiserver.reading.selection import parse_labels
    from moorage.cluster.apiserver.server import ApiServer
    from moorage.cluster.applying import check_manifests, read_manifests
    from moorage.cluster.controllers.actions import ControllerAction
    from moorage.cluster.controllers.fake_nodes import NodeShape, fake_node
    from moorage.cluster.controllers.informer_cache import InformerCache
    from moorage.cluster.controllers.kubelet import RUN_FOR, KubeletPace
    from moorage.cluster.controllers.ownership import scaled
    from moorage.cluster.controllers.persistent_volumes import TOPOLOGY
    from moorage.cluster.dry_run import DryRun, add_workload_pods
    from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
    from moorage.cluster.files.admitting import AdmissionCheck
    from moorage.cluster.files.custom import list_notes
    from moorage.cluster.files.loading import ClusterInput, Creation, cluster_from_documents
    from moorage.cluster.in_process import InProcessClient
    from moorage.cluster.offline import DiscardingApi, InstantApi, OfflineScheduler, search_all_nodes
    from moorage.cluster.runs.history import Run
    from moorage.cluster.runs.logged_run import LoggedRun
    from moorage.cluster.runs.recording import FailedAttempt, RecordedDecision, RunRecorder, why_not
    from moorage.cluster.runs.replay import ClusterMoment, Replay, WaitingRecord
    from moorage.cluster.runs.run_report import format_seconds, print_run
    from moorage.cluster.simulation.simulated_cluster import Pace
    from moorage.cluster.simulation.simulation import simulate
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "absent_objects": ("create_absent",),
            "agenda": ("NEVER", "Agenda"),
            "apiserver.api": ("Api",),
            "apiserver.reading.selection": ("parse_labels",),
            "apiserver.server": ("ApiServer",),
            "applying": ("check_manifests", "read_manifests"),
            "controllers.actions": ("ControllerAction",),
            "controllers.fake_nodes": ("NodeShape", "fake_node"),
            "controllers.informer_cache": ("InformerCache",),
            "controllers.kubelet": ("RUN_FOR", "KubeletPace"),
            "controllers.ownership": ("scaled",),
            "controllers.persistent_volumes": ("TOPOLOGY",),
            "dry_run": ("DryRun", "add_workload_pods"),
            "embedded": ("ClusterOptions", "EmbeddedCluster"),
            "files.admitting": ("AdmissionCheck",),
            "files.custom": ("list_notes",),
            "files.loading": ("ClusterInput", "Creation", "cluster_from_documents"),
            "in_process": ("InProcessClient",),
            "offline": ("DiscardingApi", "InstantApi", "OfflineScheduler", "search_all_nodes"),
            "runs.history": ("Run",),
            "runs.logged_run": ("LoggedRun",),
            "runs.recording": ("FailedAttempt", "RecordedDecision", "RunRecorder", "why_not"),
            "runs.replay": ("ClusterMoment", "Replay", "WaitingRecord"),
            "runs.run_report": ("format_seconds", "print_run"),
            "simulation.simulated_cluster": ("Pace",),
            "simulation.simulation": ("simulate",),
        },
    )

__all__ = [
    "NEVER",
    "RUN_FOR",
    "TOPOLOGY",
    "AdmissionCheck",
    "Agenda",
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
    "InProcessClient",
    "InformerCache",
    "InstantApi",
    "KubeletPace",
    "LoggedRun",
    "NodeShape",
    "OfflineScheduler",
    "Pace",
    "RecordedDecision",
    "Replay",
    "Run",
    "RunRecorder",
    "WaitingRecord",
    "add_workload_pods",
    "check_manifests",
    "cluster_from_documents",
    "create_absent",
    "fake_node",
    "format_seconds",
    "list_notes",
    "parse_labels",
    "print_run",
    "read_manifests",
    "scaled",
    "search_all_nodes",
    "simulate",
    "why_not",
]
