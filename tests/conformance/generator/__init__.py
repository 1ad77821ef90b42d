"""A seeded generator of clusters that are small and nasty, and acceptable to an API server."""

from tests.conformance.generator.cluster import Case, generate

__all__ = ["Case", "generate"]
