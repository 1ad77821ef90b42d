"""Hooks of mkdocs: pages generated from the code, pages for examples and sources, and links to them.

The pages link to files of the repository, so that they can be read there. On the site those files are also pages: it
needs no other site, neither when it is built nor when it is read.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from manual import reference, schemas  # noqa: E402 - mkdocs loads this file alone, without its package

_LINK = re.compile(r"(\[[^\]]*\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)]*)?\))")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}
_WITHOUT_HOME: Final = {"README.md": "index.md", "README.zh.md": "index.zh.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the home page, the examples, what is generated from the code, and every file that a page links to."""
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
    for name, text in schemas.files().items():
        files.append(File.generated(config, f"schemas/{name}", content=text))
    homes = [*_WITHOUT_HOME, "CONTRIBUTING.md", "CHANGELOG.md"]
    waiting = {name: (ROOT / name).read_text() for name in homes if (ROOT / name).exists()}
    waiting |= {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.glob("examples/*/README*.md")}
    docs = {f"docs/{file.src_uri}": file.content_string for file in files if file.src_uri.endswith(".md")}
    visited: set[str] = set(docs)
    waiting = {**docs, **waiting}
    while waiting:
        name, text = waiting.popitem()
        if name not in visited:
            visited.add(name)
            files.append(File.generated(config, find_page(name), content=as_page(name, text)))
        for target in linked(name, text):
            if target not in visited and target not in waiting and not target.startswith("docs/"):
                waiting[target] = read(ROOT / target)
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt: an index of the pages for language models, with the first sentence of each."""
    sections: dict[str, list[str]] = {}
    for page, text in _PAGES.items():
        markdown = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        if page.endswith(".zh.md") or page.startswith("source/"):
            continue
        title = re.search(r"^# (.+)$", markdown, re.MULTILINE)
        prose = re.search(r"^[A-Z`][^\n]*(?:\n[^\n#|`<!-].*)*", markdown.partition("\n")[2], re.MULTILINE)
        sentence = " ".join(prose[0].split()).partition(". ")[0].rstrip(".") if prose else ""
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
        section = page.partition("/")[0].capitalize() if "/" in page else "Start"
        link = f"[{title[1] if title else page}]({page.removesuffix('.md')}.html)"
        sections.setdefault(section, []).append(f"- {link}: {plain}." if plain else f"- {link}")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for section, entries in sorted(sections.items(), key=lambda item: item[0] != "Start"):
        lines += [f"## {section}", "", *sorted(entries), ""]
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines), encoding="utf-8")


_PAGES: Final[dict[str, str]] = {}


def read(path: Path) -> str:
    """Return the text of a file, or the names of the files in a directory."""
    if path.is_file():
        return path.read_text()
    return "".join(f"{each.name}{'/' if each.is_dir() else ''}\n" for each in sorted(path.iterdir()))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Have links to files of the repository lead to their pages."""
    here = page.file.src_uri
    _PAGES[here] = markdown
    name = find_page_source(here)

    def lead(match: re.Match[str]) -> str:
        target = resolved(name, match.group(2))
        if target is None:
            return match.group(0)
        return f"{match.group(1)}{posixpath.relpath(find_page(target), posixpath.dirname(here) or '.')}{match.group(3)}"

    return _LINK.sub(lead, markdown)


def find_page(name: str) -> str:
    """Return the page of a file of the repository."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name in _WITHOUT_HOME:
        return _WITHOUT_HOME[name]
    return name if name.endswith(".md") else f"source/{name}.md"


def find_page_source(page: str) -> str:
    """Return the file of the repository that a page is made of."""
    for name, home in _WITHOUT_HOME.items():
        if page == home:
            return name
    if page.startswith("source/"):
        return page.removeprefix("source/").removesuffix(".md")
    return page if (ROOT / page).exists() else f"docs/{page}"


def as_page(name: str, text: str) -> str:
    """Write a file as a page: code in a code block, Markdown unchanged."""
    if name.endswith(".md"):
        return text
    language = _LANGUAGES.get(Path(name).suffix, "text")
    return f"---\nsearch: {{exclude: true}}\n---\n# {Path(name).name}\n\n`{name}`\n\n````{language}\n{text}````\n"


def linked(name: str, text: str) -> list[str]:
    """List the files of the repository that a page links to."""
    targets = (resolved(name, match.group(2)) for match in _LINK.finditer(text))
    return [target for target in targets if target is not None]


def resolved(name: str, link: str) -> str | None:
    """Return the target file of a link, the README of a directory, or ``None`` for a missing target."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
    path = ROOT / target
    if path.is_dir():
        return f"{target}/README.md" if (path / "README.md").exists() else target
    return target if path.is_file() else None


def on_config(config: MkDocsConfig, **_: Any) -> MkDocsConfig:
    """Add the pages of examples to the menu, in their order."""
    names = sorted(path.parent.name for path in ROOT.glob("examples/*/README.md"))
    for entry in config.nav or ():
        if isinstance(entry, dict) and "Examples" in entry:
            entry["Examples"] = [f"examples/{name}/README.md" for name in names]
    return config
