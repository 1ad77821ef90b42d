"""Observers: each part of a scheduler gets the observers of its events, joined into one."""

from collections.abc import Callable

from moorage.common.observers import Observer, select

Number = Callable[[], int]


class Doors(Observer):
    def opened(self, door: str, *, by: str = "") -> None:
        pass

    def closed(self, door: str) -> None:
        pass

    def wrap_count(self, count: Number, factor: int) -> Number:
        return count


class Windows(Observer):
    def cleaned(self, window: str) -> None:
        pass


class Recording(Doors):
    def __init__(self, name: str, steps: list[tuple[str, str]]) -> None:
        self.name, self.steps = name, steps

    def opened(self, door: str, *, by: str = "") -> None:
        self.steps.append((self.name, f"{door} {by}"))

    def wrap_count(self, count: Number, factor: int) -> Number:
        return lambda: count() * factor + len(self.name)


class Closing(Doors):
    def __init__(self) -> None:
        self.doors: list[str] = []

    def closed(self, door: str) -> None:
        self.doors.append(door)


def test_events_without_followers_have_no_observer() -> None:
    assert select((), Doors) is None
    assert select((Windows(),), Doors) is None


def test_single_follower_is_used_unwrapped() -> None:
    closing = Closing()
    assert select((Windows(), closing), Doors) is closing


def test_all_followers_are_notified_in_order() -> None:
    steps: list[tuple[str, str]] = []
    joined = select((Recording("a", steps), Windows(), Recording("b", steps)), Doors)
    assert joined is not None
    joined.opened("front", by="cat")
    joined.closed("front")
    assert steps == [("a", "front cat"), ("b", "front cat")]


def test_only_followers_that_override_an_event_are_called() -> None:
    first, second = Closing(), Recording("b", [])
    joined = select((first, second), Doors)
    assert joined is not None
    joined.closed("back")
    joined.opened("front")
    assert first.doors == ["back"]
    assert second.steps == [("b", "front ")]


def test_last_wrapper_is_outermost() -> None:
    joined = select((Recording("a", []), Closing(), Recording("long", [])), Doors)
    assert joined is not None
    assert joined.wrap_count(lambda: 1, 10)() == (1 * 10 + 1) * 10 + 4
