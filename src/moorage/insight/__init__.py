"""Insight into a cluster: explanations, what-if questions, plans, forecasts, snapshots, the web page, shadows.

Other areas import names from here only. Each is loaded on first use.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.insight.explain.explain_events import ExplainEventsService, make_explain_request
    from moorage.insight.explain.explanation import PodExplanation, WorkloadExplanation
    from moorage.insight.explain.html import html_page
    from moorage.insight.explain.pods import explain_pod
    from moorage.insight.explain.text import print_explanation, print_workload
    from moorage.insight.explain.workloads import explain_workload
    from moorage.insight.forecast.forecast_model import Forecast, QueueForecast, StartInterval
    from moorage.insight.forecast.forecast_text import forecast_lines, queue_lines
    from moorage.insight.forecast.forecasting import (
        SERVICES,
        ForecastOptions,
        check_moment,
        forecast_queue,
        forecast_start,
    )
    from moorage.insight.forecast.futures import FutureCluster
    from moorage.insight.forecast.lifetimes import PodTraits, quantiles
    from moorage.insight.forecast.outlook import KnownPod, Outlook, PastPod, find_size, play_futures
    from moorage.insight.forecast.recalibration import CheckedForecast, Recalibration
    from moorage.insight.listening import ListenOptions
    from moorage.insight.page.events import with_page_events
    from moorage.insight.page.live_cluster import LiveCluster, PageObserver
    from moorage.insight.page.page_server import PageServer, run_page
    from moorage.insight.page.page_source import PageSource
    from moorage.insight.page.question_process import QuestionProcess
    from moorage.insight.page.replayed_cluster import ReplayedCluster, ReplayedRun
    from moorage.insight.page.scheduler_page import SchedulerPage, allow_page
    from moorage.insight.page.static_cluster import StaticCluster
    from moorage.insight.plan.applying import apply_plan_step
    from moorage.insight.plan.consolidation import plan_consolidate
    from moorage.insight.plan.draining import plan_drain
    from moorage.insight.plan.goals import GOALS
    from moorage.insight.plan.making_room import plan_room
    from moorage.insight.plan.mobility import Constraints
    from moorage.insight.plan.plan_html import plan_html
    from moorage.insight.plan.plan_model import Plan, read_plan
    from moorage.insight.plan.plan_text import plan_lines, plan_markdown
    from moorage.insight.plan.rebalancing import plan_rebalance
    from moorage.insight.shadow.promotion import ConfigFile, ConfigMapKey, LoadConfig, promote_config, undo_promotion
    from moorage.insight.shadow.report import read_report, report_lines
    from moorage.insight.shadow.scheduler_shadow import SchedulerShadow
    from moorage.insight.snapshots.anonymizer import Anonymizer
    from moorage.insight.snapshots.cluster_reader import ShowReading
    from moorage.insight.snapshots.snapshot_file import write_snapshot
    from moorage.insight.whatif.changes import apply_changes
    from moorage.insight.whatif.packing import find_fewest_nodes
    from moorage.insight.whatif.questions import ReplicaCapacity, compare_decisions, count_replicas, template_pods
    from moorage.insight.whatif.session import Session
    from moorage.insight.whatif.sources import (
        ClusterSource,
        LoadedCluster,
        find_implied_gates,
        load_cluster,
        read_server,
    )
    from moorage.insight.whatif.workload_pods import EXPLAINED, find_workload
    from moorage.insight.whatif_service import ServiceOptions, run_service
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "explain.explain_events": ("ExplainEventsService", "make_explain_request"),
            "explain.explanation": ("PodExplanation", "WorkloadExplanation"),
            "explain.html": ("html_page",),
            "explain.pods": ("explain_pod",),
            "explain.text": ("print_explanation", "print_workload"),
            "explain.workloads": ("explain_workload",),
            "forecast.forecast_model": ("Forecast", "QueueForecast", "StartInterval"),
            "forecast.forecast_text": ("forecast_lines", "queue_lines"),
            "forecast.forecasting": ("SERVICES", "ForecastOptions", "check_moment", "forecast_queue", "forecast_start"),
            "forecast.futures": ("FutureCluster",),
            "forecast.lifetimes": ("PodTraits", "quantiles"),
            "forecast.outlook": ("KnownPod", "Outlook", "PastPod", "find_size", "play_futures"),
            "forecast.recalibration": ("CheckedForecast", "Recalibration"),
            "listening": ("ListenOptions",),
            "page.events": ("with_page_events",),
            "page.live_cluster": ("LiveCluster", "PageObserver"),
            "page.page_server": ("PageServer", "run_page"),
            "page.page_source": ("PageSource",),
            "page.question_process": ("QuestionProcess",),
            "page.replayed_cluster": ("ReplayedCluster", "ReplayedRun"),
            "page.scheduler_page": ("SchedulerPage", "allow_page"),
            "page.static_cluster": ("StaticCluster",),
            "plan.applying": ("apply_plan_step",),
            "plan.consolidation": ("plan_consolidate",),
            "plan.draining": ("plan_drain",),
            "plan.goals": ("GOALS",),
            "plan.making_room": ("plan_room",),
            "plan.mobility": ("Constraints",),
            "plan.plan_html": ("plan_html",),
            "plan.plan_model": ("Plan", "read_plan"),
            "plan.plan_text": ("plan_lines", "plan_markdown"),
            "plan.rebalancing": ("plan_rebalance",),
            "shadow.promotion": ("ConfigFile", "ConfigMapKey", "LoadConfig", "promote_config", "undo_promotion"),
            "shadow.report": ("read_report", "report_lines"),
            "shadow.scheduler_shadow": ("SchedulerShadow",),
            "snapshots.anonymizer": ("Anonymizer",),
            "snapshots.cluster_reader": ("ShowReading",),
            "snapshots.snapshot_file": ("write_snapshot",),
            "whatif.changes": ("apply_changes",),
            "whatif.packing": ("find_fewest_nodes",),
            "whatif.questions": ("ReplicaCapacity", "compare_decisions", "count_replicas", "template_pods"),
            "whatif.session": ("Session",),
            "whatif.sources": ("ClusterSource", "LoadedCluster", "find_implied_gates", "load_cluster", "read_server"),
            "whatif.workload_pods": ("EXPLAINED", "find_workload"),
            "whatif_service": ("ServiceOptions", "run_service"),
        },
    )
