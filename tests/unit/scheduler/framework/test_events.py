"""Cluster events: their names, and which registrations include them."""

import pytest

from moorage.scheduler.framework.events import (
    EVERY_EVENT,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    QueueingHint,
    Resource,
    queue_if,
    with_groups,
)

TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
LABELS = {
    "an action": (ClusterEvent(Resource.NODE, Action.ADD), "NodeAdd"),
    "an update": (TAINT, "NodeUpdateNodeTaint"),
    "any update": (ClusterEvent(Resource.NODE, Action.UPDATE), "NodeUpdate"),
    "several actions have no name": (ClusterEvent(Resource.NODE, Action.ADD | Action.DELETE), "Node"),
    "a resource of a group": (ClusterEvent(Resource.CSI_NODE, Action.DELETE), "storage.k8s.io/CSINodeDelete"),
    "another resource": (ClusterEvent("tickets.v1.example.org", Action.ADD), "tickets.v1.example.orgAdd"),
    "a custom label": (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
}


@pytest.mark.parametrize(("event", "label"), LABELS.values(), ids=LABELS)
def test_label(event: ClusterEvent, label: str) -> None:
    assert event.label == label


COVERED = {
    "the same event": (TAINT, TAINT, True),
    "one of several actions": (ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), TAINT, True),
    "any update": (ClusterEvent(Resource.NODE, Action.UPDATE), TAINT, True),
    "another action": (ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL), TAINT, False),
    "another resource": (ClusterEvent(Resource.CSI_NODE, Action.ALL), TAINT, False),
    "every resource": (ClusterEvent(Resource.WILDCARD, Action.UPDATE_NODE_TAINT), TAINT, True),
    "every event": (ClusterEvent(Resource.WILDCARD, Action.ALL), TAINT, True),
    "a plain update needs all updates": (TAINT, ClusterEvent(Resource.NODE, Action.UPDATE), False),
    "a plain update with all updates": (
        ClusterEvent(Resource.NODE, Action.UPDATE),
        ClusterEvent(Resource.NODE, Action.UPDATE),
        True,
    ),
    "a pod is any kind of pod": (
        ClusterEvent(Resource.POD, Action.DELETE),
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        True,
    ),
    "a kind of pod is not any pod": (
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        ClusterEvent(Resource.POD, Action.DELETE),
        False,
    ),
    "a kind of pod is not another": (
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        ClusterEvent(Resource.TARGET_POD, Action.DELETE),
        False,
    ),
}


@pytest.mark.parametrize(("registered", "incoming", "is_covered"), COVERED.values(), ids=COVERED)
def test_registrations_cover_events(registered: ClusterEvent, incoming: ClusterEvent, is_covered: bool) -> None:
    assert registered.covers(incoming) is is_covered


def test_only_all_actions_of_all_resources_are_a_wildcard() -> None:
    assert UNSCHEDULABLE_TIMEOUT.is_wildcard
    assert not ClusterEvent(Resource.WILDCARD, Action.ADD).is_wildcard
    assert not ClusterEvent(Resource.NODE, Action.ALL).is_wildcard


def test_updates_are_all_actions_but_addition_and_deletion() -> None:
    single = [action for action in Action if action not in (Action.ADD, Action.DELETE)]
    assert sum(single) == Action.UPDATE
    assert Action.ALL == Action.UPDATE | Action.ADD | Action.DELETE


def test_plugins_without_registrations_get_group_events() -> None:
    mine = (EventRegistration(TAINT),)
    registrations = {"Default": EVERY_EVENT, "Mine": mine}
    assert with_groups(registrations, has_groups=False) is registrations
    extended = with_groups(registrations, has_groups=True)
    assert extended["Mine"] is mine
    added = {registration.event.resource for registration in extended["Default"][len(EVERY_EVENT) :]}
    assert added == {Resource.POD_GROUP}


def test_hint_of_a_condition() -> None:
    assert (queue_if(True), queue_if(False)) == (QueueingHint.QUEUE, QueueingHint.SKIP)
