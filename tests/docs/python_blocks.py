"""Python of pages: blocks share a namespace per page, and an indented block continues the class before it."""

import importlib.util
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from moorage.scheduler.framework.plugin import Plugin
from tests.docs.snippets import Snippet


class PythonBlocks:
    """The Python code of one page. Nothing is imported for it, as in the file of a reader.

    A block that is named ``test_…`` and needs nothing is called.
    """

    def __init__(self, page: str, snippets: Sequence[Snippet]) -> None:
        self._page = page
        self._sources = merged([each for each in snippets if each.language == "python"])
        module = ModuleType(re.sub(r"\W", "_", page))
        sys.modules[module.__name__] = module
        self.defined = module.__dict__

    def run(self, snippet: Snippet) -> None:
        """Run a block with its continuations; skip continuations, which ran with their first block."""
        source = self._sources.get(snippet.line)
        if source is None:
            return
        before = set(self.defined)
        exec(compile("\n" * snippet.line + source, self._page, "exec", dont_inherit=True), self.defined)
        for name in [name for name in self.defined if name.startswith("test_") and name not in before]:
            if not inspect.signature(self.defined[name]).parameters:
                self.defined[name]()


def merged(snippets: Sequence[Snippet]) -> dict[int, str]:
    """Join continuations with their class, by the line of the first block; imports are moved to the front."""
    results: dict[int, str] = {}
    last = 0
    for snippet in snippets:
        head = re.match(r"((?:(?:import|from) [^\n]*\n|\n|#[^\n]*\n)*)( +\S)", snippet.text)
        if head is None or not results:
            last = snippet.line
            results[last] = snippet.text
        else:
            results[last] = f"{head.group(1)}{results[last]}\n{snippet.text[head.end(1) :]}"
    return results


def list_plugin_classes(defined: dict[str, Any]) -> list[type[Plugin]]:
    """Return the plugins that blocks, or modules of an example, define."""
    classes = (each for each in defined.values() if isinstance(each, type) and issubclass(each, Plugin))
    return [each for each in classes if not each.__module__.startswith("moorage.")]


def plugins_beside(page: Path) -> list[type[Plugin]]:
    """Return the plugins of the page's example."""
    results: list[type[Plugin]] = []
    for file in sorted(page.parent.glob("*.py")) + sorted(page.parent.glob("*/plugin.py")):
        if page.name.startswith("README") and not file.name.startswith(("test_", "rate")):
            name = file.stem if file.parent == page.parent else f"{file.parent.name}.{file.stem}"
            spec = importlib.util.find_spec(name)
            if spec is not None:
                results += list_plugin_classes(importlib.import_module(name).__dict__)
    return list(dict.fromkeys(results))
