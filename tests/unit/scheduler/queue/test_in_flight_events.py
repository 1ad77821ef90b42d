"""The events since each in-flight pod was popped, compared with a plain list of all steps."""

from hypothesis import given
from hypothesis import strategies as st

from moorage.scheduler.framework.events import Action, ClusterEvent, Resource
from moorage.scheduler.queue.in_flight_events import InFlightEvents

EVENT = ClusterEvent(Resource.NODE, Action.ADD)
PODS = ("a", "b", "c")
STEPS = st.lists(
    st.one_of(
        st.sampled_from(PODS).map(lambda pod: ("pop", pod)),
        st.sampled_from(PODS).map(lambda pod: ("done", pod)),
        st.just(("event", "")),
    )
)


@given(STEPS)
def test_each_pod_gets_the_events_since_it_was_popped(steps: list[tuple[str, str]]) -> None:
    events, numbers = InFlightEvents(), 0
    since: dict[str, list[int]] = {}
    stored: list[int] = []
    for step, pod in steps:
        if step == "pop" and pod not in since:
            events.start(pod)
            since[pod] = []
        elif step == "event" and since:
            numbers += 1
            events.record(EVENT, EVENT.label, None, numbers)
            stored.append(numbers)
            for observed in since.values():
                observed.append(numbers)
        elif step == "done":
            dropped = events.done(pod)
            assert (dropped is None) == (pod not in since)
            since.pop(pod, None)
            required = {number for observed in since.values() for number in observed}
            if dropped is not None:
                assert [event.new for event in dropped] == [number for number in stored if number not in required]
            stored = [number for number in stored if number in required]
        assert {uid: [event.new for event in events.list_events(uid) or ()] for uid in events} == since
        assert [event.new for event in events.events] == stored
        assert (len(events), *(pod in events for pod in PODS)) == (len(since), *(pod in since for pod in PODS))
        events.check_invariants()


def test_the_events_of_a_pod_that_is_not_in_flight_are_unknown() -> None:
    assert InFlightEvents().list_events("a") is None
