"""Links in documents lead somewhere, and the files and commands they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIRECTORIES = ("docs", "conformance", "examples", "deploy")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(path for directory in DIRECTORIES for path in (ROOT / directory).rglob("*.md"))]
)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s'\"]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"`([\w-]+/[\w./-]*?(?:\.py|/))`")
BASES = (ROOT, ROOT / "src" / "moorage")
TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)
MADE = re.compile(r"(?:^\$ |`)make ([a-z][a-z0-9-]*)", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = LINK.findall(document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_referenced_files_exist(document: Path) -> None:
    file_names = NAMED.findall(document.read_text())
    assert [name for name in file_names if not any((base / name).exists() for base in (*BASES, document.parent))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_make_targets_exist(document: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    assert set(MADE.findall(document.read_text())) <= targets


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    documented = set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE))
    assert documented == set(TARGET.findall(makefile))
