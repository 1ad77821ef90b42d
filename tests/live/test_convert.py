"""kube-scheduler reads the output of `moorage config convert`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moorage.scheduler.config import to_yaml
from moorage.scheduler.config.conversion import convert_provider, convert_text
from moorage.scheduler.config.conversion.tables import PREDICATES, PRIORITIES, PROVIDERS
from tests.support.control_plane import binaries

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
RATIO = {"requestedToCapacityRatioArguments": {"shape": SHAPE, "resources": [{"name": "a.example.com/b", "weight": 2}]}}


def of_version(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration", **fields}


FILES: dict[str, dict[str, Any]] = {
    "a policy with all predicates": {"kind": "Policy", "predicates": [{"name": name} for name in PREDICATES]},
    "a policy with one line": {"kind": "Policy", "priorities": [{"name": "R", "weight": 2, "argument": RATIO}]},
    "a nearly empty policy": {"kind": "Policy", "predicates": [], "priorities": []},
    "a policy with a label": {
        "kind": "Policy",
        "predicates": [{"name": "L", "argument": {"labelsPresence": {"labels": ["rack"], "presence": True}}}],
        "hardPodAffinitySymmetricWeight": 10,
        "extenders": [{"urlPrefix": "http://127.0.0.1:1/x", "filterVerb": "filter", "httpTimeout": 100000000}],
    },
    "v1alpha1": of_version(
        "v1alpha1",
        schedulerName="mine",
        leaderElection={"lockObjectName": "a", "lockObjectNamespace": "b", "resourceLock": "endpointsleases"},
        algorithmSource={"provider": "ClusterAutoscalerProvider"},
        disablePreemption=True,
        bindTimeoutSeconds=3,
        hardPodAffinitySymmetricWeight=5,
    ),
    "v1alpha2": of_version(
        "v1alpha2",
        profiles=[
            {"schedulerName": "a", "plugins": {"score": {"disabled": [{"name": "*"}]}}},
            {"schedulerName": "b", "plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}},
        ],
    ),
    "v1beta1": of_version(
        "v1beta1",
        healthzBindAddress="0.0.0.0:10251",
        profiles=[
            {
                "plugins": {
                    "score": {
                        "disabled": [{"name": "NodeResourcesLeastAllocated"}, {"name": "SelectorSpread"}],
                        "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}],
                    }
                },
                "pluginConfig": [{"name": "NodeResourcesMostAllocated", "args": {"resources": [{"name": "cpu"}]}}],
            }
        ],
    ),
    "v1beta2": of_version(
        "v1beta2", profiles=[{"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 3}}]}]
    ),
    "v1beta3": of_version("v1beta3", profiles=[{"plugins": {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}}]),
}
FILES |= {
    f"the priority {name}": {"kind": "Policy", "priorities": [{"name": name, "weight": 3}]}
    for name, found in PRIORITIES.items()
    if found.plugin
}


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_kube_scheduler_reads_converted_configurations(data: dict[str, Any], tmp_path: Path) -> None:
    (converted,) = convert_text(json.dumps(data), "old")
    assert_read(to_yaml(converted.data), tmp_path)


@pytest.mark.parametrize("name", PROVIDERS)
def test_kube_scheduler_reads_converted_providers(name: str, tmp_path: Path) -> None:
    assert_read(to_yaml(convert_provider(name).data), tmp_path)


def assert_read(text: str, directory: Path) -> None:
    output, config = directory / "written.yaml", directory / "config.yaml"
    config.write_text(text)
    command = [str(binaries() / "kube-scheduler"), f"--config={config}", f"--write-config-to={output}"]
    result = subprocess.run([*command, "--master=http://127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert output.exists(), result.stderr[-2000:]
