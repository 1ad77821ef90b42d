"""Plans for readers: text, Markdown with commands, HTML with maps."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.insight.explain.clusters import node, pod, session
from tests.unit.insight.plan.plan_clusters import budget, owned

from moorage.common.errors import InputError
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.plan_html import plan_html
from moorage.insight.plan.plan_model import Plan, read_plan
from moorage.insight.plan.plan_text import bound_line, headline, plan_lines, plan_markdown
from moorage.insight.whatif.packing_model import Bound


@pytest.fixture(name="plan")
def make_plan() -> Plan:
    pods = [owned(f"web-{number}", on="n1", labels={"app": "web"}) for number in (1, 2)]
    objects = [node("n1"), node("n2", cpu="8"), *pods, pod("<bare>".strip("<>"), on="n1"), budget("web", allowed=1)]
    with session(*objects) as opened:
        return plan_drain(opened, ["n1"], rolling=1)


def test_text(plan: Plan) -> None:
    reason = "no controller recreates it; use --force to evict it anyway"
    assert list(plan_lines(plan)) == [
        "drain: not feasible (2 moves in 2 steps, cost 2)",
        "",
        "step 1 (disruptions: default/web 1 of 1 allowed)",
        "  cordon n1",
        "  default/web-1  n1 -> n2",
        "",
        "step 2 (disruptions: default/web 1 of 1 allowed)",
        "  default/web-2  n1 -> n2",
        "  uncordon n1",
        "",
        "cannot move (1):",
        f"  default/bare on n1: {reason}",
        "",
        "PodDisruptionBudget default/web limits the evictions per step",
    ]


def test_plans_without_steps_have_short_headlines(plan: Plan) -> None:
    empty = replace(plan, steps=(), cannot_move=(), waits=())
    assert headline(replace(empty, feasible=True)) == "drain: no moves are needed"
    assert headline(replace(empty, reason="impossible: too large")) == "drain: impossible: too large"
    assert headline(replace(empty, reason="too slow")) == "drain: not feasible: too slow"


def test_headline_of_a_rolling_drain_does_not_call_its_nodes_empty() -> None:
    # A pod of the second batch may move to the node of the first one.
    with session(node("n1"), node("n2"), owned("p", on="n1"), owned("q", on="n2")) as opened:
        plan = plan_drain(opened, ["n1", "n2"], rolling=1)
    assert headline(plan).endswith("; 2 nodes drained")


def test_markdown_has_commands_in_order(plan: Plan) -> None:
    commands = [line for line in plan_markdown(plan).splitlines() if line.startswith("$ ")]
    assert [command.split()[1] for command in commands] == ["kubectl", "echo", "echo", "kubectl"]
    body = commands[1].split("'")[1]
    assert json.loads(body)["metadata"] == {"name": "web-1", "namespace": "default"}
    assert commands[1].endswith("kubectl create --raw /api/v1/namespaces/default/pods/web-1/eviction -f -")
    blocks = plan_markdown(plan).split("Wait until the replacements are ready.")
    assert [block.count("$ kubectl uncordon n1") for block in blocks] == [0, 0, 1]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (Bound(2, "nodes", True, "heuristic"), "2 nodes remain (proven minimum: lower bound of requests)"),
        (Bound(1, "nodes", True, "heuristic"), "1 node remains (proven minimum: lower bound of requests)"),
        (Bound(1, "moves", True, "exhaustive"), "1 move (proven minimum: exhaustive search)"),
        (Bound(6, "nodes", True, "cp-sat"), "6 nodes (proven minimum: CP-SAT)"),
        (Bound(3, "moves", False, "heuristic"), "3 moves (not proven to be the minimum)"),
    ],
)
def test_bound(plan: Plan, bound: Bound, expected: str) -> None:
    assert bound_line(replace(plan, bound=bound)) == expected


def test_html_maps_nodes_before_and_after(plan: Plan) -> None:
    page = plan_html(plan)
    before, after = page.partition("<h2>After</h2>")[::2]
    assert "n1<br>3 pods, 75%" in before
    assert "n1<br>1 pod, 25%" in after
    assert "<script" not in page


def test_plans_are_read_from_json(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(plan.as_data()))
    assert read_plan(str(path)).as_data() == plan.as_data()
    path.write_text('{"goal": 1}')
    with pytest.raises(InputError, match="not a plan"):
        read_plan(str(path))
