"""`moorage simulate`: what it prints, where, and its exit codes."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli.main import run
from moorage.kube.features import GATES

CLUSTERS = Path(__file__).parents[3] / "examples" / "clusters"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}\n---\n"
EXPECTED: dict[str, dict[str, str]] = {
    "fragmented.yaml": {
        "default/train": "0/3 nodes are available: 3 Insufficient example.com/gpu. "
        "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
    },
    "pool.yaml": {},
    "queue.yaml": {
        **dict.fromkeys(
            ("default/earlier", "default/my-job"),
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        ),
        "default/too-large": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    },
    "tour.yaml": {
        "default/web": "big",
        "default/database": "reserved",
        "default/too-big": "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        "default/not-yet": "gated",
    },
    "training.yaml": {
        "research/incident-model": "gpu-2",
        "research/quarterly-model": "0/2 nodes are available: 2 Insufficient example.com/gpu. "
        "preemption: not eligible due to preemptionPolicy=Never.",
        "research/notebook": "gpu-1",
        "research/sweep-3": "gpu-2, evicted",
    },
    "web-shop.yaml": {
        "shop/payment": "web-b1",
        "shop/frontend-1": "web-a1",
        "shop/frontend-2": "web-c1",
        "shop/frontend-3": "web-b2",
        "shop/cart-1": "web-a2",
        "shop/cart-2": "web-a1",
        "shop/cart-3": "web-c1",
        "shop/database-1": "db-a",
        "shop/database-2": "db-b",
        "shop/database-3": "0/9 nodes are available: 1 node(s) were unschedulable, "
        "2 node(s) didn't match pod anti-affinity rules, 6 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/9 nodes are available: 2 No preemption victims found for incoming pod, "
        "7 Preemption is not helpful for scheduling.",
        "shop/recommender": "gpu-a",
        "shop/nightly-report": "0/9 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, "
        "1 node(s) were unschedulable, 7 node(s) didn't match Pod's node affinity/selector. "
        "preemption: not eligible due to preemptionPolicy=Never.",
        "shop/batch-3": "web-b1, evicted",
    },
}
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]}\n---\n"


def test_one_pass_reports_preemption_without_evictions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "training.yaml"), "--one-pass", "-o", "json"]) == 0
    first = json.loads(capsys.readouterr().out)["decisions"][0]

    assert (first["pod"], first["result"]) == ("research/incident-model", "unschedulable")
    assert first["postFilter"] == {"nominatedNode": "gpu-2", "victims": ["research/sweep-3"]}


def test_preemption_runs_until_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "training.yaml"), "-o", "yaml"]) == 0
    decisions = {item["pod"]: item for item in yaml.safe_load(capsys.readouterr().out)["decisions"]}

    assert decisions["research/incident-model"]["node"] == "gpu-2"
    assert decisions["research/incident-model"]["attempts"] == 2
    assert decisions["research/sweep-3"]["evicted"] is True


def test_people_get_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "tour.yaml"), "--one-pass"]) == 0
    printed = capsys.readouterr().out
    for name in ("text", "table"):
        assert run(["simulate", "-f", str(CLUSTERS / "tour.yaml"), "--one-pass", "-o", name]) == 0
        assert capsys.readouterr().out == printed

    assert "default/database" in printed
    assert "gated by SchedulingGates" in printed
    assert printed.endswith("4 pods: 2 scheduled, 1 unschedulable, 1 gated\n")


def test_standard_input_and_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODE)
    monkeypatch.setattr("sys.stdin", io.StringIO(POD))

    assert run(["simulate", "-f", str(nodes), "-f", "-", "--one-pass", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"][0]["node"] == "n1"


def test_a_configuration_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(CONFIG + "profiles: [{schedulerName: mine}]")
    cluster.write_text(
        NODE + POD + POD.replace("web}", "other}", 1).replace("{containers", "{schedulerName: mine, containers")
    )

    assert run(["simulate", "-f", str(cluster), "--config", str(config), "--one-pass", "-o", "json"]) == 0
    assert [item["pod"] for item in json.loads(capsys.readouterr().out)["decisions"]] == ["default/other"]


def test_the_sample_clusters_give_the_expected_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in CLUSTERS.glob("*.yaml")} == set(EXPECTED)
    for name, expected in EXPECTED.items():
        assert run(["simulate", "-f", str(CLUSTERS / name), "-o", "json"]) == 0
        decisions = json.loads(capsys.readouterr().out)["decisions"]
        assert {item["pod"]: outcome(item) for item in decisions} == expected, name


def outcome(decision: dict[str, Any]) -> str:
    if decision["result"] != "scheduled":
        return str(decision.get("message") or decision["result"])
    return f"{decision['node']}, evicted" if decision.get("evicted") else str(decision["node"])


PLUGINS = """
import msgspec
from moorage.scheduler.framework.plugin import FilterPlugin, QueueSortPlugin
from moorage.scheduler.framework.status import Status

class LastNameFirst(QueueSortPlugin):
    def less(self, left, right):
        return left.pod.name > right.pod.name

class Only(FilterPlugin):
    class Args(msgspec.Struct, frozen=True, rename="camel"):
        node_name: str = "n1"

    def __init__(self, args):
        self.node_name = args.node_name

    def filter(self, cycle, pod, node):
        return None if node.name == self.node_name else Status.unresolvable(f"node(s) were not {self.node_name}")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    module = f"theirs_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return module


@pytest.mark.parametrize("mode", [[], ["--one-pass"]], ids=["until quiet", "one pass"])
def test_a_third_party_order_of_the_queue(
    mode: list[str], module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(
        CONFIG + 'profiles: [{plugins: {queueSort: {disabled: [{name: "*"}], enabled: [{name: LastNameFirst}]}}}]'
    )
    cluster.write_text(NODE + "".join(POD.replace("web}", f"{name}}}", 1) for name in ("a", "c", "b")))
    flags = ["--config", str(config), "--plugin", f"{module}:LastNameFirst", "-o", "json", *mode]

    assert run(["simulate", "-f", str(cluster), *flags]) == 0
    assert [item["pod"] for item in json.loads(capsys.readouterr().out)["decisions"]] == [
        "default/c",
        "default/b",
        "default/a",
    ]


ARGS = {
    "given": ("{nodeName: n2}", "0/1 nodes are available: 1 node(s) were not n2."),
    "omitted": ("{}", "n1"),
}
BAD_ARGS = {
    "an unknown one": ("{nodeNam: n2}", ".args.nodeNam: unknown field\n  hint: did you mean 'nodeName'?"),
    "one of another type": ("{nodeName: 3}", ".args.nodeName: "),
}


def only(tmp_path: Path, module: str, args: str) -> list[str]:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(
        CONFIG + "profiles: [{plugins: {multiPoint: {enabled: [{name: Only}]}}, "
        f"pluginConfig: [{{name: Only, args: {args}}}]}}]"
    )
    cluster.write_text(NODE + POD)
    return [
        "simulate",
        "-f",
        str(cluster),
        "--config",
        str(config),
        "--plugin",
        f"{module}:Only",
        "-o",
        "json",
    ]


@pytest.mark.parametrize(("args", "expected"), ARGS.values(), ids=ARGS)
def test_third_party_arguments(
    args: str, expected: str, module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(only(tmp_path, module, args)) == 0
    [decision] = json.loads(capsys.readouterr().out)["decisions"]
    assert outcome(decision).startswith(expected)


@pytest.mark.parametrize(("args", "message"), BAD_ARGS.values(), ids=BAD_ARGS)
def test_third_party_arguments_that_cannot_be_used(
    args: str, message: str, module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(only(tmp_path, module, args)) == 2
    assert f"config.yaml: profiles[0].pluginConfig[0]{message}" in capsys.readouterr().err


def test_every_profile_places_its_own_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    tight = "{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, schedulerName: careless}"
    config.write_text(CONFIG + f"profiles: [{{schedulerName: default-scheduler}}, {tight}]")
    huge = POD.replace("image: web", "image: web, resources: {requests: {cpu: 99}}")
    cluster.write_text(
        NODE + huge + huge.replace("web}", "other}", 1).replace("{containers", "{schedulerName: careless, containers")
    )

    assert run(["simulate", "-f", str(cluster), "--config", str(config), "-o", "json"]) == 0
    nodes_by_pod = {
        item["pod"]: (item["profile"], item["result"]) for item in json.loads(capsys.readouterr().out)["decisions"]
    }
    assert nodes_by_pod == {
        "default/web": ("default-scheduler", "unschedulable"),
        "default/other": ("careless", "scheduled"),
    }


def without(gate: str) -> list[str]:
    """Return a gate and its dependents."""
    return [
        gate,
        *(name for dependent in GATES.values() if gate in dependent.needs for name in without(dependent.name)),
    ]


@pytest.mark.parametrize("gate", [gate.name for gate in GATES.values() if gate.default and not gate.locked])
def test_every_default_gate_may_be_off(gate: str, capsys: pytest.CaptureFixture[str]) -> None:
    off = ",".join(f"{name}=false" for name in without(gate) if not GATES[name].locked)
    assert run(["simulate", "-f", str(CLUSTERS / "web-shop.yaml"), "--feature-gates", off, "-o", "json"]) == 0
    decisions = json.loads(capsys.readouterr().out)["decisions"]
    assert {item["pod"] for item in decisions if item["result"] != "error"} == set(EXPECTED["web-shop.yaml"])


@pytest.mark.parametrize(("flags", "noted"), [([], True), (["--quiet"], False)])
def test_kinds_that_are_omitted_are_noted(
    flags: list[str], noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODE + POD + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")

    assert run(["simulate", "-f", str(cluster), *flags]) == 0
    assert ("1 ConfigMap" in capsys.readouterr().err) is noted


BAD = {
    "a missing file": (["simulate", "-f", "nowhere.yaml"], "error: nowhere.yaml: the file does not exist"),
    "no file": (["simulate"], "no cluster specified\n  hint: add -f FILE or --snapshot FILE"),
    "an unknown plugin": (
        ["simulate", "-f", "nowhere.yaml", "--plugin", "nothing"],
        "expected module:Class",
    ),
    "an unknown gate": (
        ["simulate", "-f", "nowhere.yaml", "--feature-gates", "X=true"],
        "unrecognized feature gate: X",
    ),
    "a search without one pass": (["simulate", "-f", "nowhere.yaml", "--search", "all"], "--search: needs --one-pass"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_mistakes_are_reported_in_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_gate_that_is_off_by_default_can_be_switched_on(capsys: pytest.CaptureFixture[str]) -> None:
    gates = "TaintTolerationComparisonOperators=true"
    assert run(["simulate", "-f", str(CLUSTERS / "tour.yaml"), "--feature-gates", gates]) == 0
    assert capsys.readouterr().err == ""


EXAMPLE = Path(__file__).parents[3] / "examples" / "02-node-class"
TWO_NODES = "".join(NODE.replace("name: n1", f"name: node-{number}") for number in (1, 2))


@pytest.mark.parametrize("mode", [[], ["--one-pass"]], ids=["until quiet", "one pass"])
@pytest.mark.parametrize("is_defined", [True, False], ids=["with its definition", "without"])
def test_plugins_find_their_custom_resources(
    is_defined: bool,
    mode: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(TWO_NODES)
    files = [nodes, EXAMPLE / "workload.yaml", *([EXAMPLE / "definition.yaml"] if is_defined else [])]
    flags = [part for file in files for part in ("-f", str(file))]

    assert run(["simulate", *flags, "--plugin", "reserved:Reserved", "-o", "json", *mode]) == 0
    printed = capsys.readouterr()
    outcomes = {item["pod"]: outcome(item) for item in json.loads(printed.out)["decisions"]}
    assert outcomes["default/indexer"] == "node-1"
    assert outcomes["default/visitor"].startswith(
        "0/2 nodes are available: 1 node(s) were reserved for team ads, 1 node(s) were reserved for team search."
    )
    loose = "note: not validated, because there is no CustomResourceDefinition: 2 Reservation\n"
    assert (loose in printed.err) is not is_defined


def test_unused_custom_resources_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODE + "apiVersion: example.net/v1\nkind: Quirk\nmetadata: {name: q}\n")

    assert run(["simulate", "-f", str(cluster)]) == 0
    assert "note: skipped, because no plugin uses them: 1 Quirk\n" in capsys.readouterr().err


def test_custom_resources_must_match_their_definition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODE + "apiVersion: example.org/v1\nkind: Reservation\nmetadata: {name: n1}\nspec: {team: 3}\n")

    assert run(["simulate", "-f", str(cluster), "-f", str(EXAMPLE / "definition.yaml")]) == 2
    error = capsys.readouterr().err
    assert "document 2 (Reservation n1)" in error
    assert "spec.team" in error


LOUD = """
import structlog
from moorage.scheduler.framework.plugin import FilterPlugin

structlog.get_logger().error("imported")

class Loud(FilterPlugin):
    def __init__(self):
        structlog.get_logger().error("made")

    def filter(self, cycle, pod, node):
        structlog.get_logger().error("asked")
        return None
"""
PRINTING = {
    "simulate": ["simulate", "-f", "{cluster}", "-o", "json"],
    "simulate --one-pass": ["simulate", "-f", "{cluster}", "--one-pass", "-o", "json"],
    "config view": ["config", "view", "-o", "json"],
}


@pytest.mark.parametrize("command", PRINTING.values(), ids=PRINTING)
def test_logs_do_not_mix_with_the_output(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, cluster = f"loud_{tmp_path.name}", tmp_path / "cluster.yaml"
    (tmp_path / f"{module}.py").write_text(LOUD)
    monkeypatch.syspath_prepend(str(tmp_path))
    cluster.write_text(NODE + POD)
    filled = [part.format(cluster=cluster) for part in command]

    assert run([*filled, "--plugin", f"{module}:Loud"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)
    assert "imported" in printed.err


@pytest.mark.parametrize("mode", [[], ["--one-pass"]], ids=["until quiet", "one pass"])
def test_extenders_can_be_omitted(mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(CONFIG + "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]")
    cluster.write_text(NODE + POD)
    command = ["simulate", "-f", str(cluster), "--config", str(config), "-o", "json", *mode]

    assert run(command) == 1
    (decision,) = json.loads(capsys.readouterr().out)["decisions"]
    assert decision["result"] == "error"
    assert run([*command, "--no-extenders"]) == 0
    printed = capsys.readouterr()
    assert outcome(json.loads(printed.out)["decisions"][0]) == "n1"
    assert "note: ignoring 1 extenders of the configuration\n" in printed.err


def test_json_output_has_simulated_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "training.yaml"), "--for", "1m", "-o", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert list(output) == ["decisions", "simulated", "timeline", "utilisation"]
    assert output["simulated"] == {"seconds": 60.0, "quiet": True}
    lives = {item["pod"]: item for item in output["timeline"]}
    assert lives["research/sweep-3"]["evictedBy"] == "research/incident-model"
    assert lives["research/incident-model"]["waited"] > 2.0
    assert lives["research/quarterly-model"]["waited"] == 60.0
    gpus = next(item for item in output["utilisation"] if item["resource"] == "example.com/gpu")
    assert gpus == {"resource": "example.com/gpu", "allocatable": 8.0, "requested": 8.0, "peak": 8.0, "mean": 8.0}


def test_text_output_shows_simulated_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "-f", str(CLUSTERS / "training.yaml"), "--group-by", "kubernetes.io/hostname"]) == 0
    printed = capsys.readouterr().out
    assert "research/sweep-3 evicted from gpu-2 by research/incident-model\n" in printed
    assert "research/incident-model placed on gpu-2, waited 2s\n" in printed
    assert "Waited for a node: median 1s, longest 2s (research/incident-model)\n" in printed
    assert "Resource" in printed


def test_pod_run_time_can_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODE + POD.replace("spec: {", "spec: {restartPolicy: Never, "))

    for flags, phase in (([], None), (["--run-for", "1h"], "Succeeded")):
        assert run(["simulate", "-f", str(cluster), "-o", "json", *flags]) == 0
        (life,) = json.loads(capsys.readouterr().out)["timeline"]
        assert life.get("phase") == phase


GANG = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: training}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
"""


def test_one_pass_reports_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {schedulingGroup: {podGroupName: training}, "
    pod += "containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}\n"
    file = tmp_path / "gang.yaml"
    file.write_text(NODE + GANG + "".join(pod.replace("NAME", name) for name in "abc"))

    run(["simulate", "--one-pass", "-q", "-o", "json", "--feature-gates", "GenericWorkload=true", "-f", str(file)])

    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert (group["group"], group["result"], len(group["pods"])) == ("default/training", "unschedulable", 3)
    assert group["conditions"]["default/training"]["message"].startswith(
        "minCount (3) cannot be satisfied: 2 scheduled"
    )


QUOTA = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: '2'}}\n"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""


@pytest.mark.parametrize("mode", [["--for", "1h"], ["--one-pass"]], ids=["until quiet", "one pass"])
def test_pods_that_may_not_be_made_are_noted_once(
    mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(NODE + DEPLOYMENT + QUOTA)

    assert run(["simulate", "-f", str(cluster), "-o", "json", *mode]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["decisions"]) == 2
    notes = [line for line in printed.err.splitlines() if "exceeded quota: q" in line]
    assert len([line for line in notes if line.startswith("note: replicasets of default/web-")]) == 1
    assert len(notes) <= 2


@pytest.mark.parametrize("mode", [(), ("--one-pass",)], ids=["until nothing changes", "one pass"])
def test_exit_code_is_1_if_a_plugin_raises(
    mode: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    method = "    def filter(self, cycle, pod, node):\n        return {}['nope']\n"
    plugin = f"from moorage import FilterPlugin\n\nclass Raising(FilterPlugin):\n{method}"
    (tmp_path / "raising_plugin.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    command = ["simulate", "-q", "-o", "json", "-f", str(CLUSTERS / "tour.yaml"), "--plugin", "raising_plugin:Raising"]
    assert run([*command, *mode]) == 1
    assert "raised KeyError: 'nope' (raising_plugin.py:5)" in capsys.readouterr().out


FAULTS = {
    "pre_enqueue that raises": (
        "PreEnqueuePlugin",
        "def pre_enqueue(self, pod):\n        return {}['nope']",
        "Faulty.pre_enqueue raised KeyError: 'nope' (faulty_plugin.py:5)",
    ),
    "pre_enqueue that returns True": (
        "PreEnqueuePlugin",
        "def pre_enqueue(self, pod):\n        return True",
        "Faulty.pre_enqueue (faulty_plugin.py:4) returned True: return None, or Status.unschedulable('why')",
    ),
    "sort_key that raises": (
        "QueueSortPlugin",
        "def sort_key(self, queued):\n        return {}['nope']",
        "Faulty.sort_key raised KeyError: 'nope' (faulty_plugin.py:5)",
    ),
    "sort keys that cannot be compared": (
        "QueueSortPlugin",
        "def sort_key(self, queued):\n        pass",
        "Faulty.sort_key (faulty_plugin.py:4) returned values that cannot be compared: None has no order",
    ),
    "less without a result": (
        "QueueSortPlugin",
        "def less(self, left, right):\n        pass",
        "Faulty.less (faulty_plugin.py:4) returned values that cannot be compared: return True or False, not None",
    ),
    "post_filter that never returns": (
        "PostFilterPlugin",
        "async def post_filter(self, cycle, pod, statuses):\n"
        "        import asyncio\n        await asyncio.Event().wait()",
        "Faulty.post_filter (faulty_plugin.py:4) did not return within 60 s (call_timeout)",
    ),
    "post_bind that raises": (
        "PostBindPlugin",
        "async def post_bind(self, cycle, pod, node_name):\n        return {}['nope']",
        "Faulty.post_bind raised KeyError: 'nope' (faulty_plugin.py:5)",
    ),
    "close that raises": (
        "FilterPlugin",
        "def filter(self, cycle, pod, node):\n        pass\n    async def close(self):\n        return {}['nope']",
        "Faulty.close raised KeyError: 'nope' (faulty_plugin.py:7)",
    ),
    "background work that ends the program": (
        "FilterPlugin",
        "def __init__(self, *, handle):\n        self.handle = handle\n    def filter(self, cycle, pod, node):\n"
        "        pass\n    async def start(self):\n"
        "        self.handle.in_background(self.work(), name='work', must_finish=True)\n"
        "    async def work(self):\n        raise SystemExit(3)",
        "background work 'work' of Faulty raised SystemExit: 3 (faulty_plugin.py:11)",
    ),
    "score out of range": (
        "ScorePlugin",
        "def score(self, cycle, pod, node):\n        return 250",
        "Faulty.score (faulty_plugin.py:4) returned 250: return an integer from 0 to 100, or default_normalize(scores)",
    ),
    "error of pre_enqueue": (
        "PreEnqueuePlugin",
        "def pre_enqueue(self, pod):\n        return Status.error('no quota service')",
        "Faulty.pre_enqueue: no quota service",
    ),
    "error of post_filter": (
        "PostFilterPlugin",
        "async def post_filter(self, *_):\n        return PostFilterResult(Status.error('disk full'))",
        "Faulty.post_filter: disk full",
    ),
    "hint that returns a bool": (
        "FilterPlugin",
        "def filter(self, cycle, pod, node):\n"
        "        return None if pod.name != 'web' or node.pods else Status.unschedulable('alone')\n"
        "    def hint(self, pod, old, new):\n        return True\n"
        "    def events_to_register(self):\n"
        "        return [EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.ALL), self.hint)]",
        "Faulty.hint (faulty_plugin.py:6) returned True: return QueueingHint.QUEUE or QueueingHint.SKIP",
    ),
}


@pytest.mark.parametrize(("base", "method", "message"), FAULTS.values(), ids=FAULTS)
def test_each_fault_of_a_plugin_is_printed_and_makes_the_exit_code_1(
    base: str,
    method: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "faulty_plugin.py").write_text(f"from moorage import *\n\nclass Faulty({base}):\n    {method}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty_plugin", raising=False)
    command = ["simulate", "-q", "-o", "json", "-f", str(CLUSTERS / "tour.yaml"), "--plugin", "faulty_plugin:Faulty"]
    assert run(command) == 1
    printed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(printed) == 1
    assert printed[0].startswith(f"error: {message}")


FUNCTION_FAULTS = {
    "filter that returns a text": (
        "@filter_function\ndef faulty(pod, node):\n    return 'yes'\n",
        "faulty (faulty_function.py:3) returned 'yes': return True to accept the node, or False to reject it",
    ),
    "score out of range": (
        "@score_function\ndef faulty(pod, node):\n    return 200\n",
        "faulty (faulty_function.py:3) returned 200: return an integer from 0 to 100",
    ),
    "score that is a fraction": (
        "@score_function\ndef faulty(pod, node):\n    return 0.5\n",
        "faulty (faulty_function.py:3) returned 0.5: return an int from 0 to 100",
    ),
    "filter that raises": (
        "@filter_function\ndef faulty(pod, node):\n    return node.labels['nope']\n",
        "faulty raised KeyError: 'nope' (faulty_function.py:5)",
    ),
}


@pytest.mark.parametrize(("code", "message"), FUNCTION_FAULTS.values(), ids=FUNCTION_FAULTS)
def test_faults_of_functions_name_the_file_of_the_author(
    code: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "faulty_function.py").write_text(f"from moorage import filter_function, score_function\n\n{code}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty_function", raising=False)
    command = ["simulate", "-q", "-o", "json", "-f", str(CLUSTERS / "tour.yaml"), "--plugin", "faulty_function:faulty"]
    assert run(command) == 1
    printed = capsys.readouterr().err
    assert printed.count(message) == 1 or f"error: {message}" in printed, printed
    assert "moorage/" not in printed  # the frames of Moorage are omitted


def test_print_in_a_plugin_is_written_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    method = "    def filter(self, cycle, pod, node):\n        print('filtering')\n"
    plugin = f"from moorage import FilterPlugin\nprint('imported')\n\nclass Prints(FilterPlugin):\n{method}"
    (tmp_path / "printing_plugin.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    command = ["simulate", "-q", "-o", "json", "-f", str(CLUSTERS / "tour.yaml"), "--plugin", "printing_plugin:Prints"]
    assert run(command) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["decisions"]
    assert {"imported", "filtering"} <= set(printed.err.splitlines())


def test_plugin_timeout_is_that_of_the_option_unless_the_class_sets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    method = "    async def post_filter(self, *_):\n        import asyncio\n        await asyncio.Event().wait()\n"
    own = "class Own(Waits):\n    call_timeout = 7\n"
    (tmp_path / "waiting_plugin.py").write_text(
        f"from moorage import PostFilterPlugin\n\nclass Waits(PostFilterPlugin):\n{method}\n{own}"
    )
    monkeypatch.syspath_prepend(tmp_path)
    command = ["simulate", "-q", "-f", str(CLUSTERS / "tour.yaml"), "--plugin-timeout", "5s", "--plugin"]
    assert run([*command, "waiting_plugin:Waits"]) == 1
    assert "did not return within 5 s" in capsys.readouterr().err
    assert run([*command, "waiting_plugin:Own"]) == 1
    assert "did not return within 7 s" in capsys.readouterr().err
    assert run([*command, "waiting_plugin:Own", "--plugin-timeout", "soon"]) == 2
    assert "--plugin-timeout" in capsys.readouterr().err


def test_plugin_reads_raw_pods_and_annotates_a_pod_before_it_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = """
from moorage import FilterPlugin, PreBindPlugin, RawNode, RawPod, Status

class Annotates(FilterPlugin, PreBindPlugin):
    def __init__(self, *, handle):
        self.cluster, self.pods, self.nodes = handle.cluster, handle.lister(RawPod), handle.lister(RawNode)
    def filter(self, cycle, pod, node):
        container = self.pods.find(pod.key)["spec"]["containers"][0]["name"]
        disk = self.nodes.get(node.name)["metadata"]["labels"]["disk"]
        return None if (container, disk) == ("web", "hdd") else Status.unresolvable("not web")
    def pre_bind_pre_flight(self, cycle, pod, node_name):
        return None
    async def pre_bind(self, cycle, pod, node_name):
        await self.cluster.patch(pod, {"metadata": {"annotations": {"cpuset": "0"}}})
"""
    (tmp_path / "annotating_plugin.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    command = ["simulate", "-q", "-o", "json", "-f", str(CLUSTERS / "tour.yaml")]
    assert run([*command, "--plugin", "annotating_plugin:Annotates"]) == 0
    printed = capsys.readouterr()
    nodes = {item["pod"]: item.get("node") for item in json.loads(printed.out)["decisions"]}
    assert nodes["default/web"] == "small"
    assert not nodes["default/database"]
    assert "cache refused" not in printed.err
