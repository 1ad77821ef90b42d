"""Cases with kube-scheduler's answers, kept so that the fast suite checks parity without Go."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.conformance.generator import Case

FOLDER: Final = Path(__file__).parents[1] / "parity" / "decisions"


class Golden(NamedTuple):
    """A question and kube-scheduler's answer."""

    case: Case
    decisions: list[dict[str, Any]]


def read(path: Path) -> Iterator[Golden]:
    """Read the cases of one file, a line each."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            content = json.loads(line)
            yield Golden(case_of(content), content["decisions"])


def write(path: Path, goldens: Iterable[Golden]) -> None:
    """Write cases so that the same ones give the same bytes."""
    text = "".join(json.dumps(_line(golden), sort_keys=True, separators=(",", ":")) + "\n" for golden in goldens)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def case_of(content: dict[str, Any]) -> Case:
    """Read a case from plain data."""
    return Case(
        seed=content["seed"],
        objects=content["objects"],
        config=content.get("config"),
        search=content.get("search", "all"),
        feature_gates=content.get("featureGates", {}),
    )


def _line(golden: Golden) -> dict[str, Any]:
    asked = golden.case.request(0)
    del asked["id"]
    return {"seed": golden.case.seed, **asked, "decisions": golden.decisions}
