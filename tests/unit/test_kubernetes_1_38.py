"""The page about Kubernetes 1.38: every emulated change names a test that exists."""

import re
from pathlib import Path

import pytest

from moorage.kube.api.kinds import KINDS
from moorage.kube.features import FeatureGates

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "kubernetes-1.38.md"
PARITY = ROOT / "docs" / "parity.md"


def rows(text: str) -> list[list[str]]:
    """Return the cells of all rows of Markdown tables, without headers."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    bodies = [line for line, below in zip(lines, [*lines[1:], ""], strict=True) if not below.startswith("|---")]
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in bodies if not line.startswith("|---")
    ]


def read_tests() -> str:
    """Return the source of all tests."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_change_names_an_existing_test() -> None:
    emulated, rest = PAGE.read_text(encoding="utf-8").split("## Not emulated")
    tests = read_tests()
    named = [cells[-1] for cells in rows(emulated)]
    assert len(named) > 30
    for test in (name for cell in named for name in re.findall(r"`(test_\w+)`", cell)):
        assert f"def {test}(" in tests, test
    assert [cell for cell in named if "`" not in cell] == []
    assert rows(rest)


def test_tests_of_plans_and_assumptions_are_provisional() -> None:
    emulated = PAGE.read_text(encoding="utf-8").split("## Fixed for all releases")[0]
    marks = re.findall(r'^@pytest\.mark\.provisional\("1\.38"\)\n(?:@.*\n)*(?:async )?def (\w+)', read_tests(), re.M)
    for change, certainty, test in (cells for cells in rows(emulated) if len(cells) == 3):
        if "planned" in certainty or "assum" in change:
            assert {*re.findall(r"`(test_\w+)`", test)} <= {*marks}, change


@pytest.mark.provisional("1.38")
def test_groups_are_served_in_v1_from_1_38() -> None:
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
    by_release = {}
    for release in ("1.37", "1.38"):
        features = FeatureGates(gates, release=release)
        names = ("PodGroup", "Workload", "CompositePodGroup")
        by_release[release] = {(k.name, k.version) for k in KINDS if k.name in names and k.is_served(features)}
    assert by_release["1.38"] - by_release["1.37"] == {
        ("PodGroup", "v1"),
        ("Workload", "v1"),
        ("CompositePodGroup", "v1beta1"),
    }
    assert by_release["1.37"] < by_release["1.38"]


def test_rows_of_parity_have_versions() -> None:
    text = PARITY.read_text(encoding="utf-8").split("## Corrections of our description")[0]
    listed = rows(text)
    assert len(listed) > 40
    for cells in listed:
        assert re.fullmatch(r"all|(from|until) 1\.3\d", cells[-1]), cells
