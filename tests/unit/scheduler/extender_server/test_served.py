"""The parts of a configuration that an extender serves, and the rejected parts with the reason."""

from typing import Any

import msgspec
import pytest
import yaml

from moorage import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.common.errors import ConfigError
from moorage.scheduler.config import ExtenderConfig, ExtensionPoint, expand_plugins, load_config
from moorage.scheduler.extender_server.served import Served, Verbs, select_served, write_stanza
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.registry import extension_points
from moorage.scheduler.wiring.policy import collect_plugins, load_policy


class Answers:
    """Returns None from every method."""

    def less(self, left: Any, right: Any) -> bool:
        return False

    def pre_enqueue(self, pod: Any) -> Any: ...
    def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> Any: ...
    def filter(self, cycle: Any, pod: Any, node: Any) -> Any: ...
    async def post_filter(self, cycle: Any, pod: Any, statuses: Any) -> Any: ...
    def score(self, cycle: Any, pod: Any, node: Any) -> Any:
        return 1

    def reserve(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...
    def unreserve(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...
    def permit(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...
    def pre_bind_pre_flight(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...
    async def pre_bind(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...
    async def bind(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...
    async def post_bind(self, cycle: Any, pod: Any, node_name: Any) -> Any: ...


def plugin(name: str, *bases: type[Plugin], **members: Any) -> type[Plugin]:
    return type(name, (Answers, *bases), {"name": name, **members})


def serve(*plugins: type[Plugin], config: str | None = None, profile: str = "") -> Served:
    policy = load_policy(collect_plugins(plugins), config, enabled=plugins)
    return select_served(policy, [each.name for each in plugins], profile)


VERBS = {
    "a filter": ((FilterPlugin,), Verbs(True, False, False)),
    "a pre-filter": ((PreFilterPlugin,), Verbs(True, False, False)),
    "a score": ((ScorePlugin,), Verbs(False, True, False)),
    "a filter that scores, too": ((FilterPlugin, ScorePlugin), Verbs(True, True, False)),
    "one that binds": ((BindPlugin,), Verbs(False, False, True)),
    "one that binds and is notified": ((BindPlugin, PostBindPlugin), Verbs(False, False, True)),
}


@pytest.mark.parametrize(("bases", "verbs"), VERBS.values(), ids=VERBS)
def test_only_supported_verbs_are_configured(bases: tuple[type[Plugin], ...], verbs: Verbs) -> None:
    assert serve(plugin("Mine", *bases)).verbs == verbs


REFUSED = {
    "reserve": (ReservePlugin, "does not notify extenders of the chosen node"),
    "permit": (PermitPlugin, "does not let extenders hold a pod back"),
    "pre-bind": (PreBindPlugin, "does not notify extenders before a binding"),
    "queue sort": (QueueSortPlugin, "orders its own queue"),
    "pre-enqueue": (PreEnqueuePlugin, "not before a pod is queued"),
    "post-filter": (PostFilterPlugin, "selects victims itself"),
    "post-bind alone": (PostBindPlugin, "does not notify it of bindings"),
}


@pytest.mark.parametrize(("base", "reason"), REFUSED.values(), ids=REFUSED)
def test_plugins_without_a_verb_are_rejected_with_the_reason(base: type[Plugin], reason: str) -> None:
    plugin_type = plugin("Mine", base, FilterPlugin)
    with pytest.raises(ConfigError) as refusal:
        serve(plugin_type)
    point = next(iter(extension_points(plugin_type) - {"filter"}))
    assert f"--plugin Mine: an extender does not support {point}: " in str(refusal.value)
    assert reason in str(refusal.value)
    assert "\n  hint: " in str(refusal.value)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as refusal:
        serve(plugin("One", ReservePlugin, PermitPlugin), plugin("Two", PreBindPlugin))
    assert [line.rpartition(":")[0] for line in str(refusal.value).splitlines() if "does not support" in line] == [
        "--plugin One: an extender does not support reserve",
        "--plugin One: an extender does not support permit",
        "--plugin Two: an extender does not support preBind",
    ]


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def test_configuration_may_disable_unsupported_plugins() -> None:
    config = HEAD + "profiles: [{plugins: {filter: {enabled: [{name: Mine}]}}}]\n"
    assert serve(plugin("Mine", FilterPlugin, ReservePlugin), config=config).verbs == Verbs(True, False, False)


def test_weights_and_arguments_come_from_the_configuration_and_no_other_plugin_runs() -> None:
    class MineArgs(msgspec.Struct, frozen=True):
        label: str = "a"

    plugin_type = plugin("Mine", FilterPlugin, ScorePlugin, Args=MineArgs)
    config = HEAD + (
        "profiles: [{schedulerName: other, plugins: {multiPoint: {enabled: [{name: Mine, weight: 3}]}},"
        " pluginConfig: [{name: Mine, args: {label: b}}]}]\n"
    )
    served = serve(plugin_type, config=config)
    (profile,) = served.policy.config.profiles
    enabled = expand_plugins(profile, lambda name: extension_points(served.policy.registry[name]))
    assert profile.scheduler_name == "other"
    assert profile.find_args("Mine") == MineArgs("b")
    assert enabled.score_weights == {"Mine": 3}
    assert enabled[ExtensionPoint.FILTER] == enabled[ExtensionPoint.SCORE] == ("Mine",)


def test_a_plugin_that_the_configuration_does_not_enable_is_rejected() -> None:
    with pytest.raises(ConfigError, match="--plugin Mine: the configuration does not enable it"):
        serve(plugin("Mine", FilterPlugin), config=HEAD)


def test_one_of_several_profiles_must_be_named() -> None:
    plugin_type = plugin("Mine", FilterPlugin)
    enabling = "plugins: {filter: {enabled: [{name: Mine}]}}"
    config = HEAD + f"profiles: [{{schedulerName: one, {enabling}}}, {{schedulerName: two, {enabling}}}]\n"
    with pytest.raises(ConfigError, match="select the profile to serve: one, two"):
        serve(plugin_type, config=config)
    with pytest.raises(ConfigError, match="did you mean 'two'"):
        serve(plugin_type, config=config, profile="twoo")
    assert serve(plugin_type, config=config, profile="two").policy.config.profiles[0].scheduler_name == "two"


def extender_in(text: str) -> ExtenderConfig:
    """Parse a stanza as kube-scheduler does: unknown fields are errors."""
    (extender,) = load_config(f"{HEAD}{text}").extenders
    return extender


def test_the_stanza_can_be_pasted() -> None:
    served = serve(plugin("Mine", FilterPlugin, ScorePlugin))
    extender = extender_in(write_stanza(served, "http://127.0.0.1:8890"))
    assert (extender.filter_verb, extender.preempt_verb, extender.prioritize_verb) == (
        "filter",
        "preempt",
        "prioritize",
    )
    assert (extender.weight, extender.bind_verb, extender.node_cache_capable) == (1, "", True)


def test_the_stanza_of_a_secured_extender_names_certificates() -> None:
    text = write_stanza(serve(plugin("Mine", BindPlugin)), "https://here:1", wants_certificate=True)
    extender = yaml.safe_load(text)["extenders"][0]
    assert extender["enableHTTPS"] is True
    assert sorted(extender["tlsConfig"]) == ["caFile", "certFile", "keyFile"]
    assert extender["bindVerb"] == "bind"
    assert "filterVerb" not in extender
    assert "weight" not in extender
