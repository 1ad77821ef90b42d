"""Fields of old versions that are not in profiles."""

from tests.support.old_configurations import WEIGHTED, args_of, old, only, only_profile

from moorage.scheduler.config.conversion import Effect, convert_text


def test_top_level_fields_move_to_the_profile() -> None:
    text = old(
        "v1alpha1",
        schedulerName="yoda",
        plugins={"postFilter": {"enabled": [{"name": "yoda"}]}, "queueSort": {"enabled": [{"name": "yoda"}]}},
        pluginConfig=[{"name": "yoda", "args": {"master": "m"}}],
        hardPodAffinitySymmetricWeight=7,
        bindTimeoutSeconds=9,
        disablePreemption=True,
    )
    profile = only_profile(text)
    assert profile["schedulerName"] == "yoda"
    assert profile["plugins"] == {
        "multiPoint": {"enabled": WEIGHTED, "disabled": [{"name": "DefaultPreemption"}]},
        "preScore": {"enabled": [{"name": "yoda"}]},
        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "yoda"}]},
    }
    assert args_of(profile, "yoda") == {"master": "m"}
    assert args_of(profile, "InterPodAffinity") == {"hardPodAffinityWeight": 7}
    assert args_of(profile, "VolumeBinding") == {"bindTimeoutSeconds": 9}


def test_lock_fields_are_renamed() -> None:
    election = {"lockObjectName": "a", "lockObjectNamespace": "b", "resourceLock": "endpoints", "leaderElect": True}
    converted = only(old("v1alpha1", leaderElection=election))["leaderElection"]
    assert converted == {"resourceName": "a", "resourceNamespace": "b", "resourceLock": "leases", "leaderElect": True}


def test_policy_in_a_separate_source_is_lost() -> None:
    source = {"policy": {"configMap": {"namespace": "kube-system", "name": "p"}}}
    (converted,) = convert_text(old("v1alpha1", algorithmSource=source), "f")
    assert [str(note) for note in converted.notes if note.effect is Effect.LOST] == [
        "lost: algorithmSource.policy.configMap: the Policy in kube-system/p is not in this file: convert it"
    ]
