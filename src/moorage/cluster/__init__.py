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
    from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
    from moorage.cluster.files.custom import notes_on
    from moorage.cluster.files.loading import ClusterInput, Creation, cluster_of
    from moorage.cluster.simulation.instant import InstantApi
    from moorage.cluster.simulation.log_report import history_lines
    from moorage.cluster.simulation.logged_run import LoggedRun
    from moorage.cluster.simulation.made_pods import with_made_pods
    from moorage.cluster.simulation.one_pass import (
        AssumedForGood,
        DryRunApi,
        OnePass,
        assemble_dry_run,
        make_known,
        searching_all,
    )
    from moorage.cluster.simulation.recording import FailedAttempt, RecordedDecision, RunRecorder, why_not
    from moorage.cluster.simulation.replay import ClusterMoment, Replay, WaitingRecord
    from moorage.cluster.simulation.report import print_decisions, summary
    from moorage.cluster.simulation.run_report import print_run, shown_time
    from moorage.cluster.simulation.until_quiet import Run, run_until_quiet
    from moorage.cluster.simulation.world import Pace
    from moorage.cluster.transport import InProcess
    from moorage.cluster.virtual_time import AwaitedExtender, VirtualLoop, aside, run_anywhere, run_virtual
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
            "simulation.instant": ("InstantApi",),
            "simulation.log_report": ("history_lines",),
            "simulation.logged_run": ("LoggedRun",),
            "simulation.made_pods": ("with_made_pods",),
            "simulation.one_pass": (
                "AssumedForGood",
                "DryRunApi",
                "OnePass",
                "assemble_dry_run",
                "make_known",
                "searching_all",
            ),
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
            "simulation.until_quiet": (
                "Run",
                "run_until_quiet",
            ),
            "simulation.world": ("Pace",),
            "transport": ("InProcess",),
            "virtual_time": (
                "AwaitedExtender",
                "VirtualLoop",
                "aside",
                "run_anywhere",
                "run_virtual",
            ),
        },
    )

__all__ = [
    "TOPOLOGY",
    "Api",
    "ApiServer",
    "AssumedForGood",
    "AwaitedExtender",
    "ClusterInput",
    "ClusterMoment",
    "ClusterOptions",
    "ControllerAction",
    "Creation",
    "DryRunApi",
    "EmbeddedCluster",
    "FailedAttempt",
    "InProcess",
    "InformerCache",
    "InstantApi",
    "KubeletPace",
    "LoggedRun",
    "Manifest",
    "NodeShape",
    "OnePass",
    "Pace",
    "RecordedDecision",
    "Replay",
    "Run",
    "RunRecorder",
    "VirtualLoop",
    "WaitingRecord",
    "aside",
    "assemble_dry_run",
    "cluster_of",
    "fake_node",
    "history_lines",
    "make_known",
    "manifests_in",
    "manifests_of",
    "notes_on",
    "print_decisions",
    "print_run",
    "run_anywhere",
    "run_until_quiet",
    "run_virtual",
    "searching_all",
    "shown_time",
    "summary",
    "why_not",
    "with_made_pods",
]
