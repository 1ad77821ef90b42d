"""Problems that upstream reports when it builds the scheduler."""

from typing import Any

import pytest
from tests.support.configurations import enabling, problems, profile

BUILDING = {
    "a plugin that does not exist": (
        {"profiles": [profile(plugins=enabling("filter", "NodeNam"))]},
        ["profiles[0].plugins.filter.enabled[0]: no plugin is named 'NodeNam'"],
    ),
    "a plugin that cannot do what it is enabled for": (
        {"profiles": [profile(plugins=enabling("score", "NodeName"))]},
        ['profiles[0].plugins.score.enabled[0]: plugin "NodeName" does not extend ScorePlugin plugin'],
    ),
    "a plugin enabled twice": (
        {"profiles": [profile(plugins=enabling("multiPoint", "NodeName", "NodeName"))]},
        ['profiles[0].plugins.multiPoint: plugin "NodeName" already registered as "PreFilterPlugin"'],
    ),
    "nothing left that sorts or binds": (
        {"profiles": [profile(plugins={"multiPoint": {"disabled": [{"name": "*"}]}})]},
        [
            'profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "a", '
            "but got 0",
            'profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "a"',
        ],
    ),
    "plugins named only by podGroupPostFilter get no default arguments": (
        {
            "profiles": [
                profile(
                    plugins={
                        **enabling("podGroupPostFilter", "DefaultPreemption"),
                        "multiPoint": {"disabled": [{"name": "DefaultPreemption"}]},
                    }
                )
            ]
        },
        [
            'profiles[0].pluginConfig: initializing plugin "DefaultPreemption": got args of type <nil>, '
            "want *DefaultPreemptionArgs"
        ],
    ),
    "a resource hidden by an extender from a plugin that is not there": (
        {
            "extenders": [{"managedResources": [{"name": "example.com/x", "ignoredByScheduler": True}]}],
            "profiles": [profile(plugins={"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}})],
        },
        ["extenders: can't find NodeResourcesFitArgs in plugin config"],
    ),
}


@pytest.mark.parametrize(("fields", "want"), BUILDING.values(), ids=BUILDING)
def test_refused(fields: dict[str, Any], want: list[str]) -> None:
    assert problems(fields) == want
