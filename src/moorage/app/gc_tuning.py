"""How often to look for garbage: seldom, for what a cluster consists of lives long and is reference-counted."""

import gc
from typing import Final

STARTING: Final = (100_000, 20, 100)
RUNNING: Final = (10_000, 20, 100)
"""Garbage that refers to itself waits until so many objects are young: few, or a process at rest seems to grow."""


def collect_rarely() -> None:
    """Look through young objects every hundred thousand of them; call it first: most of them are made by starting."""
    gc.set_threshold(*STARTING)


def keep_everything() -> None:
    """Take everything there is now for permanent, so that it is never looked through again; from now on, tidy up."""
    gc.freeze()
    gc.set_threshold(*RUNNING)
