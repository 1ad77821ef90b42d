"""`moorage config`: what it prints, where, and its exit codes."""

import json
from pathlib import Path

import pytest
import yaml

from moorage import __version__
from moorage.cli.main import run
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import completed_view, default_config, to_yaml

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@pytest.mark.release("1.37")
def test_view_without_a_file_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "view"]) == 0
    assert capsys.readouterr().out == to_yaml(completed_view(default_config(gates=FeatureGates())))


def test_view_as_json(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text(HEADER + "parallelism: 3")
    assert run(["config", "view", "--config", str(config_file), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["parallelism"] == 3


def test_view_with_gates(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "view", "--feature-gates", "GenericWorkload=true"]) == 0
    plugins = yaml.safe_load(capsys.readouterr().out)["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert plugins[-1] == {"name": "GangScheduling", "weight": 0}


def test_check_explains_a_valid_file(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text(HEADER + "profiles: [{schedulerName: a}, {schedulerName: b}]")
    assert run(["config", "check", str(config_file)]) == 0
    summary = "20 plugins, of which 14 filter and 9 score"
    assert capsys.readouterr().out == f"{config_file}: OK\n  a: {summary}\n  b: {summary}\n"


def test_third_party_plugins_are_accepted_after_they_are_named(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spot_for_config_check.py").write_text(
        "from moorage.scheduler.framework.plugin import FilterPlugin\n"
        "class Spot(FilterPlugin):\n"
        "    def filter(self, cycle, pod, node):\n"
        "        return None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config_file.write_text(HEADER + "profiles: [{plugins: {multiPoint: {enabled: [{name: Spot}]}}}]")
    assert run(["config", "check", str(config_file)]) == 2
    assert "no plugin is named 'Spot'" in capsys.readouterr().err
    assert run(["config", "check", str(config_file), "--plugin", "spot_for_config_check:Spot"]) == 0
    assert "21 plugins, of which 15 filter and 9 score" in capsys.readouterr().out


def test_check_notes_unknown_disabled_plugins(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score, everywhere = "[{name: NodeResourceFit}, {name: ImageLocality}]", "[{name: '*'}, {name: Zzz}]"
    plugins = f"{{score: {{disabled: {score}}}, preFilter: {{disabled: {everywhere}}}}}"
    config_file.write_text(HEADER + f"profiles: [{{plugins: {plugins}}}]")
    assert run(["config", "check", str(config_file)]) == 0
    written = capsys.readouterr()
    assert written.out.startswith(f"{config_file}: OK\n")
    assert written.err == (
        "note: profiles[0].plugins.preFilter.disabled[1]: no plugin is named 'Zzz'\n"
        "note: profiles[0].plugins.score.disabled[0]: no plugin is named 'NodeResourceFit' "
        "(did you mean 'NodeResourcesFit'?)\n"
    )


def test_check_fails_if_a_constructor_raises(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zone_for_config_check.py").write_text(
        "from moorage import FilterPlugin\n"
        "class Zone(FilterPlugin):\n"
        "    def __init__(self, *, handle):\n"
        "        self.zone = {}['zone']\n"
        "    def filter(self, cycle, pod, node):\n"
        "        return None\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config_file.write_text(HEADER + "profiles: [{plugins: {multiPoint: {enabled: [{name: Zone}]}}}]")
    assert run(["config", "check", str(config_file), "--plugin", "zone_for_config_check:Zone"]) == 2
    written = capsys.readouterr()
    assert "Zone.__init__ raised KeyError: 'zone' (zone_for_config_check.py:4)" in written.err
    assert "OK" not in written.out


BAD_FILES = {
    "YAML that does not parse, with its line": ("a: [b\nc: d\n", [", line 2, column 2: invalid YAML"]),
    "an unknown plugin": (
        HEADER + "profiles: [{plugins: {filter: {enabled: [{name: NodeNam}]}}}]",
        [
            ": profiles[0].plugins.filter.enabled[0]: no plugin is named 'NodeNam'\n",
            "hint: did you mean 'NodeName'?",
        ],
    ),
    "contradictory values": (
        HEADER + "podInitialBackoffSeconds: 20\nleaderElection: {leaseDuration: 1s}",
        [
            ": 2 problems\n",
            '  leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`\n',
            "  podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds\n",
        ],
    ),
    "an object of another kind": ("apiVersion: v1\nkind: Pod", ["got v1, Kind=Pod"]),
    "an empty file": ("", ["found nothing"]),
}


@pytest.mark.parametrize(("text", "expected"), BAD_FILES.values(), ids=BAD_FILES)
@pytest.mark.parametrize("command", [["config", "check"], ["config", "view", "--config"]], ids=["check", "view"])
def test_bad_files(
    command: list[str], text: str, expected: list[str], config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text(text)
    assert run([*command, str(config_file)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {config_file}")
    assert [part for part in expected if part not in printed.err] == []
    assert printed.out == ""


MISUSE = {
    "a missing file": (["config", "check", "/nowhere.yaml"], "/nowhere.yaml: the file does not exist"),
    "an unknown gate": (["config", "view", "--feature-gates", "Nope=true"], "unrecognized feature gate: Nope"),
    "an unknown command": (["confg"], "unknown command: confg"),
    "an unknown option": (["config", "view", "--color"], "unknown option: --color"),
    "no file to check": (["config", "check"], "missing argument: FILE"),
    "an unknown format": (["config", "view", "-o", "toml"], "'toml' is not one of 'yaml', 'json'"),
    "a plugin that cannot be imported": (
        ["config", "view", "--plugin", "no_such_module:X"],
        "--plugin no_such_module:X: cannot be imported: No module named 'no_such_module'",
    ),
}


@pytest.mark.parametrize(("arguments", "want"), MISUSE.values(), ids=MISUSE)
def test_misuse(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert want in printed.err
    assert "Traceback" not in printed.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"moorage {__version__}\n"


def test_interrupting_ends_with_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "interrupted_import.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(["config", "view", "--plugin", "interrupted_import:Any"]) == 130


OLD = "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"


def test_convert_writes_v1_and_reports_changes(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text(OLD + "healthzBindAddress: 0.0.0.0:10251\n")
    assert run(["config", "convert", str(config_file)]) == 0
    printed = capsys.readouterr()
    assert yaml.safe_load(printed.out)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert f"{config_file}: moved: healthzBindAddress: " in printed.err


def test_convert_rejects_lost_settings(config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file.write_text(OLD + "profiles: [{plugins: {score: {enabled: [{name: ServiceAffinity}]}}}]")
    assert run(["config", "convert", str(config_file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "lost: profiles[0].plugins.score ServiceAffinity" in printed.err
    assert "--lossy converts the remaining ones" in printed.err
    assert run(["config", "convert", str(config_file), "--lossy"]) == 0
    assert "ServiceAffinity" not in capsys.readouterr().out


def test_convert_of_a_provider(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "convert", "--algorithm-provider", "ClusterAutoscalerProvider"]) == 0
    assert "MostAllocated" in capsys.readouterr().out
    assert run(["config", "convert"]) == 2
    assert "specify either FILE or --algorithm-provider" in capsys.readouterr().err


@pytest.mark.parametrize("text", [OLD, "apiVersion: v1\nkind: Policy\n", "apiVersion: v1\nkind: ConfigMap\n"])
def test_check_of_an_old_file_names_the_command(
    text: str, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text(text)
    assert run(["config", "check", str(config_file)]) == 2
    assert f"moorage config convert {config_file}\n" in capsys.readouterr().err


def test_two_queue_sorts_report_the_plugin_to_disable(
    config_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file.write_text(HEADER + "profiles: [{plugins: {queueSort: {enabled: [{name: Sorts}]}}}]")
    source = config_file.with_name("sorts_for_config_check.py")
    source.write_text(
        "from moorage.scheduler.framework.plugin import QueueSortPlugin\n"
        "class Sorts(QueueSortPlugin):\n"
        "    def sort_key(self, queued):\n"
        "        return 0\n"
    )
    monkeypatch.syspath_prepend(str(config_file.parent))
    assert run(["config", "check", str(config_file), "--plugin", "sorts_for_config_check:Sorts"]) == 2
    assert "disable PrioritySort" in capsys.readouterr().err
