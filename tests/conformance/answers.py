"""Compare answers to the same questions: of two releases of Kubernetes, and of Moorage.

A difference between the releases is a change of upstream. A difference from Moorage at the same release is a defect, or
listed in docs/parity.md.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.releases import GATED, UNGATED, UPSTREAM

Classify = Callable[[Any, Any], list[tuple[str, str]]]
"""Returns the class and an example of each difference between two answers; none if they are equivalent."""
EXAMPLES: Final = 2
"""Examples of each class of differences."""
_LENGTH: Final = 200


@dataclass
class Comparison:
    """The number of questions with each class of differences, and the first examples."""

    questions: Sequence[str]
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)

    def upstream(
        self, old: Sequence[Any], new: Sequence[Any], emulated: Sequence[Any], classify: Sequence[Classify]
    ) -> None:
        """Count the differences of two releases; the new one also answers as it emulates the old one."""
        for number, (before, after, between, find) in enumerate(zip(old, new, emulated, classify, strict=True)):
            remaining = {kind for kind, _ in find(before, between)}
            for kind, example in find(before, after):
                self._note((UPSTREAM, UNGATED if kind in remaining else GATED, kind), number, example)

    def ours(self, release: str, theirs: Sequence[Any], ours: Sequence[Any], classify: Sequence[Classify]) -> None:
        """Count the differences of Moorage from a release."""
        for number, (before, after, find) in enumerate(zip(theirs, ours, classify, strict=True)):
            for kind, example in find(before, after):
                self._note(("ours", release, kind), number, example)

    def _note(self, key: tuple[str, str, str], number: int, example: str) -> None:
        self.counts[key] += 1
        if len(examples := self.examples.setdefault(key, [])) < EXAMPLES:
            examples.append(_short(f"{self.questions[number]}: {example}"))

    def as_markdown(self, title: str) -> Iterator[str]:
        """Yield the lines of a report."""
        yield f"{title}: {len(self.questions)} compared, {self.counts.total()} differences."
        if self.counts:
            yield from ("", "| whose | cause or emulated release | difference | number | examples |")
            yield "|---|---|---|---|---|"
        for key, count in sorted(self.counts.items(), key=lambda item: (item[0][0] == UPSTREAM, -item[1])):
            cells = (*key, str(count), "; ".join(f"`{example}`" for example in self.examples[key]))
            yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"

    def print(self, title: str) -> int:
        """Print the report; return 1 if Moorage differs."""
        sys.stdout.write("\n".join([*self.as_markdown(title), ""]))
        return 1 if any(side != UPSTREAM for side, _, _ in self.counts) else 0


def _short(text: str) -> str:
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def show(before: Any, after: Any) -> str:
    """Return two answers as the text of an example."""
    return " → ".join(json.dumps(value, ensure_ascii=False) for value in (before, after))


def arguments(description: str | None, *, count: int) -> argparse.Namespace:
    """Return the arguments of a comparison: two binaries with their releases, a number and a seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for side in ("old", "new"):
        parser.add_argument(f"--{side}", required=True, help=f"the binary of the {side} release")
        parser.add_argument(f"--{side}-release", required=True, help="its minor version, such as 1.36")
    parser.add_argument("--n", type=int, default=count, help="how many questions")
    parser.add_argument("--seed", default="releases")
    return parser.parse_args()
