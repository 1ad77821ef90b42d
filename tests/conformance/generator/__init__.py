"""A seeded generator of small, difficult clusters that an API server accepts."""

from tests.conformance.generator.cluster import Case, generate

__all__ = ["Case", "generate"]
