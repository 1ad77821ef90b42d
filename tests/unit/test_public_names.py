"""The public names of ``from moorage import …``."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from manual.reference import python_api_page

import moorage
from moorage import (
    CycleState,
    KubeObject,
    KubeStruct,
    ObjectMeta,
    Pod,
    RawNode,
    ReservePlugin,
    Status,
    custom_kind,
)
from moorage.common.errors import ConfigError
from moorage.scheduler.framework.registry import Registry
from moorage.testing import Rig

ROOT = Path(__file__).parents[2]
INTERNAL = re.compile(r"^ *from moorage\.(?!testing import)[\w.]+ import.*", re.MULTILINE)
MEASURES_INTERNALS = {"examples/03-yoda/rate.py", "examples/04-sample/test_sample.py"}


@pytest.mark.parametrize("name", moorage.__all__)
def test_all_public_names_exist(name: str) -> None:
    assert getattr(getattr(moorage, name), "__name__", name) in (name, "ndarray", "Union")
    assert name in dir(moorage)


def test_reference_describes_every_public_name() -> None:
    page = python_api_page()
    sections = dict(re.findall(r"^### (\w+)\n\n(.+)", page, re.MULTILINE))
    assert sorted(sections) == sorted(moorage.__all__)
    assert [name for name, text in sections.items() if not text.strip() or text.startswith("#")] == []
    assert "- `reasons: tuple[str, ...]`" in page, "fields of structs"
    assert "- `UPDATE_NODE_LABEL`" in page, "members of enumerations"


def test_examples_and_new_projects_use_only_public_names() -> None:
    templates = ROOT / "src" / "moorage" / "cli" / "new_project" / "templates"
    files = [*(ROOT / "examples").rglob("*.py"), *templates.rglob("*.tpl")]
    assert len(files) > 40
    internal = {str(file.relative_to(ROOT)): INTERNAL.findall(file.read_text()) for file in files}
    assert {file: found for file, found in internal.items() if found and file not in MEASURES_INTERNALS} == {}


class TeamSpec(KubeStruct, frozen=True):
    pods: int = 0


class Team(KubeObject, frozen=True):
    spec: TeamSpec = TeamSpec()


TEAM = custom_kind("Team", "teams", "example.org/v1", type=Team)
QUOTA = custom_kind("TeamQuota", "teamquotas", "example.org/v1")


class Half(ReservePlugin):
    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


def test_type_checkers_know_custom_kinds_and_abstract_methods() -> None:
    """Mypy checks this file with --strict and reports unused `type: ignore` comments."""
    quota = QUOTA.type.of({"metadata": {"name": "ads"}, "spec": {"pods": 3}})
    rig = Rig(Team(metadata=ObjectMeta(name="a"), spec=TeamSpec(pods=2)), quota)
    assert sum(team.spec.pods for team in rig.lister(TEAM.type).list()) == 2
    assert [each["spec"] for each in rig.lister(QUOTA.type).list()] == [{"pods": 3}]
    assert [node.content for node in rig.lister(RawNode).list()] == []
    with pytest.raises(ConfigError, match="Half does not define unreserve"):
        Registry([type(Half())])  # type: ignore[abstract]


def test_unknown_public_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'moorage' has no attribute 'FilterPlugins'"):
        _ = moorage.FilterPlugins  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, moorage; print([name for name in ('numpy', 'msgspec', 'yaml') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
