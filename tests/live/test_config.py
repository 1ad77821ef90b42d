"""The output of `--write-config-to`, byte for byte as from kube-scheduler 1.37.1."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from moorage.cli.main import run
from moorage.common.version import RELEASE
from moorage.kube.features import RELEASES
from tests.support.control_plane import binaries

HEADER: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SERVER: Final = "--master=https://127.0.0.1:1"
"""kube-scheduler requires the address of the API server, even if it only writes its configuration."""
CONFIGURATIONS: Final = {
    "a profile name only": "profiles: [{schedulerName: second}]",
    "leader election and the client": """
leaderElection: {leaderElect: false, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 4s, resourceName: mine}
clientConnection: {qps: 12.5, burst: 20, contentType: application/json}
""",
    "limits and delays": """
parallelism: 4
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
delayCacheUntilActive: true
enableProfiling: false
""",
    "disabled, enabled and weighted plugins": """
profiles:
  - schedulerName: weighed
    percentageOfNodesToScore: 70
    plugins:
      multiPoint:
        disabled: [{name: ImageLocality}]
        enabled: [{name: NodeResourcesFit, weight: 7}]
      score:
        disabled: [{name: '*'}]
        enabled: [{name: TaintToleration, weight: 9}]
""",
    "arguments of plugins": """
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args:
          ignoredResources: [example.com/foo]
          ignoredResourceGroups: [example.org]
          scoringStrategy:
            type: RequestedToCapacityRatio
            resources: [{name: cpu, weight: 3}, {name: memory, weight: 1}]
            requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
      - name: InterPodAffinity
        args: {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}
      - name: DefaultPreemption
        args: {minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 50}
      - name: VolumeBinding
        args: {bindTimeoutSeconds: 30}
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [batch]}]}]
""",
    "extenders": """
extenders:
  - urlPrefix: https://extender.example.org/v1
    filterVerb: filter
    prioritizeVerb: rate
    preemptVerb: preempt
    bindVerb: bind
    weight: 3
    enableHTTPS: true
    tlsConfig: {insecure: true, serverName: other}
    httpTimeout: 5s
    nodeCacheCapable: true
    ignorable: true
    managedResources: [{name: example.com/foo, ignoredByScheduler: true}]
""",
    "several profiles": "profiles: [{schedulerName: one}, {schedulerName: two, percentageOfNodesToScore: 5}]",
}
FLAGS: Final = {
    "no flags": (),
    "another lease": ("--leader-elect-resource-name=mine", "--leader-elect-lease-duration=20s", "--leader-elect=false"),
    "a disabled feature gate": ("--feature-gates=StorageCapacityScoring=false",),
}


def kube_scheduler(*arguments: str) -> str:
    """Run kube-scheduler; return its output."""
    command = [str(binaries() / "kube-scheduler"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def written_by_both(directory: Path, *flags: str) -> tuple[str, str]:
    """Run both with the same flags and return their configurations."""
    actual, upstream = directory / "ours.yaml", directory / "theirs.yaml"
    kube_scheduler(f"--write-config-to={upstream}", SERVER, *flags)
    assert run(["scheduler", f"--write-config-to={actual}", SERVER, *flags]) == 0
    return actual.read_text(), upstream.read_text()


def test_kube_scheduler_has_the_expected_version() -> None:
    assert kube_scheduler("--version") == "Kubernetes v1.37.1\n"


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_files_are_completed_equally(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEADER + text)
    actual, upstream = written_by_both(tmp_path, f"--config={file}")
    assert actual == upstream
    capsys.readouterr()
    assert run(["config", "view", f"--config={file}"]) == 0
    assert capsys.readouterr().out == upstream


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_flags_are_completed_equally(flags: tuple[str, ...], tmp_path: Path) -> None:
    actual, upstream = written_by_both(tmp_path, *flags)
    assert actual == upstream


@pytest.mark.parametrize("release", [release for release in RELEASES if release <= RELEASE])
def test_needs_of_gates_are_those_of_the_emulated_release(release: str, tmp_path: Path) -> None:
    gates = RELEASES[release]
    pairs = [(gate.name, need) for gate in gates.values() if not gate.locked for need in gate.needs]
    compared = 0
    for name, need in pairs:
        if gates[need].locked:
            continue
        flags = (f"--emulated-version={release}", f"--feature-gates={name}=true,{need}=false")
        command = [str(binaries() / "kube-scheduler"), f"--write-config-to={tmp_path / 'theirs.yaml'}", SERVER, *flags]
        theirs = subprocess.run(command, check=False, capture_output=True, timeout=120)
        ours = run(["scheduler", f"--write-config-to={tmp_path / 'ours.yaml'}", SERVER, *flags])
        assert (ours == 0) is (theirs.returncode == 0), (name, need)
        compared += 1
    assert compared > 3
