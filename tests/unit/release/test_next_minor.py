"""The to-do list of the next Kubernetes release: versions, and the comparison of changes with Moorage."""

import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from release.dist import ROOT
from release.next_minor.modules import DownloadError, Release, Version, _extract, _short
from release.next_minor.oracles import build_libraries, go_mod, libraries_go_mod
from release.next_minor.surface import Change, compare_surfaces
from release.next_minor.todo import DONE, NONE, OPEN, READ, combine, counterpart, judge, write_list

NEW = Version.parse("v1.37.1")


def test_versions_are_read_in_both_numberings() -> None:
    assert Version.parse("v0.38.0-alpha.2") == Version.parse("1.38.0-alpha.2") == Version(38, 0, "-alpha.2")
    assert Version.parse("1.38.0-alpha.2").of("api") == "v0.38.0-alpha.2"
    assert Version.parse("1.38.0-alpha.2").of("kubernetes") == "v1.38.0-alpha.2"


def test_invalid_version_is_rejected_with_an_example() -> None:
    with pytest.raises(DownloadError, match=r"'1.38' is not a version; write for example v1.38.0-beta.0"):
        Version.parse("1.38")


def test_modules_are_extracted_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_CACHE", str(tmp_path))
    names = [f"k8s.io/m{number}@v0.38.0" for number in range(8)]
    for number, name in enumerate(names):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            for file in range(20 * number + 1):
                archive.writestr(f"{name}/{file}.go", "package m\n")
    with ThreadPoolExecutor(4) as pool:
        archives = [tmp_path / f"{number}.zip" for number in range(8)]
        extracted = [*pool.map(_extract, archives, names)]
    assert [len([*directory.iterdir()]) for directory in extracted] == [20 * number + 1 for number in range(8)]
    assert {path.name for path in (tmp_path / "next-minor" / "modules").iterdir()} == {"k8s.io"}


def gate(stage: str, *, default: bool, locked: bool = False, version: str = "1.37") -> list[dict[str, Any]]:
    return [{"version": version, "stage": stage, "default": default, "locked": locked}]


CHANGES = {
    "a gate that is ours, with the same stage": (
        Change("feature gates", "changed", "GenericWorkload", new=gate("Beta", default=False)),
        DONE,
    ),
    "a gate that is ours, with another default": (
        Change("feature gates", "changed", "GenericWorkload", new=gate("Beta", default=True)),
        OPEN,
    ),
    "a gate that nothing here knows": (
        Change("feature gates", "added", "TeaTime", new=gate("Alpha", default=False)),
        OPEN,
    ),
    "a gate of another component": (
        Change("feature gates", "added", "EtcdRangeStream", new=gate("Beta", default=True)),
        DONE,
    ),
    "a removed gate that was never known": (Change("feature gates", "removed", "TeaTime"), DONE),
    "a removed gate that is still known": (Change("feature gates", "removed", "GenericWorkload"), OPEN),
    "a reason that plugins write": (
        Change("texts", "added", "node(s) had untolerated taint(s)", where="framework/plugins/tainttoleration/a.go"),
        DONE,
    ),
    "a new reason of a plugin": (
        Change("texts", "added", "node(s) had no tea for %v", where="framework/plugins/nodename/a.go"),
        OPEN,
    ),
    "a new text of Go internals": (Change("texts", "added", "no tea in the heap", where="backend/heap/heap.go"), READ),
    "a metric with the same labels": (
        Change(
            "metrics",
            "added",
            "scheduler_queued_entities",
            new={"kind": "Gauge", "labels": ["queue", "type"], "stability": "ALPHA"},
        ),
        DONE,
    ),
    "a metric with another label": (
        Change("metrics", "changed", "scheduler_queued_entities", new={"labels": ["queue"], "stability": "ALPHA"}),
        OPEN,
    ),
    "a known field of the configuration": (
        Change("configuration API", "added", "v1.Plugins.PodGroupPostFilter", new={"json": "podGroupPostFilter"}),
        DONE,
    ),
    "an unknown field of the configuration": (
        Change("configuration API", "added", "v1.Plugins.Tea", new={"json": "tea,omitempty"}),
        OPEN,
    ),
    "a served field": (
        Change("API types", "added", "core/v1.PodSpec.SchedulingGroup", new={"json": "schedulingGroup,omitempty"}),
        DONE,
    ),
    "a field that is not served": (Change("API types", "added", "core/v1.PodSpec.Tea", new={"json": "tea"}), OPEN),
    "a type of a version that is not served": (Change("API types", "added", "tea/v1.Pot"), NONE),
}


@pytest.mark.parametrize("case", CHANGES)
def test_change_is_compared_with_moorage(case: str) -> None:
    change, state = CHANGES[case]
    (item,) = judge([change], NEW)
    assert item.state == state


def test_gates_of_a_release_that_cannot_be_emulated_are_open() -> None:
    change = Change("feature gates", "changed", "GenericWorkload", new=gate("GA", default=True, version="1.39"))
    (item,) = judge([change], Version.parse("1.39.0"))
    assert (item.state, item.file) == (OPEN, "src/moorage/common/version.py")


def test_paths_of_upstream_have_a_file_here() -> None:
    assert counterpart("framework/plugins/nodeaffinity/node_affinity.go") == (
        "src/moorage/scheduler/plugins/node_affinity.py"
    )
    assert counterpart("scheduler/backend/queue/backoff_queue.go") == "src/moorage/scheduler/queue/backoff.py"


def test_workloads_of_one_case_are_one_item() -> None:
    changes = [Change("scheduler_perf", "added", f"Basic/{name}") for name in ("5Nodes", "10Nodes")]
    (item,) = combine(judge(changes, NEW))
    assert item.change.detail == "2 changes: 10Nodes, 5Nodes"


def test_list_has_a_line_for_each_open_item_with_certainty_and_file() -> None:
    items = combine(judge([Change("feature gates", "removed", "GenericWorkload")], NEW))
    lines = [*write_list(items, "released")]
    assert "| feature gates | 1 | 0 | 0 | 0 |" in lines
    assert lines[-1] == (
        "- [ ] open: removed `GenericWorkload` (**still known here**; certainty: released) "
        "→ `src/moorage/kube/features.py`"
    )


def test_areas_that_one_release_lacks_are_not_compared() -> None:
    gates = {"gates": {"A": gate("Beta", default=True)}, "needs": {}}
    assert compare_surfaces({"gates": gates}, {}) == []
    (change,) = compare_surfaces({"gates": gates}, {"gates": {"gates": {}, "needs": {}}})
    assert (change.kind, change.subject) == ("removed", "A")


def test_oracle_of_a_release_requires_its_modules(tmp_path: Any) -> None:
    (tmp_path / "go.mod").write_text("go 1.27.0\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n")
    text = go_mod(Release(Version.parse("1.38.0-beta.0"), {"kubernetes": tmp_path}))
    assert "go 1.27.0" in text
    assert "\tk8s.io/kubernetes v1.38.0-beta.0\n" in text
    assert "\tk8s.io/api => k8s.io/api v0.38.0-beta.0\n" in text


def test_libraries_need_no_scheduler(tmp_path: Any) -> None:
    (tmp_path / "go.mod").write_text("go 1.27.0\n")
    directories = dict.fromkeys(("apimachinery", "apiserver", "component-helpers"), tmp_path)
    text = libraries_go_mod(Release(Version.parse("1.38.0-alpha.2"), directories))
    assert "\tk8s.io/apiserver v0.38.0-alpha.2\n" in text
    assert "k8s.io/kubernetes" not in text
    missing = Release(Version.parse("1.38.0-alpha.2"), refused={"apimachinery": "403 Forbidden"})
    with pytest.raises(DownloadError, match=r"k8s.io/apimachinery 1.38.0-alpha.2: 403 Forbidden"):
        build_libraries(missing)


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command, which fails before it downloads anything."""
    return subprocess.run(
        [sys.executable, "-m", "release.next_minor", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


UNUSABLE = {
    "a version without patch": (["v1.38"], {}, "VERSION: 'v1.38' is not a version; write for example v1.38.0-beta.0"),
    "an old version without patch": (["v1.38.0", "--old", "v1.36"], {}, "OLD: 'v1.36' is not a version"),
    "no Go": (["v1.38.0"], {"PATH": ""}, "Go is not installed, or not on the PATH"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_arguments_end_with_one_message(case: str) -> None:
    arguments, environment, message = UNUSABLE[case]
    ran = run_command(*arguments, **environment)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith(f"make next-minor: {message}")
    assert "Traceback" not in ran.stderr


REASONS = {
    "a rejected version": ("k8s.io/api@v0.38.0: reading https://proxy/k8s.io/api: 403 Forbidden", "403 Forbidden"),
    "an unknown proxy": (
        'k8s.io/api@v0.38.0: Get "https://proxy.invalid/k8s.io/api": dial tcp: lookup proxy.invalid: no such host',
        "dial tcp: lookup proxy.invalid: no such host",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_reason_of_a_failed_download_has_no_address(case: str) -> None:
    error, reason = REASONS[case]
    assert _short(error) == reason
