"""The role of deploy/ allows each request of the scheduler, and nothing else.

The scheduler runs as the service account of deploy/, with scenarios of all kinds of writes and all feature gates. The
audit log of kube-apiserver has its requests.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from moorage.kube.client.rest import ApiClient
from tests.live.controllers import CONTROLLERS, controller_manager
from tests.live.scenarios import devices, groups, preempting, volumes, waiting
from tests.live.scenarios.combinations import CONFIGURATION, SERVED, WORKLOADS, Stage, gate_flags, make_stage
from tests.live.scenarios.scene import Scene
from tests.live.scheduler import scheduler
from tests.live.serving import page
from tests.support.control_plane import ROOT, ControlPlane, control_plane, free_ports

Right: TypeAlias = tuple[str, str, str]
"""A group, a resource and a verb."""

GATES: Final = (
    "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,"
    "DRADeviceTaintRules=true,DRAExtendedResource=true,CoordinatedLeaderElection=true"
)
SERVED_TOO: Final = f"{SERVED},coordination.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"
ACCOUNT: Final = "system:serviceaccount:kube-system:moorage"
SCENARIOS: Final = (
    waiting.infeasible_pod_is_reported_and_bound_after_a_node_joins,
    preempting.victim_is_evicted_for_the_preemptor,
    volumes.waiting_claim_is_bound_on_a_feasible_node,
    volumes.volume_is_provisioned_on_the_node_of_the_pod,
    devices.claim_is_allocated_on_the_node_of_the_device,
    devices.device_provides_an_extended_resource,
    groups.infeasible_gang_starts_no_pods,
)

#: Rights that the audit log cannot show, each with its reason.
UNSEEN: Final[dict[Right, str]] = {
    **dict.fromkeys(
        (
            ("", "pods", "get"),
            ("", "persistentvolumes", "get"),
            ("", "persistentvolumeclaims", "get"),
            ("resource.k8s.io", "resourceclaims", "get"),
            ("scheduling.k8s.io", "podgroups", "get"),
        ),
        "reads an object if the response of a write was lost, or a write was rejected",
    ),
    ("scheduling.k8s.io", "compositepodgroups/status", "patch"): "writes conditions of composite groups, from 1.38",
    ("resource.k8s.io", "resourceclaims/binding", "patch"): "checked by the admission of resourceclaims/status",
    ("coordination.k8s.io", "leasecandidates", "update"): "renews the candidate after minutes, or when it is pinged",
    ("", "events", "create"): "events about the scheduler itself, such as its leadership, are core events",
    ("", "events", "patch"): "counts repeated core events",
    ("events.k8s.io", "events", "patch"): "counts events that repeat for half an hour",
    ("resource.k8s.io", "resourceclaims", "delete"): "deletes the claim of an extended resource if a binding fails",
}


def test_role_has_exactly_the_used_rights(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    with audited(tmp_path, log) as (plane, stage):
        use(plane, stage, tmp_path)
        events = [msgspec.json.decode(line) for line in log.read_text().splitlines()]
    requests = [event for event in events if event["user"]["username"] == ACCOUNT and "objectRef" in event]
    refused = {get_permission(event) for event in requests if event.get("responseStatus", {}).get("code") == 403}
    used = {get_permission(event) for event in requests}
    granted = {*granted_rights()}
    unused, lost = granted - used - UNSEEN.keys(), UNSEEN.keys() - granted
    assert not refused, f"the role does not allow {sorted(refused)}"
    assert not unused, f"the scheduler does not use {sorted(unused)}"
    assert not lost, f"the role no longer has {sorted(lost)}"


def get_permission(event: dict[str, Any]) -> Right:
    """Return the right that a request needs."""
    reference = event["objectRef"]
    resource = "/".join(filter(None, (reference["resource"], reference.get("subresource", ""))))
    return reference.get("apiGroup", ""), resource, event["verb"]


def granted_rights() -> Iterator[Right]:
    """Return the rights of the role and of the cluster role."""
    for obj in yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text()):
        for rule in obj.get("rules", ()):
            for group in rule["apiGroups"]:
                yield from ((group, resource, verb) for resource in rule["resources"] for verb in rule["verbs"])


@contextmanager
def audited(directory: Path, log: Path) -> Iterator[tuple[ControlPlane, Stage]]:
    """Run a control plane that records the requests of the service account."""
    policy = directory / "policy.yaml"
    rules = [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    flags = gate_flags(GATES)
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking-strict")
    with (
        control_plane(*flags, SERVED_TOO, *audit) as plane,
        controller_manager(plane, *CONTROLLERS, *WORKLOADS, "podgroup-protection-controller", flags=flags),
        make_stage(plane) as prepared,
    ):
        for file in ("service-account.yaml", "rbac.yaml"):
            kubectl(plane, "apply", "-f", str(ROOT / "deploy" / file))
        plane.tokens["moorage"] = kubectl(plane, "create", "token", "moorage", "-n", "kube-system").strip()
        yield plane, prepared


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(plane.programs / "kubectl"), f"--kubeconfig={plane.kubeconfig()}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def use(plane: ControlPlane, prepared: Stage, directory: Path) -> None:
    """Schedule, elect a leader in both ways, and serve metrics."""
    kubeconfig, config = plane.kubeconfig("moorage"), directory / "config.yaml"
    settings = yaml.safe_load(CONFIGURATION.format(kubeconfig=kubeconfig, name="default-scheduler"))
    settings["leaderElection"] = {"leaderElect": True, "resourceName": "moorage", "resourceNamespace": "kube-system"}
    config.write_text(yaml.safe_dump(settings))
    (port,) = free_ports(1)
    flags = [f"--config={config}", f"--secure-port={port}", "--leader-elect=true"]
    flags += [f"--{purpose}-kubeconfig={kubeconfig}" for purpose in ("authentication", "authorization")]

    async def play(client: ApiClient) -> None:
        for number, scenario in enumerate(SCENARIOS):
            async with Scene(client, f"permissions-{number}") as scene:
                await scenario(scene)

    without_election = GATES.replace("CoordinatedLeaderElection=true", "CoordinatedLeaderElection=false")
    with scheduler(kubeconfig, *flags, *gate_flags(without_election), leader_elect=True) as process:
        prepared.run(play)
        assert page(port, "/metrics", plane.tokens["moorage"]) == "403"
        assert process.stop() == 0
        assert "forbidden" not in process.log.lower()
    with scheduler(kubeconfig, *flags, *gate_flags(GATES), leader_elect=True) as process:
        asyncio.run(process.logged("became leader"))
        assert process.stop() == 0
        assert "forbidden" not in process.log.lower()
