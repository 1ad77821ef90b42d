"""The lab: compares scheduling policies on traces and clusters, in virtual time, with the real scheduler.

Other areas import names from here only; each is loaded on first use. The environment for reinforcement learning is
imported from ``moorage.lab.learn``, which needs Gymnasium.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.lab.cluster import LabCluster, NodePool, build_cluster, write_nodes_csv
    from moorage.lab.experiment import ConfigurationEntry, changed_config, load_experiment
    from moorage.lab.generating import generate, preset_cluster
    from moorage.lab.measuring import run_trial
    from moorage.lab.on_ray import connect_to_ray
    from moorage.lab.openb import import_nodes, import_pods
    from moorage.lab.recording import TraceRecorder, record, write_nodes
    from moorage.lab.report.page import arrivals_as_text, report_page
    from moorage.lab.results import Results, RunTrials, ShowTrials, default_run, run_experiment
    from moorage.lab.trace import NodeOutage, Trace, TracePod
    from moorage.lab.trace_files import write_trace
    from moorage.lab.trial import Conditions, PolicyText, Trial, TrialResult
    from moorage.lab.tuning.tune import TuneOutcome, load_plan, report_lines, tune
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "cluster": ("LabCluster", "NodePool", "build_cluster", "write_nodes_csv"),
            "experiment": ("ConfigurationEntry", "changed_config", "load_experiment"),
            "generating": ("generate", "preset_cluster"),
            "measuring": ("run_trial",),
            "on_ray": ("connect_to_ray",),
            "openb": ("import_nodes", "import_pods"),
            "recording": ("TraceRecorder", "record", "write_nodes"),
            "report.page": ("arrivals_as_text", "report_page"),
            "results": ("Results", "RunTrials", "ShowTrials", "default_run", "run_experiment"),
            "trace": ("NodeOutage", "Trace", "TracePod"),
            "trace_files": ("write_trace",),
            "trial": ("Conditions", "PolicyText", "Trial", "TrialResult"),
            "tuning.tune": ("TuneOutcome", "load_plan", "report_lines", "tune"),
        },
    )

__all__ = [
    "Conditions",
    "ConfigurationEntry",
    "LabCluster",
    "NodeOutage",
    "NodePool",
    "PolicyText",
    "Results",
    "RunTrials",
    "ShowTrials",
    "Trace",
    "TracePod",
    "TraceRecorder",
    "Trial",
    "TrialResult",
    "TuneOutcome",
    "arrivals_as_text",
    "build_cluster",
    "changed_config",
    "connect_to_ray",
    "default_run",
    "generate",
    "import_nodes",
    "import_pods",
    "load_experiment",
    "load_plan",
    "preset_cluster",
    "record",
    "report_lines",
    "report_page",
    "run_experiment",
    "run_trial",
    "tune",
    "write_nodes",
    "write_nodes_csv",
    "write_trace",
]
