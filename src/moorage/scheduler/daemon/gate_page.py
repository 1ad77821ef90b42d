"""The feature gates as a page of the documentation."""

import sys
from collections.abc import Iterator
from typing import Final

from moorage.kube.features import GATES, RELEASES, Stage
from moorage.scheduler.daemon.gates import MOOT, PERMANENT

INTRODUCTION: Final = """\
# Feature gates

Generated from the table of gates by `python -m moorage.scheduler.daemon.gate_page`; a test keeps it true.

These are the gates that a scheduler notices, with their stage and default in every release that `--emulated-version`
takes: **on** or off, *locked* if it cannot be changed. All other gates of Kubernetes 1.37 belong to other components:
they are accepted, and their having no effect is logged.

`DRAFractionalCapacityRange` is on if `--min-compatibility-version` is 1.37.
"""

#: What switching a gate changes here.
HONOURED: Final = {
    "DRAExtendedResource": "whether devices serve extended resources of pods",
    "DRAAdminAccess": "whether claims may ask for access to devices in use",
    "DRAPrioritizedList": "whether requests may have alternatives",
    "DRADeviceTaints": "whether taints keep claims off devices",
    "DRADeviceTaintRules": "whether DeviceTaintRules taint devices",
    "DRAPartitionableDevices": "whether devices that draw on shared counters can be allocated",
    "DRAConsumableCapacity": "whether devices can be shared by their capacity",
    "DRAFractionalCapacityRange": "whether ranges of capacity may have fractions",
    "DRADeviceBindingConditions": "whether devices that must get ready first can be allocated, and are waited for",
    "DRAResourceClaimDeviceStatus": "needed by DRADeviceBindingConditions",
    "DRASchedulerFilterTimeout": "whether filtering by devices gives up after 10 seconds, those of all nodes together",
    "DRAWorkloadResourceClaims": "whether claims are made for, and reserved for, groups of pods",
    "DRANodeAllocatableResources": "whether devices may stand for CPU, memory or storage of their node",
    "DRAOptionalNodeOperations": "whether devices that need no work on their node go to nodes that declare it",
    "DRAListTypeAttributes": "whether constraints know attributes that are lists",
    "DRADeviceCompatibilityGroups": "whether partitions that get on with each other only can be allocated",
    "DRADerivedAttributes": "whether requests may work out attributes for their constraints",
    "StorageCapacityScoring": "whether VolumeBinding scores nodes by their free capacity",
    "VolumeLimitScaling": "whether a node without the CSI driver is turned down",
    "NodeDeclaredFeatures": "whether the plugin of this name is among the defaults",
    "PodLevelResources": "whether the resources of whole pods count",
    "InPlacePodLevelResourcesVerticalScaling": "whether what the kubelet says of a resize of whole pods counts",
    "InPlacePodVerticalScalingSchedulerPreemption": "whether room is made for resizes that the kubelet has put off",
    "MatchLabelKeysInPodTopologySpread": "whether matchLabelKeys of spread constraints count",
    "TaintTolerationComparisonOperators": "whether the toleration operators Lt and Gt compare numbers",
    "SchedulerAsyncPreemption": "whether victims are evicted after the cycle, and preemptors held meanwhile",
    "SchedulerPopFromBackoffQ": "whether an idle scheduler tries pods before their penalty ends",
    "NominatedNodeNameForExpectation": "whether the chosen node is announced before a binding that takes long",
    "GenericWorkload": "whether pods of a group are scheduled together",
    "TopologyAwareWorkloadScheduling": "whether the pods of a group are kept within a topology domain",
    "CompositePodGroup": "whether groups may be made of groups",
    "PodGroupPreemptionPolicy": "whether a group, and not its pods, says if it preempts",
    "CoordinatedLeaderElection": "whether the API server says which replica leads",
    "ComponentFlagz": "whether there is /flagz",
    "ComponentStatusz": "whether there is /statusz",
}


def reference_page() -> str:
    """Print the documentation's page."""
    return f"{INTRODUCTION}\n{''.join(_rows())}"


def _rows() -> Iterator[str]:
    yield f"| gate | {' | '.join(RELEASES)} | here |\n|---|{'---|' * len(RELEASES)}---|\n"
    for name in GATES:
        history = " | ".join(_at(name, release) for release in RELEASES)
        yield f"| `{name}` | {history} | {_here(name)} |\n"


def _at(name: str, release: str) -> str:
    gate = RELEASES[release].get(name)
    if gate is None:
        return ""
    stage = "stable" if gate.stage is Stage.GA else gate.stage.value.lower()
    return f"{stage}, {'**on**' if gate.default else 'off'}{', *locked*' if gate.locked else ''}"


def _here(name: str) -> str:
    if name in HONOURED:
        return HONOURED[name]
    if name in MOOT:
        return f"no effect: {MOOT[name]}"
    return f"always on: {PERMANENT[name]}" if name in PERMANENT else "always on"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
