"""Contents of the site: generated diagrams and pages, and existing names."""

import re

import pytest
from manual import diagrams, reference

from moorage.scheduler.framework.handle import ClusterApi, Lister, PreemptionHandle
from moorage.scheduler.plugins.included_plugins import IN_TREE
from tests.docs.snippets import ROOT


@pytest.mark.parametrize("name", diagrams.DRAWINGS)
def test_diagrams_are_up_to_date(name: str) -> None:
    drawn = (diagrams.PICTURES / f"{name}.svg").read_text()
    assert drawn == diagrams.drawing(diagrams.DRAWINGS[name]), "update them: python -m manual.diagrams"


@pytest.mark.parametrize("name", diagrams.TERMINALS)
def test_pictures_of_terminals_are_up_to_date(name: str) -> None:
    drawn = (diagrams.PICTURES / f"{name}.svg").read_text()
    assert drawn == diagrams.terminal(diagrams.TERMINALS[name]), "update them: python -m manual.diagrams"


def test_all_plugins_are_described() -> None:
    page = reference.plugins_page()
    assert [kind.name for kind in IN_TREE if f"\n## {kind.name}\n" not in page] == []
    fit = page.partition("\n## NodeResourcesFit\n")[2].partition("\n## ")[0]
    for part in ("preFilter, preScore, score", "`scoringStrategy`", "`Insufficient …`", "`Node` "):
        assert part in fit


def test_all_pages_are_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    linked_from_others = {page for page in pages if page.startswith(("records/", "plugins/"))}
    assert sorted(page for page in pages - linked_from_others if page not in menu) == []


def test_names_in_the_go_table_exist() -> None:
    text = (ROOT / "docs" / "reference" / "go-to-python.md").read_text()
    for owner, kind in {"handle": PreemptionHandle, "cluster": ClusterApi, "lister": Lister}.items():
        names = set(re.findall(rf"\b{owner}\.([a-z_]+)\b", text))
        assert names
        attributes = {name for parent in kind.__mro__ for name in getattr(parent, "__annotations__", ())}
        assert sorted(names - set(dir(kind)) - attributes) == []
