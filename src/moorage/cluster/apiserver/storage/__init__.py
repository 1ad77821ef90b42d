"""Versioned objects: in memory, in a file, and seen through structs."""
