"""Values that cannot be decoded, and the errors about them."""

import pytest

from moorage.common.errors import ConfigError, ConfigErrors
from moorage.scheduler.config import (
    load_config,
)

API_VERSION, KIND = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
HEADER = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"

NOT_DECODED = {
    "an unknown field": (HEADER + "parallelsm: 3", ["parallelsm: unknown field", "did you mean 'parallelism'?"]),
    "an unknown field that resembles none lists those there are": (
        HEADER + "profiles: [{plugins: {filter: {zzz: 1}}}]",
        ["profiles[0].plugins.filter.zzz: unknown field", "the fields here are disabled, enabled"],
    ),
    "a field of another case": (HEADER + "Parallelism: 3", ["Parallelism: unknown field"]),
    "an unknown argument": (
        HEADER + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrateg: {}}}]}]",
        ["profiles[0].pluginConfig[0].args.scoringStrateg: unknown field", "did you mean 'scoringStrategy'?"],
    ),
    "a field twice": (
        HEADER + "parallelism: 3\nparallelism: 4",
        ["parallelism: duplicate field, repeated on line 4", "keep one of them"],
    ),
    "a nested field twice": (
        HEADER + "profiles:\n- schedulerName: a\n  schedulerName: b",
        ["profiles[0].schedulerName: duplicate field, repeated on line 5"],
    ),
    "a text for a number": (HEADER + "parallelism: abc", ["parallelism: expected an integer", 'found "abc"']),
    "a number that is too large": (
        HEADER + "parallelism: 3000000000",
        ["parallelism: expected an integer from -2147483648 to 2147483647, found 3000000000"],
    ),
    "a number for a text": (
        HEADER + "profiles: [{schedulerName: 12}]",
        ["profiles[0].schedulerName: expected a string, found 12", "put it in quotes"],
    ),
    "YAML's short bool for a text": (
        HEADER + "profiles: [{schedulerName: y}]",
        ["profiles[0].schedulerName: expected a string, found true", "put it in quotes"],
    ),
    "a text for a bool": (HEADER + "enableProfiling: maybe", ["enableProfiling: expected true or false"]),
    "a mapping for a list": (HEADER + "profiles: {}\nextenders: {a: 1}", ["extenders: expected a list"]),
    "a list for a mapping": (HEADER + "leaderElection: []", ["leaderElection: expected a mapping of fields, found []"]),
    "a number for a duration": (
        HEADER + "leaderElection: {leaseDuration: 15}",
        ["leaderElection.leaseDuration: expected a duration with its unit"],
    ),
    "a duration of an unknown unit": (
        HEADER + "leaderElection: {leaseDuration: 15x}",
        ['leaderElection.leaseDuration: time: unknown unit "x" in duration "15x"'],
    ),
    "arguments of another plugin": (
        HEADER + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: VolumeBindingArgs}}]}]",
        [
            "profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type "
            "NodeAffinityArgs.kubescheduler.config.k8s.io, got VolumeBindingArgs.kubescheduler.config.k8s.io"
        ],
    ),
    "arguments of another version": (
        HEADER + f"profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {{apiVersion: {API_VERSION}beta3}}}}]}}]",
        ['no kind "NodeAffinityArgs" is registered for version "kubescheduler.config.k8s.io/v1beta3"'],
    ),
    "arguments of another type": (
        HEADER + "profiles: [{pluginConfig: [{name: NodeAffinity, args: 3}]}]",
        ["profiles[0].pluginConfig[0].args: expected a mapping of fields, found 3"],
    ),
    "several mistakes together": (
        HEADER + "parallelism: abc\nparalelism: 1\nleaderElection: {leaseDuration: 1}",
        ["parallelism: expected", "paralelism: unknown field", "leaderElection.leaseDuration: expected"],
    ),
    "values of the wrong type do not hide invalid ones elsewhere": (
        HEADER + "parallelism: many\npodInitialBackoffSeconds: -1\n"
        "profiles: [{percentageOfNodesToScore: 500, plugins: {filter: {enabled: [{name: Nope}]}}}]",
        [
            "parallelism: expected an integer",
            "podInitialBackoffSeconds: Invalid value: -1",
            "profiles[0].percentageOfNodesToScore: Invalid value: 500",
            "no plugin is named 'Nope'",
        ],
    ),
    "unknown fields do not hide invalid values": (
        HEADER + "parallelism: -1\nparalelism: 1",
        ["paralelism: unknown field", "parallelism: Invalid value: -1"],
    ),
    "no kind": (f"apiVersion: {API_VERSION}", ["Object 'Kind' is missing", f"write apiVersion: {API_VERSION}"]),
    "no apiVersion": (f"kind: {KIND}", ["Object 'apiVersion' is missing"]),
    "another kind": ("apiVersion: v1\nkind: Pod", [f"couldn't decode as {KIND}, got v1, Kind=Pod"]),
    "a misspelt kind": (f"apiVersion: {API_VERSION}\nkind: KubeSchedulerConfig", [f"did you mean '{KIND}'?"]),
    "an empty file": ("", [f"expected a {KIND}, found nothing"]),
    "a list": ("- a", [f"expected a {KIND}, found a list"]),
    "no YAML": ("a: [b\nc: d", ["the configuration, line 2, column 2: invalid YAML"]),
    "a tab in YAML": ("a:\n\tb: 1", ["the configuration, line 2, column 1: invalid YAML"]),
    "a character that YAML forbids": ("a: \x00", ["the configuration: invalid YAML"]),
}


@pytest.mark.parametrize(("text", "expected"), NOT_DECODED.values(), ids=NOT_DECODED)
def test_not_decoded(text: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config(text)
    assert [part for part in expected if part not in str(refusal.value)] == []


NEAR = {
    "next to an invalid value": HEADER + "leaderElection: {leaseDuration: 5, renewDeadline: 20s}",
    "after an element that could not be read": HEADER
    + "extenders: [3, {urlPrefix: 'http://a', filterVerb: f, weight: -1, prioritizeVerb: p}]",
    "after arguments that could not be read": HEADER
    + "profiles: [{pluginConfig: [{name: NodeAffinity, args: 3},"
    + "{name: InterPodAffinity, args: {hardPodAffinityWeight: 900}}]}]",
    "of profiles when none could be read": HEADER + "profiles: [3]",
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_values_next_to_an_unreadable_value_are_not_reported(text: str) -> None:
    with pytest.raises(ConfigErrors) as refusal:
        load_config(text)
    assert len(refusal.value.errors) == 1


DECODED = {
    "JSON with tabs": f'{{\n\t"apiVersion": "{API_VERSION}",\n\t"kind": "{KIND}",\n\t"parallelism": 3}}',
    "only the first document counts": HEADER + "parallelism: 3\n---\njunk: true",
    "merge keys": HEADER + "parallelism: 3\nprofiles:\n- &a {schedulerName: a}\n- {<<: *a, schedulerName: b}",
    "a date is a text": HEADER + "parallelism: 3\nprofiles: [{schedulerName: 2026-01-01}]",
}


@pytest.mark.parametrize("text", DECODED.values(), ids=DECODED)
def test_decoded(text: str) -> None:
    assert load_config(text).parallelism == 3
