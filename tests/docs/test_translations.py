"""Compare Chinese pages with English ones: the same headings, tables and links, and identical code."""

import re
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, read_snippets

DIRECTORIES = ("docs", "examples")
TRANSLATED = sorted([*ROOT.glob("*.zh.md"), *(page for name in DIRECTORIES for page in (ROOT / name).rglob("*.zh.md"))])
REQUIRED = (
    "README",
    "docs/tutorial",
    "docs/how-to/write-a-plugin",
    "docs/explanation/how-a-pod-is-scheduled",
    "docs/how-to/from-idea-to-cluster",
    "docs/how-to/run-as-second-scheduler",
    "docs/how-to/gangs",
    "docs/how-to/share-gpus",
    "docs/how-to/my-pod-is-pending",
    "docs/reference/extension-points",
    "docs/reference/go-to-python",
    "docs/reference/old-configurations",
    "examples/03-yoda/README",
    "examples/04-sample/README",
    "examples/05-tour/README",
    "examples/06-gang/README",
    "examples/12-gpu-labels/README",
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def find_english_page(page: Path) -> Path:
    return page.with_name(page.name.replace(".zh.md", ".md"))


def prose(page: Path) -> str:
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    """Return the levels of the headings, in order."""
    return re.findall(r"^(#+) ", prose(page), re.MULTILINE)


def tables(page: Path) -> list[tuple[str, int]]:
    """Return the tables with their headings, and the number of columns of each row."""
    results = []
    number = 0
    for line in prose(page).splitlines():
        number += line.startswith("#")
        if line.startswith("|"):
            results.append((f"heading {number}", len(re.findall(r"(?<!\\)\|", line))))
    return results


def links(page: Path) -> list[str]:
    """Return the targets of links; a translation may link to translations and to its own headings."""
    targets = (link.partition("#")[0].replace(".zh.md", ".md") for link in _LINK.findall(prose(page)))
    pages = (target.removesuffix("/README.md") for target in targets if target)
    own = {find_english_page(page).name, page.name.replace(".zh.md", ".md")}
    return [target for target in pages if target not in own]


def items(page: Path) -> int:
    return len(re.findall(r"^ *[-*] ", prose(page), re.MULTILINE))


@pytest.mark.parametrize("name", REQUIRED)
def test_translation_exists(name: str) -> None:
    assert ROOT / f"{name}.zh.md" in TRANSLATED


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(ROOT)))
def test_translation_has_the_same_structure(page: Path) -> None:
    english = find_english_page(page)
    assert headings(page) == headings(english)
    assert tables(page) == tables(english)
    assert items(page) == items(english)
    assert links(page) == links(english)
    assert [each.text for each in read_snippets(page)] == [each.text for each in read_snippets(english)]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(ROOT)))
def test_translation_is_chinese(page: Path) -> None:
    paragraphs = [each for each in prose(page).split("\n\n") if len(each) > 80 and not each.startswith(("|", "!", "<"))]
    assert [each[:60] for each in paragraphs if not re.search(r"[一-鿿]", each)] == []


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: str(page.relative_to(ROOT)))
def test_translations_link_to_translations(page: Path) -> None:
    targets = [page.parent / link.partition("#")[0] for link in _LINK.findall(prose(page)) if "://" not in link]
    twins = {target: (target / "README.md" if target.is_dir() else target).with_suffix(".zh.md") for target in targets}
    own = find_english_page(page)
    assert [str(target) for target, twin in twins.items() if twin.exists() and target not in (twin, own)] == []
