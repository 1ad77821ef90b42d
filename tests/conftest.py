"""Set-up for all tests: logs are discarded, because they are for operators, and tests leave the process unchanged."""

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from hypothesis import find, settings
from hypothesis.strategies import just
from structlog.testing import capture_logs

from moorage.common.version import RELEASE
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.logs import VERBOSITY

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

# `make test-next` runs the tests with the behavior of the next release.
DEFAULT_RELEASE = os.environ.get("MOORAGE_TEST_RELEASE") or RELEASE


def emulate_by_default(release: str) -> None:
    """Set the release of feature gates that are made without a release."""
    FeatureGates.__init__.__kwdefaults__ = {"release": release, "oldest": None}


emulate_by_default(DEFAULT_RELEASE)

# A busy machine is not a defect: no test depends on the clock.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collections, a fifth of the time without this."""
    find(just(0), lambda _: True)  # Hypothesis warns if a collection cannot find what refers to its generator
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Emulate the release of the mark ``release`` by default: for texts and defaults that only this release has.

    A hook, because fixtures of modules are set up before those of functions.
    """
    mark = item.get_closest_marker("release")
    if mark is not None:
        emulate_by_default(mark.args[0])
    try:
        return (yield)
    finally:
        emulate_by_default(DEFAULT_RELEASE)


@pytest.fixture(autouse=True)
def _process_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Restore the settings that a command makes for its process, and fail if a test leaves other changes.

    Otherwise the result of a test would depend on the tests that run before it.
    """
    logs, verbosity, modules = structlog.get_config(), VERBOSITY.level, VERBOSITY.modules
    thresholds, imported, before = gc.get_threshold(), {*sys.modules}, read_process_state()
    yield
    structlog.configure(**logs)
    VERBOSITY.modules = modules
    VERBOSITY.set(verbosity)
    gc.set_threshold(*thresholds)
    temporary = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - imported:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(temporary):
            del sys.modules[name]  # another test may write a module of this name
    after = read_process_state()
    assert after == before, f"changed by the test: {[name for name in before if before[name] != after[name]]}"


def read_process_state() -> dict[str, object]:
    """Return the state of the process that every test must leave unchanged.

    The environment, the search path and signal handlers are not part of it: Ray, Gymnasium and asyncio change them.
    """
    return {
        "current directory": os.getcwd(),
        "garbage collection": gc.isenabled(),
        "log handlers": (logging.root.level, logging.root.manager.disable),
    }


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """Return the log lines of a test."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    with capture_logs() as lines:
        yield lines
