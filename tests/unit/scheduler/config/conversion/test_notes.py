"""Notes on conversions, and values of unexpected types."""

from moorage.scheduler.config.conversion.notes import Effect, Notes, as_list, as_mapping, as_number


def test_conversion_is_faithful_until_a_setting_is_lost() -> None:
    notes = Notes()
    notes.add(Effect.RENAMED, "a", "is b")
    assert notes.are_faithful
    notes.lost("c", "no such field")
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
