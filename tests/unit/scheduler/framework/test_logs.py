"""A plugin's log: filtered by level, with the plugin and its profile."""

from typing import Any

from moorage.scheduler.framework.logs import VERBOSITY, PluginLog

ABOUT = {"plugin": "LoadAware", "profile": "default-scheduler"}


def test_details_are_written_from_their_level_on(logged: list[Any]) -> None:
    log = PluginLog("authors.load_aware", ABOUT)
    for level in (0, 3):
        VERBOSITY.set(level)
        log.info("always")
        log.v(3).info("details", node="a")
        log.v(4).warning("and warnings, whatever their level")
        assert bool(log.v(3)) == (level == 3)
    assert [line["event"] for line in logged] == [
        "always",
        "and warnings, whatever their level",
        "always",
        "details",
        "and warnings, whatever their level",
    ]
    assert logged[3] == {"event": "details", "node": "a", "v": 3, "log_level": "info", **ABOUT}


def test_a_module_may_be_singled_out(logged: list[Any]) -> None:
    VERBOSITY.modules = {"load_aware": 5}
    VERBOSITY.set(0)
    PluginLog("authors.load_aware", ABOUT).v(5).info("here")
    PluginLog("authors.other", ABOUT).v(1).info("not here")
    assert [line["event"] for line in logged] == ["here"]


def test_an_error_is_logged_with_its_traceback(logged: list[Any]) -> None:
    log = PluginLog("authors.load_aware", ABOUT)
    try:
        int("no number")
    except ValueError:
        log.exception("cannot read", query="up")
    log.error("again")
    assert [(line["log_level"], line.get("exc_info")) for line in logged] == [("error", True), ("error", None)]
