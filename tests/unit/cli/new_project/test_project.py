"""A new project is complete, its tests pass, its manifests match, and existing files are not overwritten."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli.new import PluginKind
from moorage.cli.new_project.project import MAX_NAME, check_name, write_project
from moorage.common.errors import InputError
from moorage.scheduler.config import KNOWN_PLUGINS, load_config
from moorage.testing import check_plugin

ROOT = Path(__file__).parents[4]
KINDS = [*PluginKind]
NODE_KINDS = (PluginKind.FILTER, PluginKind.SCORE, PluginKind.RESOURCE)
"""The kinds that filter or score nodes."""
EXTENDER_KINDS = (*NODE_KINDS, PluginKind.BIND)
"""The kinds that `moorage extender` accepts."""

BAD_NAMES = {
    "as a class is written": ("SpotOnly", "hint: use spot-only"),
    "as a package is written": ("spot_only", "hint: use spot-only"),
    "as people write": ("Spot only!", "hint: use spot-only"),
    "a path": ("../spot", "hint: use spot"),
    "nothing": ("", "hint: use a name such as spot-only"),
    "a digit first": ("9-lives", "hint: use a name such as spot-only"),
    "another alphabet": ("узел", "hint: use a name such as spot-only"),
    "too long": ("a" * (MAX_NAME + 1), f"at most {MAX_NAME} lower-case letters"),
    "a module of Python": ("json", "the Python name 'json' is in use\n  hint: use json-plugin"),
    "a word of Python": ("async", "the Python name 'async' is in use\n  hint: use async-plugin"),
    "a package that is installed": ("numpy", "the Python name 'numpy' is in use\n  hint: use numpy-plugin"),
    "our own": ("moorage", "hint: use moorage-plugin"),
    "a plugin that there is": ("node-name", "a plugin named NodeName already exists\n  hint: use my-node-name"),
}


@pytest.mark.parametrize(("name", "message"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_bad_name_gets_a_suggestion(name: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        check_name(name, known_plugins=KNOWN_PLUGINS)
    assert message in str(refusal.value)


@pytest.mark.parametrize("name", [name for name, message in BAD_NAMES.values() if "hint: write" in message])
def test_suggested_name_is_accepted(name: str) -> None:
    with pytest.raises(InputError) as refusal:
        check_name(name, known_plugins=KNOWN_PLUGINS)
    assert check_name(refusal.value.hint.split()[-1], known_plugins=KNOWN_PLUGINS).plugin.isidentifier()


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[PluginKind, Path]:
    directory = tmp_path_factory.mktemp("projects")
    for kind in KINDS:
        write_project(check_name(f"spot-{kind.value}"), kind, directory / kind.value)
    return {kind: directory / kind.value for kind in KINDS}


def test_its_tests_pass_unchanged(projects: dict[PluginKind, Path]) -> None:
    """All in one process, without what takes long: the live test of the page runs everything."""
    paths = os.pathsep.join(str(directory / "src") for directory in projects.values())
    options = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-knot follows_the_rules")
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(str(directory / "tests") for directory in projects.values())],
        cwd=projects[PluginKind.FILTER],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert re.search(r"31 passed, 3 deselected", completed.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_script_calls_the_plugin_and_places_a_pod(
    projects: dict[PluginKind, Path], kind: PluginKind, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.syspath_prepend(str(projects[kind] / "src"))
    runpy.run_path(str(projects[kind] / "explore.py"))
    output = capsys.readouterr().out
    if kind in NODE_KINDS:
        assert f"Spot{kind.value.capitalize()} alone:\n  {{'node': 'node-1'" in output
    if kind is PluginKind.RESERVE:
        assert output.endswith(
            "third: 0/1 nodes are available: 1 node(s) were not reserved: all 2 licenses were in use.\n"
        )
    else:
        assert output.endswith("scheduled to node-1\n")


@pytest.mark.parametrize("kind", KINDS)
def test_templates_are_completely_filled(projects: dict[PluginKind, Path], kind: PluginKind) -> None:
    files = [path for path in projects[kind].rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) >= 19
    assert [path for path in files if "{{" in path.read_text() or path.suffix == ".tpl"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_entry_point_leads_to_a_plugin_that_keeps_the_rules_and_the_configuration_can_be_used(
    projects: dict[PluginKind, Path], kind: PluginKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moorage.scheduler.wiring.policy import build_catalogue, collect_plugins

    directory = projects[kind]
    offered = tomllib.loads((directory / "pyproject.toml").read_text())["project"]["entry-points"][
        "moorage.scheduler.plugins"
    ]
    ((name, path),) = offered.items()
    monkeypatch.syspath_prepend(str(directory / "src"))
    registry = collect_plugins(paths=[path])
    assert registry[name].__module__ == f"spot_{kind.value.replace('-', '_')}.plugin"
    check_plugin(registry[name], examples=5, require_coverage=False)
    config = load_config((directory / "deploy" / "scheduler.yaml").read_text(), catalogue=build_catalogue(registry))
    assert [profile.scheduler_name for profile in config.profiles] == [f"spot-{kind.value}"]


@pytest.mark.parametrize("kind", KINDS)
def test_manifests_include_the_base_and_the_plugin(projects: dict[PluginKind, Path], kind: PluginKind) -> None:
    deploy = projects[kind] / "deploy"
    own_manifests = {path.name: path.read_text() for path in (ROOT / "deploy").glob("*.yaml")}
    assert {path.name: path.read_text() for path in (deploy / "base").iterdir()} == own_manifests
    resources = loaded(deploy / "kustomization.yaml")[0]["resources"]
    assert sorted(resources) == sorted(
        ["base", *(path.name for path in deploy.glob("*.yaml") if path.name in resources)]
    )
    role, binding = loaded(deploy / "rbac.yaml")
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "plugin"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "moorage", "namespace": "kube-system"}]


@pytest.mark.parametrize("kind", KINDS)
def test_two_projects_share_no_objects_and_no_lease(projects: dict[PluginKind, Path], kind: PluginKind) -> None:
    deploy, project = projects[kind] / "deploy", f"spot-{kind.value}"
    (kustomization,) = loaded(deploy / "kustomization.yaml")
    assert kustomization["namePrefix"] == f"{project}-"
    assert kustomization["labels"] == [{"pairs": {"app.kubernetes.io/instance": project}, "includeSelectors": True}]
    (generated,) = kustomization["configMapGenerator"]
    (replaced,) = (item for item in loaded(deploy / "base" / "config-map.yaml") if item["kind"] == "ConfigMap")
    assert {key: generated[key] for key in ("name", "namespace")} == {
        key: replaced["metadata"][key] for key in ("name", "namespace")
    }
    assert kustomization["generatorOptions"] == {"disableNameSuffixHash": True}, "changes are reloaded"
    (lease,) = kustomization["patches"]
    (role,) = (
        item
        for item in loaded(deploy / "base" / "rbac.yaml")
        if (item["kind"], item["metadata"]["name"]) == (lease["target"]["kind"], lease["target"]["name"])
    )
    assert role["rules"][1]["resourceNames"] == ["moorage"]
    (change,) = yaml.safe_load(lease["patch"])
    (config,) = loaded(deploy / "scheduler.yaml")
    assert change == {"op": "replace", "path": "/rules/1/resourceNames", "value": [project]}
    assert config["leaderElection"]["resourceName"] == project


@pytest.mark.parametrize("kind", KINDS)
def test_readme_describes_the_extender_for_the_kinds_it_accepts(
    projects: dict[PluginKind, Path], kind: PluginKind
) -> None:
    readme = (projects[kind] / "README.md").read_text()
    assert ("moorage extender --plugin" in readme) == (kind in EXTENDER_KINDS)
    assert readme == readme.rstrip() + "\n"


@pytest.mark.parametrize("kind", KINDS)
def test_makefile_has_the_usual_targets(projects: dict[PluginKind, Path], kind: PluginKind) -> None:
    command = ["make", "--dry-run", "--no-print-directory", "test", "fmt", "push"]
    command += ["IMAGE=registry.example/p:2", "BUILDER=podman"]
    lines = subprocess.run(command, cwd=projects[kind], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [
        "python -m pytest",
        "python -m ruff format .",
        "python -m ruff check --fix .",
        "podman build -t registry.example/p:2 .",
        "podman push registry.example/p:2",
    ]


def test_a_plugin_with_a_resource_may_list_it(projects: dict[PluginKind, Path]) -> None:
    deploy = projects[PluginKind.RESOURCE] / "deploy"
    (definition,) = loaded(deploy / "definition.yaml")
    (rule,) = loaded(deploy / "rbac.yaml")[0]["rules"]
    assert rule["apiGroups"] == [definition["spec"]["group"]]
    assert rule["resources"] == [definition["spec"]["names"]["plural"]]
    assert "definition.yaml" in loaded(deploy / "kustomization.yaml")[0]["resources"]


def loaded(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(path.read_text())]


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    names = check_name("spot-only")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("all of it")
    (tmp_path / "file").write_text("a file")
    for name in ("taken", "file"):
        with pytest.raises(InputError, match="already exists"):
            write_project(names, PluginKind.FILTER, tmp_path / name)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "taken", "thesis.txt"]


def test_empty_directory_is_filled_and_missing_directory_is_created(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "empty", tmp_path / "a" / "b"):
        assert Path("pyproject.toml") in write_project(check_name("spot-only"), PluginKind.FILTER, directory)
        assert (directory / "src" / "spot_only" / "plugin.py").is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_to_is_one_message(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write the project: Permission denied"):
        write_project(check_name("spot-only"), PluginKind.FILTER, tmp_path / "here")


def test_a_file_where_a_directory_should_be_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(InputError, match="cannot write the project: "):
        write_project(check_name("spot-only"), PluginKind.FILTER, tmp_path / "file" / "here")
    assert (tmp_path / "file").read_text() == "a file"


def test_package_links_exist_in_the_image_build() -> None:
    base = ROOT / "src" / "moorage" / "cli" / "new_project" / "templates" / "common" / "deploy" / "base"
    assert base.is_symlink()
    assert base.resolve() == (ROOT / "deploy").resolve()
    assert "COPY deploy ./deploy" in (ROOT / "Dockerfile").read_text().splitlines()
    assert "!deploy" in (ROOT / ".dockerignore").read_text().splitlines()
