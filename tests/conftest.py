"""Set-up for all tests: logs are discarded, because they are for operators, not for test reports."""

import logging
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from hypothesis import settings
from structlog.testing import capture_logs

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

# A busy machine is not a defect: no test depends on the clock.
settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture
def logged() -> Iterator[list[MutableMapping[str, Any]]]:
    """Return the log lines of a test."""
    usual = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    with capture_logs() as lines:
        yield lines
    structlog.configure(**usual)
