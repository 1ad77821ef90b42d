"""Experiment files: error messages."""

from pathlib import Path

import pytest
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage
from moorage.lab.experiment import load_experiment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("preset: mixed", "preset: mixd"), "did you mean 'mixed'"),
        (("seeds: 2", "seeds: 0"), "seeds"),
        (("seeds: 2", "sedes: 2"), "did you mean 'seeds'?"),
        (("seeds: 2", "configs: []"), "unknown field 'configs'\n  hint: did you mean 'configurations'?"),
        (("seeds: 2", "presett: mixed"), "unknown field 'presett'\n  hint: docs/reference/lab.md lists all fields"),
        (
            ("preset: mixed,", "preset: mixed, prest: a,"),
            "traces[0]: unknown field 'prest'\n  hint: did you mean 'preset'?",
        ),
        (("name: pack", "name: default"), "two are named 'default'"),
        (("seeds: 2", "baseline: missing"), "no configuration is named 'missing'"),
        (("enabled: [GpuShare]}", "enabled: [GpuSahre]}"), "GpuSahre"),
        (("{preset: mixed, pods: 30}", "{file: missing.jsonl}"), "the file does not exist"),
        (("{preset: mixed, pods: 30}", "{}"), "a file, a query or a preset"),
        (("preset: mixed, pods: 30", "preset: mixed, pods: -3"), "traces[0].pods"),
        (("seeds: 2", "options: {nodeFailures: {meanSecondsBetween: 0}}"), "meanSecondsBetween"),
        (("seeds: 2", "options: {horizon: -1}"), "options.horizon"),
        (("seeds: 2", "options: {horizen: 5s}"), "options: unknown field 'horizen'\n  hint: did you mean 'horizon'?"),
        (("seeds: 2", "seeds: many"), "seeds: expected an integer or a list, found a string"),
    ],
)
def test_invalid_experiment_is_reported_without_a_traceback(
    change: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(EXPERIMENT.replace(*change))
    assert moorage(["lab", "run", str(path), "--workers", "1"]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors


def test_all_unknown_fields_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    changed = EXPERIMENT.replace("preset: mixed,", "preset: mixed, podz: null,")
    path.write_text(changed.replace("seeds: 2", "sedes: 2\noptions: {horizen: 5s, shuffle: maybe}"))
    assert moorage(["lab", "run", str(path)]) == 2
    errors = capsys.readouterr().err
    assert "traces[0]: unknown field 'podz'\n    hint: did you mean 'pods'?" in errors
    assert "unknown field 'sedes'" in errors
    assert "options: unknown field 'horizen'" in errors
    assert "options.shuffle: expected true or false, found a string" in errors


def test_fixed_trace_runs_once_and_is_reported_as_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("name,arrives,runs,cpuMilli\na,0,60,4000\nb,5,60,4000\nc,9,60,2000\n")
    text = """
name: fixed
traces: [{file: t.csv}]
clusters: [{name: c, pools: [{name: p, count: 2, cpu: 8, memory: 8Gi, price: 1}]}]
configurations:
  - {name: default}
  - {name: pack, args: {NodeResourcesFit: {scoringStrategy: {type: MostAllocated}}}}
seeds: 5
options: %s
"""
    path = tmp_path / "e.yaml"
    for options, count in (("{}", 2), ("{shuffle: true}", 10), ("{ties: random}", 10), ("{inflate: 1.5}", 10)):
        path.write_text(text % options)
        assert len(load_experiment(path)) == len(list(load_experiment(path).trials())) == count, options
    path.write_text(text % "{}")
    assert moorage(["lab", "run", str(path), "--workers", "1"]) == 0
    report = (tmp_path / "e-results/report.html").read_text()
    assert "Exact differences" in report
    assert "Better than default" in report, "packing uses fewer nodes"
    assert "confidence interval" not in report
    assert "±" not in report


def test_gpu_policy_without_gpu_share_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT.replace("enabled: [GpuShare]}", "scores: {FGD: 1}}"))
    assert moorage(["lab", "run", str(path), "--workers", "1"]) == 2
    errors = capsys.readouterr().err
    assert "FGD needs the plugin GpuShare" in errors
    assert "configurations[0] (default)" in errors


def test_report_has_reasons_distributions_and_tables_in_other_formats(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,arrives,runs,cpuMilli\na,0,60,4000\nb,5,90,4000\nhuge,9,60,64000\n")
    path = tmp_path / "e.yaml"
    path.write_text(
        "name: rejected\ntraces: [{file: t.csv}]\n"
        "clusters: [{name: c, pools: [{name: p, count: 1, cpu: 8, memory: 8Gi}]}]\n"
        "configurations: [{name: a_b}]\n"
    )
    assert moorage(["lab", "run", str(path), "--workers", "1"]) == 0
    directory = tmp_path / "e-results"
    report = (directory / "report.html").read_text()
    assert "<tr><th>0/1 nodes are available: 1 Insufficient cpu" in report
    assert "<figcaption>Job completion time</figcaption>" in report
    table = (directory / "measures.csv").read_text().splitlines()
    assert table[0] == "trace,cluster,measure,configuration,median,low,high,seeds"
    assert "t,c,unplaced,a_b,1,1,1,1" in table
    latex = (directory / "measures.tex").read_text()
    assert r"a\_b \\" in latex
    assert r"Pods without a node $\downarrow$ & 1 \\" in latex
    assert r"\caption{t on c. Exact values of one run: the trace is fixed." in latex
