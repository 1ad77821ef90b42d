"""One way to collect plugins and to read a configuration."""

import json
from collections.abc import Callable, MutableMapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.options import load_options

from moorage.cli.main import run
from moorage.common.errors import ConfigError, ConfigErrors, MoorageError
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import ExtensionPoint, expand_plugins
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import BindPlugin, FilterPlugin, PreBindPlugin, QueueSortPlugin, ReservePlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import build_catalogue, collect_plugins, keep_fixed_fields, load_policy
from moorage.testing import Cluster

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Picky(FilterPlugin):
    def filter(self, cycle: CycleState, pod: Any, node: NodeInfo) -> Status | None:
        return Status.unschedulable("no")


def enabled(policy: Any) -> list[str]:
    return [item.name for item in policy.config.profiles[0].plugins.multi_point.enabled]


def test_in_tree_plugins_are_always_registered() -> None:
    assert {plugin.name for plugin in IN_TREE} <= set(collect_plugins())


def test_plugins_are_registered_as_classes_and_by_path() -> None:
    path = f"{__name__}:Picky"
    assert collect_plugins([Picky])["Picky"] is Picky
    assert collect_plugins(paths=[path])["Picky"] is Picky
    assert len(collect_plugins([Picky, Picky], paths=[path])) == len(collect_plugins()) + 1


def test_an_invalid_path_is_an_error() -> None:
    with pytest.raises(ConfigError, match="Picki"):
        collect_plugins(paths=[f"{__name__}:Picki"])


def test_the_catalog_contains_registered_plugins_and_their_points() -> None:
    assert build_catalogue(collect_plugins([Picky]))["Picky"].points == {"filter"}


def test_passed_plugins_are_enabled_without_a_configuration() -> None:
    registry = collect_plugins([Picky])
    assert "Picky" not in enabled(load_policy(registry))
    assert enabled(load_policy(registry, enabled=[Picky]))[-1] == "Picky"


def test_a_configuration_may_be_text_or_a_file(tmp_path: Path) -> None:
    text = yaml.safe_dump({**HEAD, "profiles": [{"schedulerName": "mine"}]})
    (tmp_path / "config.yaml").write_text(text)
    for config in (text, tmp_path / "config.yaml"):
        policy = load_policy(collect_plugins([Picky]), config, enabled=[Picky])
        assert policy.config.profiles[0].scheduler_name == "mine"
        assert "Picky" not in enabled(policy), "a configuration says itself what runs"


def test_feature_gates_are_part_of_the_policy() -> None:
    gates = FeatureGates({"SchedulerAsyncPreemption": False})
    assert load_policy(collect_plugins(), features=gates).features is gates


def test_an_unregistered_plugin_cannot_be_configured() -> None:
    profile = {"schedulerName": "mine", "plugins": {"filter": {"enabled": [{"name": "Picky"}]}}}
    with pytest.raises(MoorageError, match="Picky"):
        load_policy(collect_plugins(), yaml.safe_dump({**HEAD, "profiles": [profile]}))


class ByName(QueueSortPlugin):
    def sort_key(self, queued: Any) -> Any:
        return queued.pod.name


def test_a_passed_queue_sort_plugin_replaces_the_default() -> None:
    policy = load_policy(collect_plugins([ByName, Picky]), enabled=[ByName, Picky])
    plugins = policy.config.profiles[0].plugins
    assert plugins is not None
    assert [item.name for item in plugins.queue_sort.enabled] == ["ByName"]
    assert [item.name for item in plugins.queue_sort.disabled] == ["*"]
    assert enabled(policy)[-2:] == ["ByName", "Picky"]


def test_arguments_of_an_unknown_plugin_are_logged(logged: list[MutableMapping[str, Any]]) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    load_policy(collect_plugins(), head + "profiles: [{pluginConfig: [{name: NodeAfinity, args: {}}]}]\n")
    warned = [line for line in logged if line["event"] == "arguments for an unknown plugin"]
    assert [(line["where"], line["plugin"], line["hint"]) for line in warned] == [
        ("profiles[0].pluginConfig[0]", "NodeAfinity", "did you mean 'NodeAffinity'?")
    ]


class Booked(FilterPlugin, ReservePlugin, PreBindPlugin):
    """Filters by its reservations."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        return

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


BOOKED = {"enabled": [{"name": "Booked"}]}
PARTLY_ENABLED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "only the filter": ({"filter": BOOKED}, ["reserve", "preBind"]),
    "without preBind": ({"filter": BOOKED, "reserve": BOOKED}, ["preBind"]),
    "everywhere": ({"multiPoint": BOOKED}, []),
    "disabled explicitly": (
        {"multiPoint": BOOKED, "reserve": {"disabled": [{"name": "Booked"}]}, "preBind": {"disabled": [{"name": "*"}]}},
        [],
    ),
    "without the filter": ({"reserve": BOOKED}, []),
}


@pytest.mark.parametrize(("plugins", "missing"), PARTLY_ENABLED.values(), ids=PARTLY_ENABLED)
def test_plugin_without_enabled_bookkeeping_is_logged(
    plugins: dict[str, Any], missing: list[str], logged: list[MutableMapping[str, Any]]
) -> None:
    load_policy(collect_plugins([Booked]), json.dumps({**HEAD, "profiles": [{"plugins": plugins}]}))
    warnings = [line for line in logged if line["event"] == "a plugin is only partly enabled"]
    assert [line["missing"] for line in warnings] == ([missing] if missing else [])


LACKED = "ImageLocality"
PROBLEM = f"profiles[0].plugins: {LACKED} is enabled, and is a plugin of kube-scheduler that Moorage does not have"
HEAD_LINES = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WITHOUT = f"profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: {LACKED}}}]}}}}}}]"


@pytest.fixture
def _lack_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    remaining = tuple(plugin for plugin in IN_TREE if plugin.name != LACKED)
    monkeypatch.setattr("moorage.scheduler.wiring.policy.IN_TREE", remaining)


COMMANDS = {
    "simulate": ["simulate", "-f", "{cluster}"],
    "simulate --one-pass": ["simulate", "-f", "{cluster}", "--one-pass"],
    "up": ["up", "--for", "1s", "--nodes", "1"],
    "config check": ["config", "check", "{config}"],
}


@pytest.mark.usefixtures("_lack_a_plugin")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_report_a_missing_plugin(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, cluster = tmp_path / "config.yaml", tmp_path / "cluster.yaml"
    config.write_text(HEAD_LINES)
    cluster.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n")

    assert run([part.format(config=config, cluster=cluster) for part in command]) == 2
    printed = capsys.readouterr()
    assert PROBLEM in printed.err
    assert printed.out == ""


BUILDERS: dict[str, Callable[[], object]] = {
    "the scheduler": lambda: load_options([]),
    "testing.Cluster": lambda: Cluster(nodes=1),
    "a policy": lambda: load_policy(collect_plugins()),
}


@pytest.mark.usefixtures("_lack_a_plugin")
@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_programs_report_a_missing_plugin(build: Callable[[], object]) -> None:
    with pytest.raises(ConfigErrors, match=f"{LACKED} is enabled"):
        build()


@pytest.mark.usefixtures("_lack_a_plugin")
def test_disabled_plugins_are_not_required() -> None:
    load_policy(collect_plugins(), HEAD_LINES + WITHOUT)


@pytest.mark.usefixtures("_lack_a_plugin")
def test_a_configuration_with_missing_plugins_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "view", "-o", "json"]) == 0
    assert LACKED in json.dumps(json.loads(capsys.readouterr().out))


def test_fixed_fields_keep_their_running_values() -> None:
    running = load_policy(collect_plugins(), HEAD_LINES + "clientConnection: {qps: 7}\n").config
    new = load_policy(
        collect_plugins(), HEAD_LINES + "leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 9\n"
    )
    policy, differing = keep_fixed_fields(new, running)
    assert differing == ["leaderElection", "clientConnection"]
    assert policy.config.client_connection.qps == 7
    assert policy.config.leader_election.leader_elect
    assert policy.config.percentage_of_nodes_to_score == 9


def test_installed_plugins_are_registered_unless_they_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = EntryPoint("picky", f"{__name__}:Picky", "moorage.scheduler.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [installed])
    assert "Picky" in collect_plugins()
    assert "Picky" not in collect_plugins(with_installed=False)


def test_installed_package_is_imported_only_if_its_plugin_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("Broken", "nowhere_at_all:Broken", "moorage.scheduler.plugins")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [broken])
    load_policy(collect_plugins())
    enabled = "profiles: [{plugins: {filter: {enabled: [{name: Broken}]}}}]\n"
    with pytest.raises(ConfigError, match="entry point Broken of nowhere_at_all:Broken: cannot be imported"):
        load_policy(collect_plugins(), HEAD_LINES + enabled)


class Binds(BindPlugin):
    async def bind(self, cycle: CycleState, pod: Any, node_name: str) -> Status | None:
        return None


def test_a_passed_bind_plugin_runs_before_the_default() -> None:
    policy = load_policy(collect_plugins([Picky, Binds]), enabled=[Picky, Binds])
    profile = policy.config.profiles[0]
    catalogue = build_catalogue(policy.registry)
    assert expand_plugins(profile, lambda name: catalogue[name].points)[ExtensionPoint.BIND] == (
        "Binds",
        "DefaultBinder",
    )
