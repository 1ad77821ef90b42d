"""Set-up for all tests: logs are for people who run a scheduler, not for test reports."""

import logging

import structlog

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
