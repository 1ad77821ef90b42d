"""Set-up for all tests: logs are for people who run a scheduler, not for test reports."""

import logging

import structlog
from hypothesis import settings

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))

# A busy machine is no defect of the code: nothing here passes or fails by the clock.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
