"""The manifests of deploy/ against the code they deploy."""

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.options import load_options

from moorage.common.clock import SystemClock
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.client.kubeconfig import Connection
from moorage.scheduler.config import load_config
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.services import assemble_daemon
from moorage.scheduler.wiring.assembly import find_watched_kinds

DEPLOY = Path(__file__).parents[3] / "deploy"
WATCHING = {"list", "watch"}


def documents(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))]


def container() -> dict[str, Any]:
    spec: dict[str, Any] = documents("deployment.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    return spec


def watched_kinds() -> set[tuple[str, str]]:
    """Return group and plural of everything the default profile lists and watches, with groups of pods and without."""
    gates = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"

    async def work() -> set[tuple[str, str]]:
        connection = Connection("http://127.0.0.1:1", "a test")
        parts = assemble_daemon(load_options([gates]), connection, Instruments(CellRegistry(), SystemClock()))
        kinds = [BY_TYPE[kind] for kind in find_watched_kinds(parts.scheduler.objects)]
        return {(kind.api_version.rpartition("/")[0], kind.plural) for kind in kinds}

    return asyncio.run(work())


def test_role_allows_exactly_the_watches_of_the_default_profile() -> None:
    rules = documents("rbac.yaml")[0]["rules"]
    role_kinds = {
        (group, resource)
        for rule in rules
        if {*rule["verbs"]} >= WATCHING
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert role_kinds == watched_kinds()


def test_role_allows_the_conditions_of_groups() -> None:
    rules = documents("rbac.yaml")[0]["rules"]
    patched = {resource for rule in rules if rule["verbs"] == ["patch"] for resource in rule["resources"]}
    assert patched >= {"podgroups/status", "compositepodgroups/status"}, "conditions of composite groups come with 1.38"


def test_no_rule_is_for_everything() -> None:
    for document in documents("rbac.yaml"):
        for rule in document.get("rules", ()):
            assert "*" not in {*rule["verbs"], *rule["apiGroups"], *rule["resources"]}


def test_the_flags_are_understood() -> None:
    command, *flags = container()["args"]
    assert command == "scheduler"
    options = load_options([flag for flag in flags if not flag.startswith("--config=")])
    assert (options.serving.port, options.logging.verbosity) == (10259, 2)


def test_the_configuration_can_be_used_and_its_lease_may_be_written() -> None:
    config = load_config(documents("config-map.yaml")[0]["data"]["config.yaml"])
    assert [profile.scheduler_name for profile in config.profiles] == ["moorage"]
    lease = config.leader_election
    role = next(document for document in documents("rbac.yaml") if document["kind"] == "Role")
    assert role["metadata"]["namespace"] == lease.resource_namespace
    of_leases = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
    assert [rule.get("resourceNames") for rule in of_leases] == [None, [lease.resource_name]]


def test_the_container_may_do_as_little_as_possible() -> None:
    pod = documents("deployment.yaml")[0]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    security = container()["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_probes_use_public_paths(probe: str) -> None:
    request = container()[probe]["httpGet"]
    assert request["path"] in load_options([]).authorization.always_allow
    assert request["scheme"] == "HTTPS"


def test_the_chart_has_the_same_rules() -> None:
    chart = (DEPLOY / "helm/moorage/templates/rbac.yaml").read_text(encoding="utf-8")
    rules = chart[chart.index("rules:") : chart.index("  {{- with .Values.extraRules")]
    assert yaml.safe_load(rules)["rules"] == documents("rbac.yaml")[0]["rules"]


def test_the_chart_and_the_manifests_have_one_version() -> None:
    chart = documents("helm/moorage/Chart.yaml")[0]
    tag = documents("kustomization.yaml")[0]["images"][0]["newTag"]
    assert chart["appVersion"] == tag == chart["version"]


def test_memory_has_a_limit_and_the_chart_has_the_same() -> None:
    resources = container()["resources"]
    assert resources["limits"] == {"memory": "1Gi"}
    assert documents("helm/moorage/values.yaml")[0]["resources"] == resources


def test_the_network_policy_is_part_of_both_ways_to_install() -> None:
    policy = documents("network-policy.yaml")[0]["spec"]
    assert "network-policy.yaml" in documents("kustomization.yaml")[0]["resources"]
    assert policy["podSelector"] == documents("deployment.yaml")[0]["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [port["port"] for port in policy["ingress"][0]["ports"]] == [container()["ports"][0]["containerPort"]]
    chart = documents("helm/moorage/values.yaml")[0]["networkPolicy"]
    assert chart["enabled"]
    assert policy["ingress"][0]["from"] == chart["from"]
    assert [port["port"] for port in policy["egress"][1]["ports"]] == chart["apiServerPorts"]


LOCKS = ("requirements.lock", "requirements-build.lock")


def locked(name: str) -> dict[str, list[str]]:
    """Return the lines of each package in a lock file, by name."""
    packages: dict[str, list[str]] = {}
    package = ""
    for line in (DEPLOY.parent / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            package = re.split(r"[=\[]", line)[0]
        packages.setdefault(package, []).append(line)
    return packages


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_the_image_is_locked_by_hash(name: str) -> None:
    for lines in locked(name).values():
        assert "==" in lines[0]
        assert any("--hash=sha256:" in line for line in lines[1:])
        assert not any("://" in line or "index-url" in line for line in lines), "no registry is named"


def test_lock_file_contains_the_dependencies() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))
    dependencies = {re.split(r"[<>=\[; ]", line)[0] for line in project["project"]["dependencies"]}
    assert dependencies <= locked("requirements.lock").keys(), "run `make lock`"
    assert {*project["build-system"]["requires"]} <= locked("requirements-build.lock").keys()


def test_image_installs_only_locked_packages() -> None:
    text = (DEPLOY.parent / "Dockerfile").read_text(encoding="utf-8")
    downloads = [line for line in text.splitlines() if "pip install" in line or "pip download" in line]
    assert downloads
    assert all("--require-hashes" in line or "--no-index" in line for line in downloads)
    ignored = (DEPLOY.parent / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in LOCKS} <= {*ignored}


GOLDENS = sorted((DEPLOY.parent / "tests/live/goldens").glob("chart-*.yaml"))


@pytest.mark.parametrize("path", [DEPLOY / "deployment.yaml", *GOLDENS], ids=lambda path: path.stem)
def test_configuration_file_is_in_the_mounted_config_map(path: Path) -> None:
    objects = [*yaml.safe_load_all(path.read_text(encoding="utf-8")), *documents("config-map.yaml")]
    (pod,) = (item["spec"]["template"]["spec"] for item in objects if item and item["kind"] == "Deployment")
    (main,) = pod["containers"]
    arguments = [*main.get("command", ()), *main.get("args", ())]
    (file,) = (argument.removeprefix("--config=") for argument in arguments if argument.startswith("--config="))
    (mount,) = (mount for mount in main["volumeMounts"] if file.startswith(f"{mount['mountPath']}/"))
    (name,) = (volume["configMap"]["name"] for volume in pod["volumes"] if volume["name"] == mount["name"])
    config_map = next(item for item in objects if item["kind"] == "ConfigMap" and item["metadata"]["name"] == name)
    assert file.removeprefix(f"{mount['mountPath']}/") in config_map["data"]
