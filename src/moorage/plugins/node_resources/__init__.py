"""Plugins about what nodes have and pods ask for: whether it fits, and where it fits best."""
