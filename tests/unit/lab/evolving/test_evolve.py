"""The search over score functions: built-in and external proposals, the winner as a plugin, held-out traces."""

import json
import math
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from moorage.common.errors import InputError
from moorage.lab.evaluating import evaluate
from moorage.lab.evolving.evolve import (
    PLUGIN,
    EvolveOutcome,
    Individual,
    ProposedCode,
    describe_lineage,
    describe_outcome,
    evolve,
    load_evolve_plan,
    make_program_evaluator,
)
from moorage.lab.evolving.evolve_plan import EvolvePlan
from moorage.lab.experiment import load_experiment
from moorage.lab.report.measures import Interval
from moorage.lab.results import Results

EXPERIMENT = """
name: small
traces: [{preset: batch, pods: 20}]
clusters: [{name: c, pools: [{name: p, count: 20, cpu: 8, memory: 32Gi}]}]
configurations: [{name: default}]
seeds: 1
options: {arrivalsOnly: true, skipUnplaced: true, inflate: 0.3, podRows: false}
evolve: {minimize: nodes.used, generations: 2, population: 3, heldOut: 2}
"""
PACK = "def score(pod, node):\n    return 100 if node.pods else 0\n"
SPREAD = "def score(pod, node):\n    return 0 if node.pods else 100\n"
PROPOSER = f"""
import json, sys
asked = json.load(sys.stdin)
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(asked) + "\\n")
if asked["generation"] == 0 and asked["number"] == 0:
    print({SPREAD!r})
elif asked["generation"] == 0 and asked["number"] == 1:
    sys.exit("out of ideas")
elif asked["generation"] == 0:
    print("def score(pod, node): return 1 / 0")
else:
    print("An idea:\\n```python\\n" + {PACK!r} + "# " + str(asked["number"]) + "\\n```")
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT)
    return path


def search(path: Path, out: str, *, seed: int = 1, command: str = "") -> EvolveOutcome:
    loaded = load_experiment(path)
    plan = load_evolve_plan(loaded)
    return evolve(loaded, plan, Results(path.parent / out), seed=seed, workers=2, command=command)


def test_search_writes_a_plugin_with_the_measured_value(experiment: Path) -> None:
    outcome = search(experiment, "out")
    assert [individual.generation for individual in outcome.individuals] == [0, 0, 0, 1, 1, 1]
    assert len({individual.proposal.code for individual in outcome.individuals}) == 6
    best = outcome.best
    assert best is not None, describe_outcome(outcome)
    assert outcome.held_out is not None
    assert outcome.held_out.count == 2
    (experiment.parent / "evolved.py").write_text((outcome.directory / "evolved.py").read_text())
    assert evaluate(PLUGIN, experiment).measures["nodes.used"] == best.value
    rows = [json.loads(line) for line in (outcome.directory / "lineage.jsonl").read_text().splitlines()]
    assert [row["value"] for row in rows] == [individual.value for individual in outcome.individuals]


def test_same_seed_gives_the_same_lineage_and_resumes(experiment: Path) -> None:
    search(experiment, "first")
    lineage = (experiment.parent / "first/lineage.jsonl").read_bytes()
    for path in (experiment.parent / "first/cache").glob("*.json"):
        path.write_bytes(path.read_bytes().replace(b'"unplaced":0.0', b'"unplaced":7.0'))
    search(experiment, "first")
    resumed = (experiment.parent / "first/lineage.jsonl").read_bytes()
    assert resumed == lineage.replace(b'"unplaced":0.0', b'"unplaced":7.0'), "results come from the cache"
    search(experiment, "other", seed=2)
    assert (experiment.parent / "other/lineage.jsonl").read_bytes() != lineage


def test_plugin_file_and_configuration_are_accepted_by_simulate(experiment: Path) -> None:
    outcome = search(experiment, "out")
    manifest = experiment.parent / "pod.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\n"
        "status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\n"
        "spec: {containers: [{name: c, image: i}]}\n"
    )
    code = "from moorage.cli.main import main; main()"
    options = ["simulate", "-f", str(manifest), "--config", "evolved.yaml", "--plugin", PLUGIN]
    done = subprocess.run(
        [sys.executable, "-c", code, *options], cwd=outcome.directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "node-a" in done.stdout


def test_command_proposes_and_failures_are_recorded(experiment: Path) -> None:
    (experiment.parent / "propose.py").write_text(PROPOSER)
    log = experiment.parent / "log.jsonl"
    command = f"{sys.executable} {experiment.parent / 'propose.py'} {log}"
    outcome = search(experiment, "out", command=command)
    first = outcome.individuals[:3]
    assert [individual.status for individual in first] == ["ok", "invalid", "raised"]
    assert first[1].error == "the command ended with 1: out of ideas"
    requests = [json.loads(line) for line in log.read_text().splitlines()]
    assert requests[0]["objective"] == {"measure": "nodes.used", "direction": "min"}
    assert requests[0]["best"] == []
    assert [parent["id"] for parent in requests[3]["best"]] == [0]
    assert requests[3]["best"][0]["value"] == first[0].value
    assert {parent["error"] for parent in requests[3]["failed"]} == {first[1].error, first[2].error}
    assert outcome.ranked()[0].proposal.code.startswith(PACK)
    assert outcome.ranked()[0].proposal.parents == (0,)
    search(experiment, "out", command=command)
    assert len(log.read_text().splitlines()) == len(requests), "stored proposals are not requested again"


@pytest.mark.parametrize(
    ("command", "message"), [("/nowhere/propose", "No such file"), ("'", "words"), (" ", "the command is empty")]
)
def test_invalid_command_is_reported(experiment: Path, command: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        search(experiment, "out", command=command)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("minimize: nodes.used, ", "", "objective"),
        ("generations: 2", "generations: 0", "write 1 or more"),
        ("population: 3", "population: 1", "write 2 or more"),
        ("heldOut: 2", "heldOut: 0", "no seeds are held out"),
        ("heldOut: 2", "heldOut: [1]", "also uses seed 1"),
        ("nodes.used", "nodes.usd", "nodes.used"),
    ],
)
def test_invalid_plan_is_reported(experiment: Path, before: str, after: str, message: str) -> None:
    experiment.write_text(EXPERIMENT.replace(before, after))
    with pytest.raises(InputError, match=message):
        search(experiment, "out")


def test_fixed_trace_needs_other_traces(experiment: Path) -> None:
    for name in ("searched", "held-out"):
        lines = [json.dumps({"name": f"{name}-{i}", "cpuMilli": 1000, "memoryMib": 64}) for i in range(9)]
        (experiment.parent / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    text = EXPERIMENT.replace("inflate: 0.3, ", "")
    fixed = text.replace("{preset: batch, pods: 20}", "{file: searched.jsonl}")
    experiment.write_text(fixed)
    with pytest.raises(InputError, match="heldOutExperiment"):
        search(experiment, "out")
    (experiment.parent / "other.yaml").write_text(fixed.replace("searched", "held-out"))
    experiment.write_text(fixed.replace("heldOut: 2", "heldOutExperiment: other.yaml"))
    outcome = search(experiment, "out")
    assert outcome.best is not None
    assert outcome.held_out is not None
    assert outcome.held_out.count == 1
    assert "held out, 1 run: " in "\n".join(describe_outcome(outcome))


def make_outcome(held_out: Interval | None) -> EvolveOutcome:
    parent = Individual(0, 0, ProposedCode("a", (), "random", "pods", 1), "ok", 0.6)
    child = Individual(1, 1, ProposedCode("b", (0,), "mutation", "pod_cpu", 1), "ok", 0.7)
    failed = Individual(2, 1, ProposedCode("c", (0,), "mutation"), "raised", error="boom")
    plan = EvolvePlan(maximize="allocation.cpu")
    return EvolveOutcome(plan, "default", 0.5, Path("out"), [parent, child, failed], 2, held_out)


def test_overfitting_is_reported() -> None:
    good = describe_outcome(make_outcome(Interval(0.15, 0.11, 0.2, 8)))
    assert good[-2] == (
        "held out, 8 seeds: allocation.cpu +15.0 points against default (95% confidence: +11.0 points to +20.0 points)"
    )
    weak = describe_outcome(make_outcome(Interval(0.05, -0.01, 0.2, 8)))
    assert weak[-2].endswith("; not significant; overfitted to the searched traces")
    single = describe_outcome(make_outcome(Interval(0.15, 0.15, 0.15, 1)))
    assert single[-2].endswith("+15.0 points against default; one run has no confidence interval")


def test_lineage_names_generations_and_ancestors() -> None:
    assert describe_lineage(make_outcome(None)) == [
        "default: allocation.cpu 50.0%",
        "",
        "generation 1: 1 candidates, best 60.0% (candidate 0), mean 60.0%, 0 failed",
        "generation 2: 2 candidates, best 70.0% (candidate 1), mean 70.0%, 1 failed",
        "",
        "ancestors of the best candidate:",
        "  1: 70.0%, mutation of 0: pod_cpu",
        "  0: 60.0%, random: pods",
    ]


def test_no_plugin_is_written_without_an_improvement() -> None:
    outcome = make_outcome(None)
    worse = msgspec.structs.replace(outcome, base_value=0.9)
    assert worse.best is None
    assert describe_outcome(worse)[-1] == ("nothing is better than default, which has allocation.cpu 90.0% on 2 seeds")


def test_program_evaluator_returns_metrics(experiment: Path) -> None:
    scores = {}
    for name, code in {"pack": PACK, "spread": SPREAD, "broken": "score = 5\n"}.items():
        program = experiment.parent / f"{name}.py"
        program.write_text(code)
        metrics = make_program_evaluator(experiment, minimize="nodes.used")(str(program))
        scores[name] = metrics["combined_score"]
        if name == "broken":
            assert metrics["error"].startswith("raised: ")
        else:
            assert math.isclose(scores[name], 1 / (1 + metrics["nodes.used"]))
    assert scores["pack"] > scores["spread"] > scores["broken"] == 0
    with pytest.raises(InputError, match="objective"):
        make_program_evaluator(experiment)
