"""How often to look for garbage: seldom, for what a cluster consists of lives long and is reference-counted."""

import gc
from typing import Final

THRESHOLDS: Final = (100_000, 20, 100)


def collect_rarely() -> None:
    """Look through young objects every hundred thousand of them; call it first: most of them are made by starting."""
    gc.set_threshold(*THRESHOLDS)


def keep_everything() -> None:
    """Take everything there is now for permanent, so that it is never looked through again."""
    gc.freeze()
