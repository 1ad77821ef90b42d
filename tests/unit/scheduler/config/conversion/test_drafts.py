"""Profiles that are completed step by step."""

from moorage.scheduler.config.conversion.drafts import EVERY, ProfileDraft
from moorage.scheduler.config.conversion.notes import Notes


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


def test_own_queue_sort_disables_the_default() -> None:
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
