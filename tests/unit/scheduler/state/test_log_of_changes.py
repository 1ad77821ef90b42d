"""The change log: readers get all changes, and late readers get None."""

from hypothesis import given
from hypothesis import strategies as st

from moorage.scheduler.state.objects import ChangeLog


@given(st.lists(st.integers()), st.integers(1, 8), st.data())
def test_reader_gets_all_changes_since_its_position_or_none_if_too_late(
    changes: list[int], length: int, data: st.DataObject
) -> None:
    log = ChangeLog[int](length)
    for change in changes:
        log.note(change)
    assert log.position == len(changes)
    position = data.draw(st.integers(0, len(changes)))
    new_changes = log.since(position)
    assert new_changes is None or new_changes == changes[position:]
    assert new_changes is not None or len(changes) - position > length // 2
