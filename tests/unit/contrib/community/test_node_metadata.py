"""NodeMetadata: numbers and times that nodes have as labels or annotations."""

from typing import Any

import pytest
from msgspec.structs import replace

from moorage.contrib.community.node_metadata import NodeMetadata
from moorage.kube.api.node import Node
from moorage.scheduler.config.contrib_args import NodeMetadataArgs
from moorage.scheduler.framework.handle import Handle
from moorage.testing import check_plugin, make_node, make_pod
from moorage.testing.rig import SCORE_FORMS, Rig, ScoreForm, run_score

KEY = "example.com/worth"
NUMBERS, TIMES = ("Number", "Highest"), ("Timestamp", "Newest")
CASES: dict[str, tuple[tuple[str, str], list[str | None], list[int], dict[str, Any]]] = {
    "the highest is the best": (NUMBERS, ["10", "100", "55"], [1, 100, 50], {}),
    "or the lowest": (("Number", "Lowest"), ["10", "100", "55"], [100, 1, 50], {}),
    "fractions count": (("Number", "Lowest"), ["2.5", "1.2"], [1, 100], {}),
    "a node without the value scores zero": (NUMBERS, [None, "7"], [0, 1], {}),
    "a value that is not a number": (NUMBERS, ["much", "3", "5"], [0, 1, 100], {}),
    "nor one that is beyond reason": (NUMBERS, ["1e300", "nan", "inf", "5"], [0, 0, 0, 1], {}),
    "no node has the value": (NUMBERS, [None, ""], [0, 0], {}),
    "all nodes have the same value": (NUMBERS, ["50", "50"], [1, 1], {}),
    "a default replaces missing values, not invalid ones": (
        NUMBERS,
        [None, "50", "150", "x"],
        [50, 1, 100, 0],
        {"default_value": "100"},
    ),
    "negative numbers are numbers": (NUMBERS, ["-10", "0", "10"], [1, 50, 100], {}),
    "the newest is the best": (
        TIMES,
        ["2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-02T01:00:00+01:00"],
        [1, 100, 50],
        {},
    ),
    "or the oldest, by a custom layout": (
        ("Timestamp", "Oldest"),
        ["2025-11-01", "2025-12-01", "01.12.2025"],
        [100, 1, 0],
        {"timestamp_format": "2006-01-02"},
    ),
    "fractions of seconds are allowed": (TIMES, ["2026-01-01T00:00:00.5Z", "2026-01-02T00:00:00Z"], [1, 100], {}),
}


def node_with(name: str, value: str | None, source: str) -> Node:
    metadata = {} if value is None else {KEY: value}
    if source == "Label":
        return make_node(name, labels=metadata)
    node = make_node(name)
    return replace(node, metadata=replace(node.metadata, annotations=metadata))


@pytest.mark.parametrize("form", SCORE_FORMS)
@pytest.mark.parametrize("source", ["Label", "Annotation"])
@pytest.mark.parametrize(("how", "values", "scores", "more"), CASES.values(), ids=CASES)
def test_scores(
    how: tuple[str, str],
    values: list[str | None],
    scores: list[int],
    more: dict[str, Any],
    source: str,
    form: ScoreForm,
) -> None:
    plugin = NodeMetadata(args=NodeMetadataArgs(KEY, source, *how, **more))
    rig = Rig(*(node_with(f"n{number}", value, source) for number, value in enumerate(values)))
    assert run_score(plugin, rig, make_pod(), form) == scores


@pytest.mark.parametrize("source", ["Label", "Annotation"])
def test_both_forms_agree(source: str) -> None:
    def make(_: Handle) -> NodeMetadata:
        return NodeMetadata(args=NodeMetadataArgs("cores", source, *NUMBERS, default_value="3"))

    # Random nodes have no annotations.
    check_plugin(make, examples=20, require_coverage=source == "Label")
