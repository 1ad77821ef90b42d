from moorage.engine.keeping import Keeping


def test_what_is_asked_for_again_is_kept() -> None:
    keeping: Keeping[str] = Keeping()
    keeping.add("a", "first", 8)
    assert keeping.find("a") == "first"
    keeping.add("b", "second", 8)
    keeping.add("c", "third", 8)
    assert (keeping.find("a"), keeping.find("c"), list(keeping.kept)) == ("first", "third", ["a", "c"])


def test_of_what_is_asked_for_once_only_the_latest_is_kept() -> None:
    keeping: Keeping[int] = Keeping()
    for number in range(100):
        keeping.add(f"pod {number}", number, 8)
    assert not keeping.kept
    assert (keeping.find("pod 99"), keeping.find("pod 98")) == (99, None)


def test_two_in_turns_are_kept_from_their_second_time_on() -> None:
    keeping: Keeping[str] = Keeping()
    for name in "abcab":
        assert keeping.find(name) is None
        keeping.add(name, name, 8)
    assert (keeping.find("a"), keeping.find("b")) == ("a", "b")


def test_the_least_recently_used_goes_first() -> None:
    keeping: Keeping[str] = Keeping()
    for name in "abcabc":
        keeping.add(name, name, 2)
    assert list(keeping.kept) == ["b", "c"]
    assert keeping.find("b") == "b"
    keeping.add("d", "d", 2)
    assert keeping.find("d") == "d"
    keeping.add("e", "e", 2)
    assert list(keeping.kept) == ["b", "d"]


def test_what_was_let_go_is_kept_at_once_when_it_comes_again() -> None:
    keeping: Keeping[str] = Keeping()
    keeping.add("a", "old", 8)
    keeping.clear()
    assert keeping.find("a") is None
    keeping.add("a", "new", 8)
    assert keeping.kept == {"a": "new"}
