"""Plugins are checked at registration, and every mistake is one message with its location."""

import functools
import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.engine import build_runner

from moorage.common.errors import ConfigError, PluginError
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.registry import ENTRY_POINT_GROUP, Registry, extension_points
from moorage.scheduler.framework.status import Status


class Accepts(FilterPlugin):
    def filter(self, *_: Any) -> Status | None:
        return None


class NoPoint(Plugin):
    pass


class Curious(Accepts):
    def __init__(self, weather: str) -> None:
        self.weather = weather


class HalfAReserve(ReservePlugin):
    def reserve(self, *_: Any) -> None:
        return None


class LooseArgs(Accepts):
    @dataclass
    class Args:
        label: str = "capacity"


class Impostor(Accepts):
    name = "Accepts"


class Star(Accepts):
    name = "*"


class Lines(Accepts):
    name = "two\nlines"


class LooseDependence(Accepts):
    depends_on = "NODE"  # type: ignore[assignment]


def bare(pod: Any, node: Any) -> bool:
    return True


REFUSED: dict[str, tuple[Any, str]] = {
    "a function without a decorator": (bare, 'hint: write @filter_function("why not") or @score_function'),
    "an instance instead of its class": (Accepts(), "hint: name the class, Accepts, and not an instance of it"),
    "something that is not a class": (print, "is not a plugin class\n  hint: inherit from FilterPlugin"),
    "a class that is not a plugin": (dict, "<class 'dict'> is not a plugin class"),
    "a plugin of no extension point": (NoPoint, "NoPoint extends no extension point\n  hint: inherit from one of"),
    "a constructor with unknown parameters": (Curious, "the constructor of Curious has unknown parameters: weather"),
    "a method that is missing": (
        HalfAReserve,
        "does not define unreserve\n  hint: write `def unreserve(self, ",
    ),
    "arguments that cannot be checked": (LooseArgs, "which is not a msgspec.Struct\n  hint: class Args(msgspec.Struct"),
    "a second plugin of a name": (Impostor, "a plugin named 'Accepts' is already registered\n  hint: set another name"),
    "the wildcard as a name": (Star, "the name of Star is '*'\n  hint: write `name = \"Star\"`"),
    "a name with a line break": (Lines, "the name of Lines is 'two\\nlines'"),
    "a text as depends_on": (LooseDependence, "LooseDependence.depends_on is 'NODE'\n  hint: write `depends_on = Dep"),
}


@pytest.mark.parametrize(("plugin", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_plugins_are_rejected_at_registration(plugin: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Registry([Accepts]).register(plugin, where="here")
    assert str(refusal.value).startswith("here: ")
    assert message in str(refusal.value)


def test_the_same_class_may_be_named_twice() -> None:
    assert list(Registry([Accepts, Accepts])) == ["Accepts"]


def test_extension_points_follow_from_base_classes() -> None:
    class Both(ScorePlugin, Accepts):
        def score(self, *_: Any) -> int:
            return 0

    assert extension_points(Both) == {"filter", "score"}


MODULES = {
    "a module that is not there": ("nowhere_at_all:X", "", "No module named 'nowhere_at_all'\n  hint: is it installed"),
    "a module that needs another": ("author:X", "import nowhere_at_all", "No module named 'nowhere_at_all'"),
    "Python that does not parse": ("author:X", "def f(:", "SyntaxError: invalid syntax (author.py:1)"),
    "a module that raises": ("author:X", "\nx = y", "NameError: name 'y' is not defined ("),
    "a class that cannot be made": (
        "author:X",
        "from moorage.scheduler.framework.plugin import FilterPlugin\nclass X(FilterPlugin): pass",
        "TypeError: X defines neither filter nor filter_nodes: define one of them, Moorage derives the other (",
    ),
    "a method with a slip of the pen": (
        "author:X",
        "from moorage import FilterPlugin\nclass X(FilterPlugin):\n def filters(self, cycle, pod, node): pass",
        "Moorage derives the other; filters is never called, did you mean 'filter'? (",
    ),
    "a base with a slip of the pen": (
        "author:X",
        "from moorage import FilterPlugn",
        "\n  hint: did you mean 'FilterPlugin'?",
    ),
    "a name that is not in it": ("author:Spots", "class Spot: pass", "has no 'Spots'\n  hint: did you mean 'Spot'?"),
    "something else in it": ("author:X", "X = 3", "3 is not a plugin class"),
    "no name": ("author", "", "expected module:Class\n  hint: e.g. my_package.spot:SpotOnly"),
    "a dot for the colon": ("author.spot.Spot", "", "expected module:Class\n  hint: did you mean author.spot:Spot?"),
    "no module": (":X", "", "expected module:Class"),
}


@pytest.mark.parametrize(("path", "text", "message"), MODULES.values(), ids=MODULES)
def test_a_path_that_leads_nowhere(
    path: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"author_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    path, message = path.replace("author", module), message.replace("author", module)

    with pytest.raises(ConfigError) as refusal:
        Registry().register_path(path)
    assert str(refusal.value).startswith(f"--plugin {path}: ")
    assert message in str(refusal.value)


def test_an_error_is_placed_in_the_authors_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "author_of_line_two.py").write_text("\nx = y")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"NameError: .* \(author_of_line_two\.py:2\)$"):
        Registry().register_path("author_of_line_two:X")


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Let an installed package offer something as a plugin."""
    entry = EntryPoint(name="theirs", value=value, group=ENTRY_POINT_GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [entry] if group == entry.group else [])


def test_installed_packages_offer_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "moorage.scheduler.plugins.priority_sort:PrioritySort")
    registry = Registry()
    registry.register_entry_points()
    assert issubclass(registry["PrioritySort"], QueueSortPlugin)


@pytest.mark.parametrize(
    "value", ["nowhere_at_all:X", "moorage.common.clock:Missing", "moorage.common.clock:SystemClock"]
)
def test_an_offer_that_cannot_be_used_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, value)
    registry = Registry()
    registry.register_entry_points()
    with pytest.raises(ConfigError, match=f"^entry point theirs of {value}: "):
        registry["theirs"]


def test_entry_point_with_another_name_than_its_plugin_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "moorage.scheduler.plugins.priority_sort:PrioritySort")
    registry = Registry()
    registry.register_entry_points()
    with pytest.raises(ConfigError, match="it provides the plugin PrioritySort, not theirs"):
        registry["theirs"]


def test_plugin_with_another_name_than_class_and_entry_point_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ("from moorage import FilterPlugin", "class Rule(FilterPlugin):", "    name = 'Berth'")
    source = "\n".join((*lines, "    def filter(self, cycle, pod, node): ..."))
    (tmp_path / "author_of_another_name.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    offer(monkeypatch, "author_of_another_name:Rule")
    registry = Registry()
    registry.register_entry_points()
    assert "Rule" in registry
    assert "author_of_another_name" not in sys.modules, "a package is imported only if a name needs it"
    assert "Berth" in registry
    assert registry["Berth"].__name__ == "Rule"


def test_packages_that_cannot_be_imported_do_not_hide_an_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "nowhere_at_all:X")
    registry = Registry()
    registry.register_entry_points()
    assert "Berth" not in registry


@pytest.mark.parametrize("line", [b"\xff = a:B", b"no value"])
def test_packages_with_invalid_entry_points_are_skipped(
    line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    for name, entry in (("sound", b"Sound = sound:Sound"), ("damaged", line)):
        directory = tmp_path / f"{name}-1.0.dist-info"
        directory.mkdir()
        (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (directory / "entry_points.txt").write_bytes(b"[%b]\n%b\n" % (ENTRY_POINT_GROUP.encode(), entry))
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry()
    registry.register_entry_points()
    assert "Sound" in registry
    assert [log["directory"] for log in logged] == [str(tmp_path)]


def test_import_that_does_not_end_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "author_of_endless_loops.py").write_text("while True:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("moorage.scheduler.framework.registry.IMPORT_SECONDS", 0.2)
    with pytest.raises(
        ConfigError, match=r"TimeoutError: the import did not end within 0\.2 s \(author_of_endless_loops"
    ):
        Registry().register_path("author_of_endless_loops:X")


class Wants(Accepts):
    class Args(msgspec.Struct, frozen=True):
        label: str = "capacity"

    def __init__(self, *, args: Any = None, handle: Any = None, more: int = 3) -> None:
        self.args, self.handle, self.more = args, handle, more


def test_plugin_receives_its_constructor_arguments_by_name() -> None:
    handle: Any = object()
    built = Registry([Wants]).build("Wants", args=Wants.Args("zone"), handle=handle)
    assert isinstance(built, Wants)
    assert (built.args.label, built.handle, built.more) == ("zone", handle, 3)


class Unspeakable(Exception):
    """An exception that cannot be put into words."""

    def __str__(self) -> str:
        raise ValueError("no words")


PROBLEMS = [ValueError("no zone"), KeyError("zone"), OSError("disk"), SystemExit(3), Unspeakable()]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_constructor_error_names_the_plugin(problem: BaseException) -> None:
    class Broken(Accepts):
        def __init__(self) -> None:
            raise problem

    with pytest.raises(PluginError, match=r"^initializing plugin 'Broken': "):
        build_runner(plugins=[Broken])


def test_constructor_that_reads_args_without_a_type_gets_a_hint() -> None:
    class Untyped(Accepts):
        def __init__(self, *, args: Any) -> None:
            self.limit = args.limit

    with pytest.raises(PluginError, match="args is None, because the class does not set Args: write `Args = MyArgs`"):
        build_runner(plugins=[Untyped])


MISSING = {
    "a library": ("import no_such_library", r"No module named 'no_such_library' \(lacking.py:1\)\n  hint: install it"),
    "an inner module": ("from moorage.framework import X", "hint: all names for plugins are in the package itself"),
}


@pytest.mark.parametrize(("line", "message"), MISSING.values(), ids=MISSING)
def test_missing_module_is_reported_with_the_line_that_imports_it(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lacking.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=message):
        Registry().register_path("lacking:X")


def test_error_in_events_to_register_names_the_plugin() -> None:
    class Mute(Accepts):
        def events_to_register(self) -> Any:
            raise RuntimeError("no events")

    profile = build_runner(plugins=[Mute]).profile
    with pytest.raises(PluginError, match=r'plugin "Mute": Mute.events_to_register raised RuntimeError: no events'):
        profile.registrations()


NO_EVENTS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "a text": lambda: "Node/Add",
    "the event without a registration": lambda: [ClusterEvent(Resource.NODE, Action.ADD)],
    "a registration of a text": lambda: [EventRegistration("Node/Add")],  # type: ignore[arg-type]
    "an invalid action": lambda: [EventRegistration(ClusterEvent(Resource.NODE, "Add"))],  # type: ignore[arg-type]
    "an invalid hint": lambda: [EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), "always")],  # type: ignore[arg-type]
    "an unknown resource": lambda: [EventRegistration(ClusterEvent("nodes", Action.ADD))],
    "a hint with one parameter": lambda: [
        EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), lambda pod: QueueingHint.QUEUE)  # type: ignore[arg-type,misc]
    ],
    "events without end": lambda: repeat(EventRegistration(ClusterEvent(Resource.NODE, Action.ADD))),
}


@pytest.mark.parametrize("answer", NO_EVENTS.values(), ids=NO_EVENTS)
def test_invalid_events_are_reported_with_the_plugin_name(answer: Callable[[], Any]) -> None:
    class Odd(Accepts):
        def events_to_register(self) -> Any:
            return answer()

    profile = build_runner(plugins=[Odd]).profile
    with pytest.raises(PluginError, match=r'EventsToRegister plugin "Odd": Odd.events_to_register .*test_registry.py:'):
        profile.registrations()


def test_unknown_resource_of_an_event_is_reported_with_the_nearest_one() -> None:
    class Plural(Accepts):
        def events_to_register(self) -> Any:
            return [EventRegistration(ClusterEvent("nodes", Action.ADD))]

    with pytest.raises(PluginError, match=r"resource 'nodes', which has no events; did you mean 'Resource\.NODE'"):
        build_runner(plugins=[Plural]).profile.registrations()


class Permits(PermitPlugin):
    def permit(self, cycle: Any, pod: Any, node_name: str) -> None:
        return None


class AsyncFilter(FilterPlugin):
    async def filter(self, cycle: Any, pod: Any, node: Any) -> Status | None:  # type: ignore[override]
        return None


class AsyncSign(Accepts):
    async def sign(self, pod: Any) -> Any:
        return None


class PlainBind(BindPlugin):
    def bind(self, cycle: Any, pod: Any, node_name: str) -> Any:
        return None


class PlainStart(Accepts):
    def start(self) -> Any:
        return None


class FewParameters(FilterPlugin):
    def filter(self, pod: Any, node: Any) -> Status | None:  # type: ignore[override]
        return None


class Yields(ScorePlugin):
    def score(self, cycle: Any, pod: Any, node: Any) -> Any:
        yield 3


class NotAMethod(Accepts):
    permit = None
    filter = 3  # type: ignore[assignment]


BROKEN: dict[str, tuple[type[Plugin], str]] = {
    "a filter that waits": (
        AsyncFilter,
        "AsyncFilter.filter must not be `async def`: it runs in the scheduling cycle, which cannot wait\n"
        "  hint: write `def filter(self, cycle, pod, node)`, and move waiting code to start, pre_bind or",
    ),
    "a signature that waits": (AsyncSign, "AsyncSign.sign must not be `async def`"),
    "a bind that does not": (
        PlainBind,
        "PlainBind.bind must be `async def`: it is awaited\n"
        "  hint: write `async def bind(self, cycle, pod, node_name)`",
    ),
    "a start that does not": (PlainStart, "PlainStart.start must be `async def`: it is awaited"),
    "a filter without the cycle": (FewParameters, "filter takes (self, pod: Any, node: Any) -> "),
    "a score that yields": (Yields, "Yields.score has a `yield`"),
    "a number as a filter": (NotAMethod, "NotAMethod.filter is 3, which cannot be called"),
}


@pytest.mark.parametrize(("plugin", "message"), BROKEN.values(), ids=BROKEN)
def test_a_method_that_cannot_be_called_as_it_will_be_is_rejected(plugin: type[Plugin], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Registry([plugin])
    assert message in str(refusal.value)


def decorated(method: Any) -> Any:
    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return wrapper


class Unusual(BindPlugin, ScorePlugin, FilterPlugin):
    """Methods that are written otherwise than most, and do no harm."""

    @decorated
    async def bind(self, cycle: Any, pod: Any, node_name: str) -> None:
        return None

    @staticmethod
    def score(cycle: Any, pod: Any, node: Any, weight: int = 1) -> int:  # type: ignore[override]
        return weight

    @classmethod
    def filter(cls, *everything: Any) -> None:  # type: ignore[override]
        return None


def test_unusual_ways_to_write_a_method_are_fine() -> None:
    assert list(Registry([Unusual, Permits])) == ["Unusual", "Permits"]


def test_a_method_of_a_point_that_the_class_does_not_extend_is_warned_about(logged: list[Any]) -> None:
    class Forgetful(Accepts):
        def permit(self, cycle: Any, pod: Any, node_name: str) -> None:
            return None

    Registry([Forgetful, Permits])
    assert [(line["plugin"], line["method"], line["hint"]) for line in logged] == [
        ("Forgetful", "permit", "inherit from PermitPlugin as well")
    ]
