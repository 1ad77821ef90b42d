"""Files that expand far beyond their length: an error with a location, never a traceback, and immediately."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hostile.classes import CLASSES

from moorage.cli.main import run
from moorage.cluster.files.loading import cluster_from_documents
from moorage.kube.manifests import read_files

DIGITS = "9" * 5000
POD = '{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p"}}, "spec": {{{}}}}}'
AMOUNT = '"containers": [{{"name": "c", "resources": {{"requests": {{"cpu": {}}}}}}}]'
FILES: dict[str, str] = {
    "aliases of aliases": CLASSES["aliases of aliases"].body.decode(),
    "merges of merges": CLASSES["merges of merges"].body.decode(),
    "brackets without end": "[" * 60_000,
    "levels without end, as JSON": '{"apiVersion": "v1", "kind": "Pod", "metadata": '
    + '{"a":' * 5000
    + "1"
    + "}" * 5001,
    "a quantity of 5,000 digits": POD.format(AMOUNT.format(f'"{DIGITS}"')),
    "a quantity that is such a number": POD.format(AMOUNT.format(DIGITS)),
    "a quantity of 300 digits": POD.format(AMOUNT.format(DIGITS[:300])),
    "a priority of 25 digits": POD.format('"priority": 1234567890123456789012345'),
    "a priority of 33 bits": POD.format('"priority": -4294967296'),
    "a grace period of 65 bits": POD.format('"terminationGracePeriodSeconds": 18446744073709551616'),
    "a quantity in other digits": POD.format(AMOUNT.format('"\u0663"')),
    "a time with other digits": POD.replace('"p"', '"p", "creationTimestamp": "2026-01-0\u0661T00:00:00Z"').format(""),
    "a priority of 5,000 digits": POD.format(f'"priority": {DIGITS}'),
    "an invalid time": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: !!timestamp x}\n",
}


UP = ("up", "--nodes", "0", "--for", "1s", "-f")
CASES = [
    *((command, name) for command in (("simulate", "-f"), ("config", "check")) for name in FILES),
    # The rest are YAML, and objects that the server of the cluster rejects.
    *((UP, name) for name in ("aliases of aliases", "merges of merges", "brackets without end")),
]


@pytest.mark.parametrize(("command", "name"), CASES)
def test_hostile_file_is_rejected(
    name: str, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hostile"
    file.write_text(FILES[name])
    began = time.process_time()
    assert run((*command, str(file))) == 2
    assert time.process_time() - began < 5.0
    errors = capsys.readouterr().err
    # A note about unknown fields may precede the error.
    assert any(line.startswith("error: ") for line in errors.splitlines())
    assert str(file) in errors


LONG = "x" * 300_000
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CONTEXT = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4, memory: 4Gi, pods: 10}}\n"
A_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
A_DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: p}\n"
OBJECTS: dict[str, str] = {
    "a kind": f"apiVersion: v1\nkind: {LONG}\nmetadata: {{name: p}}\n",
    "a name": f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {LONG}}}\n",
    "a quantity": f"{A_POD}spec: {{containers: [{{name: c, resources: {{requests: {{cpu: {LONG}}}}}}}]}}\n",
    "a text for a number": f"{A_POD}spec: {{priority: {LONG}}}\n",
    "a tag": f"a: !!{LONG} b\n",
    "a text alone": LONG,
    "a list for a spec": f"{A_POD}spec: [1]\n",
    "a text for a spec": f"{A_POD}spec: {LONG}\n",
    "a list for metadata": "apiVersion: v1\nkind: Pod\nmetadata: [1]\n",
    "a list for the spec of a workload": f"{A_DEPLOYMENT}spec: [1]\n",
    "a list for a template": f"{A_DEPLOYMENT}spec: {{template: [1]}}\n",
    "a text for the spec of a template": f"{A_DEPLOYMENT}spec: {{template: {{spec: {LONG}, metadata: [1]}}}}\n",
    "items other than objects": "apiVersion: v1\nkind: List\nitems: [null, 1, [], {}]\n",
}
CONFIGS: dict[str, str] = {
    "a key": f"{HEAD}{LONG}: 1\n",
    "a plugin": f"{HEAD}profiles: [{{plugins: {{filter: {{enabled: [{{name: {LONG}}}]}}}}}}]\n",
    "a scheduler's name, twice": f"{HEAD}profiles: [{{schedulerName: '{LONG} '}}, {{schedulerName: '{LONG} '}}]\n",
    "a type": f"{HEAD}profiles: [{{pluginConfig: [{{name: NodeResourcesFit, "
    f"args: {{scoringStrategy: {{type: {LONG}}}}}}}]}}]",
    "3,000 mistakes": f"{HEAD}profiles:\n" + "".join(f"- {{schedulerName: a{n}, x{n}: 1}}\n" for n in range(3000)),
    "durations and URLs": f"{HEAD}podInitialBackoffSeconds: {LONG}\n"
    f"extenders: [{{urlPrefix: {LONG}, httpTimeout: {LONG}}}]",
    "lists for objects": f"{HEAD}profiles: [null, 1, {{plugins: [1], pluginConfig: {{a: b}}}}]\nextenders: x\n",
    "a List of a number": "apiVersion: v1\nkind: List\nitems: 5\n",
    "a Policy of wrong types": "apiVersion: v1\nkind: Policy\npredicates: [1]\npriorities: {a: b}\nextenders: [1]\n",
}
SNAPSHOTS: dict[str, str] = {
    "brackets": "[" * 60_000,
    "a list as metadata": '{"metadata": [1], "items": [1]}',
    "an invalid time": '{"metadata": {"annotations": {"moorage.io/taken-at": 5}}, "items": [1]}',
}
KUBECONFIGS: dict[str, str] = {
    "a server": f"{CONTEXT}clusters: [{{name: a, cluster: {{server: '{LONG}'}}}}]\nusers: [{{name: a, user: {{}}}}]\n",
    "wrong types": "apiVersion: v1\nkind: Config\nclusters: [1]\nusers: {a: b}\ncontexts: x\ncurrent-context: [1]\n",
    "a context": f"apiVersion: v1\nkind: Config\ncurrent-context: {LONG}\n",
}
READERS: dict[tuple[str, ...], dict[str, str]] = {
    ("simulate", "-q", "-f", "FILE"): OBJECTS,
    ("explain", "p", "-q", "-f", "FILE"): OBJECTS,
    ("capacity", "FILE", "-q", "-f", "CLUSTER"): OBJECTS,
    ("capacity", "CLUSTER", "-q", "-f", "FILE"): OBJECTS,
    ("whatif", "fewest-nodes", "-f", "FILE"): OBJECTS,
    ("config", "check", "FILE"): CONFIGS,
    ("config", "convert", "FILE"): {name: text for name, text in CONFIGS.items() if name != "a plugin"},  # it is kept
    ("simulate", "-q", "-f", "CLUSTER", "--config", "FILE"): CONFIGS,
    ("simulate", "-q", "--snapshot", "FILE"): SNAPSHOTS,
    ("explain", "p", "-q", "--snapshot", "FILE"): SNAPSHOTS,
    ("explain", "p", "-q", "--kubeconfig", "FILE"): KUBECONFIGS,
    ("snapshot", "NOWHERE.json", "-q", "--kubeconfig", "FILE"): KUBECONFIGS,
}
MAX_OUTPUT = 80_000
"""A few pages: most inputs are far longer, or have thousands of mistakes to list."""


@pytest.mark.parametrize(
    ("command", "content"),
    [
        pytest.param(command, content, id=f"{' '.join(command[:2])}: {name}")
        for command, files in READERS.items()
        for name, content in files.items()
    ],
)
def test_error_message_is_short(
    command: tuple[str, ...], content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {name: tmp_path / name for name in ("FILE", "CLUSTER", "NOWHERE.json")}
    paths["FILE"].write_text(content)
    paths["CLUSTER"].write_text(f"{NODE}---\n{A_POD}")
    # Some of it is valid: a List of nothing that is known has no pods in it.
    run([str(paths.get(word, word)) for word in command])
    output = capsys.readouterr()
    assert len(output.out) + len(output.err) < MAX_OUTPUT
    assert "Traceback" not in output.err
    assert "error: " in output.err or "no pending pods" in output.out or "fit" in output.out or "hold all" in output.out


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "the file does not exist"),
    "directory": (Path.mkdir, "this is a directory, not a regular file"),
    "pipe": (os.mkfifo, "this is a pipe, not a regular file"),
    "endless device": (lambda path: path.symlink_to("/dev/zero"), "this is a device, not a regular file"),
}
FILE_OPTIONS: tuple[tuple[str, ...], ...] = (
    *READERS,
    ("up", "--for", "1s", "-f", "FILE"),
    ("simulate", "--decision-log", "FILE"),
    ("ui", "--snapshot", "FILE"),
    ("scheduler", "--config", "FILE"),
    ("scheduler", "--master", "http://127.0.0.1:1", "--allow-metric-labels-manifest", "FILE"),
    ("record", "NOWHERE.jsonl", "--kubeconfig", "FILE"),
    ("whatif", "serve", "-f", "CLUSTER", "--token-file", "FILE"),
    ("lab", "run", "FILE"),
)


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.parametrize("command", FILE_OPTIONS, ids=" ".join)
def test_every_command_reports_an_unusable_file_in_the_same_words(
    command: tuple[str, ...], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, problem = UNUSABLE[kind]
    paths = {name: tmp_path / name for name in ("FILE", "CLUSTER", "NOWHERE.jsonl")}
    make(paths["FILE"])
    paths["CLUSTER"].write_text(f"{NODE}---\n{A_POD}")
    assert run([str(paths.get(word, word)) for word in command]) != 0
    assert f"{paths['FILE']}: {problem}" in capsys.readouterr().err


def test_a_cluster_at_the_end_of_time_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hostile"
    file.write_text(POD.format("").replace('"p"', '"p", "creationTimestamp": "9999-12-31T23:59:59Z"'))
    assert run(("simulate", "-f", str(file))) == 0
    assert "default/p" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "read"),
    {
        r"\ud800": "\ufffd",
        r"a\udfffb": "a\ufffdb",
        r"\uD83D\uDE00": "\U0001f600",
        r"\\ud800": r"\ud800",
        r"\ud800\ud83d\ude00": "\ufffd\U0001f600",
    }.items(),
)
def test_half_a_character_is_read_as_go_reads_it(
    content: str, read: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hostile"
    file.write_text(POD.format("").replace('"p"', f'"p", "labels": {{"a": "{content}"}}'))
    assert run(("simulate", "-f", str(file))) == 0
    output = capsys.readouterr()
    assert "failed" not in output.out + output.err
    assert cluster_from_documents(read_files([str(file)])).pending[0].labels == {"a": read}
