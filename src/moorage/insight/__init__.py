"""Insight into a cluster: explanations, what-if questions, snapshots, the web page and shadow configurations.

Other areas import names from here only; each is loaded on first use.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.insight.explain.explanation import PodExplanation, WorkloadExplanation
    from moorage.insight.explain.html import html_page
    from moorage.insight.explain.in_scheduler import ExplainEventsService, request_for
    from moorage.insight.explain.pods import explain_pod
    from moorage.insight.explain.text import print_explanation, print_workload
    from moorage.insight.explain.workloads import explain_workload, find_workload
    from moorage.insight.page.events import with_page_events
    from moorage.insight.page.in_scheduler import SchedulerPage, allow_page
    from moorage.insight.page.live_cluster import LiveCluster
    from moorage.insight.page.observer import PageObserver
    from moorage.insight.page.page_server import PageServer
    from moorage.insight.page.question_process import QuestionProcess
    from moorage.insight.page.replayed_cluster import ReplayedCluster, ReplayedRun
    from moorage.insight.page.running import StartedSource, run_page
    from moorage.insight.page.static_cluster import StaticCluster
    from moorage.insight.shadow.in_scheduler import SchedulerShadow
    from moorage.insight.shadow.promoting import ConfigMapPlace, FilePlace, LoadConfig, promotion, undoing
    from moorage.insight.shadow.report import read_report, report_lines
    from moorage.insight.snapshots.anonymizer import Anonymizer
    from moorage.insight.snapshots.cluster_reader import ShowReading, count_kinds
    from moorage.insight.snapshots.snapshot_file import write_snapshot
    from moorage.insight.whatif.changes import apply_changes
    from moorage.insight.whatif.packing import find_fewest_nodes
    from moorage.insight.whatif.questions import ReplicaCapacity, compare_decisions, count_replicas, template_pod
    from moorage.insight.whatif.session import Session
    from moorage.insight.whatif.sources import (
        ClusterSource,
        LoadedCluster,
        find_implied_gates,
        load_cluster,
        read_server,
    )
    from moorage.insight.whatif_service import ServiceOptions, run_service
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "explain.explanation": (
                "PodExplanation",
                "WorkloadExplanation",
            ),
            "explain.html": ("html_page",),
            "explain.in_scheduler": (
                "ExplainEventsService",
                "request_for",
            ),
            "explain.pods": ("explain_pod",),
            "explain.text": (
                "print_explanation",
                "print_workload",
            ),
            "explain.workloads": (
                "explain_workload",
                "find_workload",
            ),
            "page.events": ("with_page_events",),
            "page.in_scheduler": (
                "SchedulerPage",
                "allow_page",
            ),
            "page.live_cluster": ("LiveCluster",),
            "page.observer": ("PageObserver",),
            "page.page_server": ("PageServer",),
            "page.question_process": ("QuestionProcess",),
            "page.replayed_cluster": (
                "ReplayedCluster",
                "ReplayedRun",
            ),
            "page.running": (
                "StartedSource",
                "run_page",
            ),
            "page.static_cluster": ("StaticCluster",),
            "shadow.in_scheduler": ("SchedulerShadow",),
            "shadow.promoting": (
                "ConfigMapPlace",
                "FilePlace",
                "LoadConfig",
                "promotion",
                "undoing",
            ),
            "shadow.report": (
                "read_report",
                "report_lines",
            ),
            "snapshots.anonymizer": ("Anonymizer",),
            "snapshots.cluster_reader": (
                "ShowReading",
                "count_kinds",
            ),
            "snapshots.snapshot_file": ("write_snapshot",),
            "whatif.changes": ("apply_changes",),
            "whatif.packing": ("find_fewest_nodes",),
            "whatif.questions": (
                "ReplicaCapacity",
                "compare_decisions",
                "count_replicas",
                "template_pod",
            ),
            "whatif.session": ("Session",),
            "whatif.sources": (
                "ClusterSource",
                "LoadedCluster",
                "find_implied_gates",
                "load_cluster",
                "read_server",
            ),
            "whatif_service": (
                "ServiceOptions",
                "run_service",
            ),
        },
    )

__all__ = [
    "Anonymizer",
    "ClusterSource",
    "ConfigMapPlace",
    "ExplainEventsService",
    "FilePlace",
    "LiveCluster",
    "LoadConfig",
    "LoadedCluster",
    "PageObserver",
    "PageServer",
    "PodExplanation",
    "QuestionProcess",
    "ReplayedCluster",
    "ReplayedRun",
    "ReplicaCapacity",
    "SchedulerPage",
    "SchedulerShadow",
    "ServiceOptions",
    "Session",
    "ShowReading",
    "StartedSource",
    "StaticCluster",
    "WorkloadExplanation",
    "allow_page",
    "apply_changes",
    "compare_decisions",
    "count_kinds",
    "count_replicas",
    "explain_pod",
    "explain_workload",
    "find_fewest_nodes",
    "find_implied_gates",
    "find_workload",
    "html_page",
    "load_cluster",
    "print_explanation",
    "print_workload",
    "promotion",
    "read_report",
    "read_server",
    "report_lines",
    "request_for",
    "run_page",
    "run_service",
    "template_pod",
    "undoing",
    "with_page_events",
    "write_snapshot",
]
