"""Kinds of custom resources in the input of a simulation."""

from moorage import RawNode, RawPod, custom_kind
from moorage.cluster.files.custom import added_kinds
from moorage.kube.api.kinds import BY_TYPE


def test_kinds_of_plugins_are_added_and_views_of_built_in_kinds_are_not() -> None:
    # A definition of Pod would replace the built-in resource of the simulated API server.
    kind = custom_kind("Berth", "berths", "example.org/v1")
    try:
        assert added_kinds()["example.org/v1", "Berth"] is kind
        assert {RawPod, RawNode} <= BY_TYPE.keys()
        assert not {("v1", "Pod"), ("v1", "Node")} & added_kinds().keys()
    finally:
        del BY_TYPE[kind.type]
