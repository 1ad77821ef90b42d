"""The change log: who follows it knows all, who comes too late is told so."""

from hypothesis import given
from hypothesis import strategies as st

from moorage.scheduler.state.objects import ChangeLog


@given(st.lists(st.integers()), st.integers(1, 8), st.data())
def test_a_reader_gets_everything_since_its_position_or_is_told_that_it_is_too_late(
    changes: list[int], length: int, data: st.DataObject
) -> None:
    log = ChangeLog[int](length)
    for change in changes:
        log.note(change)
    assert log.position == len(changes)
    position = data.draw(st.integers(0, len(changes)))
    found = log.since(position)
    assert found is None or found == changes[position:]
    assert found is not None or len(changes) - position > length // 2
