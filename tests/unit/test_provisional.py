"""Tests of behavior that the next Kubernetes release may still change are marked; zero marks is a release criterion."""

import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
MARK = re.compile(r"^ *(?:@|marks=|pytestmark = )pytest\.mark\.provisional\(\"(1\.\d+)\"\)", re.M)
MARKS = {"1.38": 12}


def test_the_number_of_provisional_tests_is_known() -> None:
    marks: Counter[str] = Counter()
    for path in TESTS.rglob("test_*.py"):
        marks.update(MARK.findall(path.read_text(encoding="utf-8")))
    assert marks == MARKS, "confirmed against the release? remove the mark, and its count here"
