"""The lab: compares scheduling policies on traces and clusters, in virtual time, with the real scheduler.

Other areas import names from here only. Each is loaded on first use. The environment for reinforcement learning is
imported from ``moorage.lab.learn``, which needs Gymnasium.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.lab.cluster import LabCluster, NodePool, build_cluster, write_nodes_csv
    from moorage.lab.evaluating import Evaluation, evaluate
    from moorage.lab.evolving.evolve import (
        EvolveOutcome,
        describe_outcome,
        evolve,
        load_evolve_plan,
        make_program_evaluator,
    )
    from moorage.lab.experiment import ConfigurationEntry, LoadedExperiment, changed_config, load_experiment
    from moorage.lab.forecasting import (
        Calibration,
        ForecastRow,
        calibrate,
        check_history,
        is_decision_log,
        read_history,
    )
    from moorage.lab.generating import generate, preset_cluster
    from moorage.lab.importing import ImportOptions, Skipped, TraceMapping, import_pods, import_table
    from moorage.lab.measuring import run_trial
    from moorage.lab.on_kubernetes import JobSettings, run_on_kubernetes
    from moorage.lab.on_ray import connect_to_ray
    from moorage.lab.openb import import_nodes
    from moorage.lab.recording import TraceRecorder, record, write_nodes
    from moorage.lab.report.figures import figures_as_files
    from moorage.lab.report.page import arrivals_as_text, measures_as_csv, measures_as_latex, report_page
    from moorage.lab.results import Results, RunTrials, ShowTrials, default_run, run_experiment
    from moorage.lab.trace import NodeOutage, Trace, TracePod
    from moorage.lab.trace_files import (
        StreamedTrace,
        read_trace,
        sort_by_arrival,
        stream_trace,
        write_pods,
        write_trace,
    )
    from moorage.lab.trial import Conditions, PolicyText, Trial, TrialResult
    from moorage.lab.tuning.tune import TuneOutcome, load_plan, report_lines, tune
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "cluster": ("LabCluster", "NodePool", "build_cluster", "write_nodes_csv"),
            "evaluating": ("Evaluation", "evaluate"),
            "evolving.evolve": (
                *("EvolveOutcome", "describe_outcome", "evolve", "load_evolve_plan", "make_program_evaluator"),
            ),
            "experiment": ("ConfigurationEntry", "LoadedExperiment", "changed_config", "load_experiment"),
            "forecasting": (
                "Calibration",
                "ForecastRow",
                "calibrate",
                "check_history",
                "is_decision_log",
                "read_history",
            ),
            "generating": ("generate", "preset_cluster"),
            "measuring": ("run_trial",),
            "on_kubernetes": ("JobSettings", "run_on_kubernetes"),
            "on_ray": ("connect_to_ray",),
            "importing": ("ImportOptions", "Skipped", "TraceMapping", "import_pods", "import_table"),
            "openb": ("import_nodes",),
            "recording": ("TraceRecorder", "record", "write_nodes"),
            "report.figures": ("figures_as_files",),
            "report.page": ("arrivals_as_text", "measures_as_csv", "measures_as_latex", "report_page"),
            "results": ("Results", "RunTrials", "ShowTrials", "default_run", "run_experiment"),
            "trace": ("NodeOutage", "Trace", "TracePod"),
            "trace_files": (
                *("StreamedTrace", "read_trace", "sort_by_arrival", "stream_trace", "write_pods", "write_trace"),
            ),
            "trial": ("Conditions", "PolicyText", "Trial", "TrialResult"),
            "tuning.tune": ("TuneOutcome", "load_plan", "report_lines", "tune"),
        },
    )

__all__ = [
    "Calibration",
    "Conditions",
    "ConfigurationEntry",
    "Evaluation",
    "EvolveOutcome",
    "ForecastRow",
    "ImportOptions",
    "JobSettings",
    "LabCluster",
    "LoadedExperiment",
    "NodeOutage",
    "NodePool",
    "PolicyText",
    "Results",
    "RunTrials",
    "ShowTrials",
    "Skipped",
    "StreamedTrace",
    "Trace",
    "TraceMapping",
    "TracePod",
    "TraceRecorder",
    "Trial",
    "TrialResult",
    "TuneOutcome",
    "arrivals_as_text",
    "build_cluster",
    "calibrate",
    "changed_config",
    "check_history",
    "connect_to_ray",
    "default_run",
    "describe_outcome",
    "evaluate",
    "evolve",
    "figures_as_files",
    "generate",
    "import_nodes",
    "import_pods",
    "import_table",
    "is_decision_log",
    "load_evolve_plan",
    "load_experiment",
    "load_plan",
    "make_program_evaluator",
    "measures_as_csv",
    "measures_as_latex",
    "preset_cluster",
    "read_history",
    "read_trace",
    "record",
    "report_lines",
    "report_page",
    "run_experiment",
    "run_on_kubernetes",
    "run_trial",
    "sort_by_arrival",
    "stream_trace",
    "tune",
    "write_nodes",
    "write_nodes_csv",
    "write_pods",
    "write_trace",
]
