"""Optional services that flags select."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.fault_server import FaultServer
from tests.support.options import load_options

from moorage.common.clock import SystemClock, VirtualClock
from moorage.common.errors import InputError
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import Informers
from moorage.kube.client.kubeconfig import Connection
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.services import DecisionLogService, TracingService, assemble_daemon, own_services
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.wiring.assembly import find_watched_kinds

SELECTED = {
    "no flag": ([], []),
    "the decision log": (["--decision-log=lines"], [DecisionLogService]),
    "tracing": (["--tracing-endpoint=http://localhost:4318"], [TracingService]),
}


@pytest.mark.parametrize(("flags", "services"), SELECTED.values(), ids=SELECTED)
def test_flags_select_services(flags: list[str], services: list[object]) -> None:
    assert [*own_services(load_options(flags))] == services


def test_limits_of_the_decision_log_are_checked() -> None:
    options = load_options(["--decision-log=lines", "--decision-log-max-size=1Ki"])
    with pytest.raises(InputError, match="--decision-log-max-size: 1024 bytes is too small"):
        DecisionLogService(options, Instruments(CellRegistry(), VirtualClock()))


QUOTAS = custom_kind("Allowance", "allowances", "watching.example.org/v1")
CORE = {"/api/v1/nodes", "/api/v1/pods"}
FIT_ONLY = {
    "multiPoint": {"enabled": [{"name": "NodeResourcesFit"}], "disabled": [{"name": "*"}]},
    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
    "bind": {"enabled": [{"name": "DefaultBinder"}]},
}


class AllowancePlugin(FilterPlugin):
    """Looks at a custom resource."""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.allowances = handle.lister(QUOTAS.type)

    def filter(self, cycle: CycleState, pod: Any, node: NodeInfo) -> Status | None:
        return None


def asked(directory: Path, plugins: dict[str, Any], *flags: str) -> tuple[set[str], set[str]]:
    """Return the lists and watches of a profile on a server."""
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**kind, "profiles": [profile]}))
    clock = VirtualClock()
    server = FaultServer(clock)

    async def main() -> None:
        options = load_options([f"--config={path}", *flags])
        connection = Connection("http://127.0.0.1:1", "a test")
        parts = assemble_daemon(options, connection, Instruments(CellRegistry(), SystemClock()))
        informers = Informers(
            server.client(), find_watched_kinds(parts.scheduler.objects), lambda _kind, _changes: None
        )
        running = asyncio.create_task(informers.run())
        await informers.synced()
        await asyncio.sleep(1)
        running.cancel()
        parts.close()

    run_virtual(main(), clock)
    lists = {request.path for request in server.requests if "watch" not in request.query}
    return lists, {request.path for request in server.requests if "watch" in request.query}


def test_default_profile_watches_the_resources_of_its_plugins(tmp_path: Path) -> None:
    lists, watches = asked(tmp_path, {})
    assert lists == watches
    assert {path.rpartition("/")[2] for path in lists} == {
        *("nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims", "storageclasses"),
        *("csinodes", "csidrivers", "csistoragecapacities", "volumeattachments", "poddisruptionbudgets"),
        *("services", "replicationcontrollers", "replicasets", "statefulsets"),
        *("resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"),
    }


def test_reduced_profile_watches_fewer_resources(tmp_path: Path) -> None:
    lists, watches = asked(tmp_path, FIT_ONLY)
    assert lists == watches
    assert lists <= CORE | {"/apis/resource.k8s.io/v1/deviceclasses"}
    assert lists >= CORE


def test_custom_resource_is_watched_before_its_definition_exists(tmp_path: Path) -> None:
    plugins = {**FIT_ONLY, "filter": {"enabled": [{"name": "AllowancePlugin"}]}}
    lists, watches = asked(tmp_path, plugins, f"--plugin={__name__}:AllowancePlugin")
    assert lists - watches == {QUOTAS.path()}, "a resource that is not there is listed until it is"


@pytest.mark.parametrize("verb", ["lists", "watches"])
def test_only_unfinished_pods_are_watched(tmp_path: Path, verb: str) -> None:
    clock = VirtualClock()
    server = FaultServer(clock)

    async def main() -> None:
        informers = Informers(server.client(), [Pod], lambda _kind, _changes: None)
        running = asyncio.create_task(informers.run())
        await informers.synced()
        await asyncio.sleep(1)
        running.cancel()

    run_virtual(main(), clock)
    queries = [request.query for request in server.requests if ("watch" in request.query) == (verb == "watches")]
    assert [query["fieldSelector"] for query in queries] == ["status.phase!=Succeeded,status.phase!=Failed"]
