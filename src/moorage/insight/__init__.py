"""Insight into a cluster: explanations, what-if questions, snapshots, the web page and shadow configurations.

Other areas import names from here only; each is loaded on first use.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.insight.explain.explain_events import ExplainEventsService, request_for
    from moorage.insight.explain.explanation import PodExplanation, WorkloadExplanation
    from moorage.insight.explain.html import html_page
    from moorage.insight.explain.pods import explain_pod
    from moorage.insight.explain.text import print_explanation, print_workload
    from moorage.insight.explain.workloads import explain_workload, find_workload
    from moorage.insight.listening import ListenOptions
    from moorage.insight.page.events import with_page_events
    from moorage.insight.page.live_cluster import LiveCluster, PageObserver
    from moorage.insight.page.page_server import PageServer, run_page
    from moorage.insight.page.page_source import PageSource
    from moorage.insight.page.question_process import QuestionProcess
    from moorage.insight.page.replayed_cluster import ReplayedCluster, ReplayedRun
    from moorage.insight.page.scheduler_page import SchedulerPage, allow_page
    from moorage.insight.page.static_cluster import StaticCluster
    from moorage.insight.shadow.promotion import ConfigFile, ConfigMapKey, LoadConfig, promote_config, undo_promotion
    from moorage.insight.shadow.report import read_report, report_lines
    from moorage.insight.shadow.scheduler_shadow import SchedulerShadow
    from moorage.insight.snapshots.anonymizer import Anonymizer
    from moorage.insight.snapshots.cluster_reader import ShowReading
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
            "explain.explain_events": ("ExplainEventsService", "request_for"),
            "explain.explanation": ("PodExplanation", "WorkloadExplanation"),
            "explain.html": ("html_page",),
            "explain.pods": ("explain_pod",),
            "explain.text": ("print_explanation", "print_workload"),
            "explain.workloads": ("explain_workload", "find_workload"),
            "listening": ("ListenOptions",),
            "page.events": ("with_page_events",),
            "page.live_cluster": ("LiveCluster", "PageObserver"),
            "page.page_server": ("PageServer", "run_page"),
            "page.page_source": ("PageSource",),
            "page.question_process": ("QuestionProcess",),
            "page.replayed_cluster": ("ReplayedCluster", "ReplayedRun"),
            "page.scheduler_page": ("SchedulerPage", "allow_page"),
            "page.static_cluster": ("StaticCluster",),
            "shadow.promotion": ("ConfigFile", "ConfigMapKey", "LoadConfig", "promote_config", "undo_promotion"),
            "shadow.report": ("read_report", "report_lines"),
            "shadow.scheduler_shadow": ("SchedulerShadow",),
            "snapshots.anonymizer": ("Anonymizer",),
            "snapshots.cluster_reader": ("ShowReading",),
            "snapshots.snapshot_file": ("write_snapshot",),
            "whatif.changes": ("apply_changes",),
            "whatif.packing": ("find_fewest_nodes",),
            "whatif.questions": ("ReplicaCapacity", "compare_decisions", "count_replicas", "template_pod"),
            "whatif.session": ("Session",),
            "whatif.sources": ("ClusterSource", "LoadedCluster", "find_implied_gates", "load_cluster", "read_server"),
            "whatif_service": ("ServiceOptions", "run_service"),
        },
    )
