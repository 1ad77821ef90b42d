"""For plugin authors: builders, random clusters, and check_plugin."""

from moorage.testing.builders import make_node, make_pod

__all__ = ["make_node", "make_pod"]
