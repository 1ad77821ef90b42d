"""For plugin authors: builders, random clusters, and check_plugin."""
