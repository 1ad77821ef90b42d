"""Profiles that are completed step by step."""

from moorage.scheduler.config.conversion.drafts import (
    EVERY,
    Effect,
    Notes,
    ProfileDraft,
    as_list,
    as_mapping,
    as_number,
)


def draft() -> ProfileDraft:
    return ProfileDraft("mine", "profiles[0]", Notes())


def test_enabled_plugin_gets_a_later_weight() -> None:
    profile = draft()
    profile.enable("score", "A")
    profile.enable("score", "A", 5)
    profile.disable("score", "B")
    profile.disable("score", "B")
    assert profile.finished()["plugins"] == {
        "score": {"disabled": [{"name": "B"}], "enabled": [{"name": "A", "weight": 5}]}
    }


def test_wildcard_disables_every_plugin() -> None:
    profile = draft()
    profile.disable("filter", EVERY)
    assert profile.disables("filter", "Any")
    assert not profile.disables("score", "Any")
    assert not profile.enables("filter", "Any")


def test_configured_queue_sort_disables_the_default() -> None:
    profile = draft()
    profile.enable("queueSort", "Mine")
    sorts = {"disabled": [{"name": EVERY}], "enabled": [{"name": "Mine"}]}
    assert profile.finished()["plugins"] == {"queueSort": sorts}
    assert [note.text for note in profile.notes] == ["PrioritySort is disabled for it"]


def test_arguments_of_another_type_are_replaced_by_a_mapping() -> None:
    profile = draft()
    profile.set_args("A", "text")
    profile.args("A")["b"] = 1
    profile.args("C")
    profile.forget_args("C")
    assert profile.finished() == {"schedulerName": "mine", "pluginConfig": [{"name": "A", "args": {"b": 1}}]}


def test_labels_are_required_and_preferred_by_added_affinity() -> None:
    profile = draft()
    profile.require_labels(["a", "b"], presence=True)
    profile.prefer_label("c", presence=False, weight=500)
    (entry,) = profile.finished()["pluginConfig"]
    affinity = entry["args"]["addedAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    assert [term["operator"] for term in required["matchExpressions"]] == ["Exists", "Exists"]
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred == {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]},
    }


def test_conversion_is_faithful_until_a_setting_is_lost() -> None:
    notes = Notes()
    notes.add(Effect.RENAMED, "a", "is b")
    assert notes.are_faithful
    notes.report_loss("c", "no such field")
    assert not notes.are_faithful
    assert [str(note) for note in notes] == ["renamed: a: is b", "lost: c: no such field"]


def test_unexpected_types_are_noted_and_replaced() -> None:
    notes = Notes()
    assert (as_mapping("x", "m", notes), as_list({}, "l", notes), as_number(True, "n", notes, 3)) == ({}, [], 3)
    assert [note.text for note in notes] == [
        "'x' is not a mapping",
        "{} is not a list",
        "True is not an integer; 3 is written",
    ]


def test_expected_types_and_missing_values_leave_no_note() -> None:
    notes = Notes()
    assert (as_mapping({"a": 1}, "m", notes), as_mapping(None, "m", notes)) == ({"a": 1}, {})
    assert (as_list([1], "l", notes), as_list(None, "l", notes)) == ([1], [])
    assert (as_number(7, "n", notes, 3), as_number(None, "n", notes, 3)) == (7, 3)
    assert not notes
