"""What tests of examples share with all others: a list of what is logged."""

from tests.conftest import logged

__all__ = ["logged"]
