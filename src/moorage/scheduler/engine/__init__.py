"""The scheduling engine, without HTTP."""
