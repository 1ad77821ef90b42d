"""Fixtures that tests of examples share with all others: a list of log lines."""

from tests.conftest import logged

__all__ = ["logged"]
