"""The tables of replacements and their page."""

from pathlib import Path

from moorage.scheduler.config.conversion.tables import (
    PREDICATES,
    PRIORITIES,
    REMOVED,
    SELECTOR_SPREADS,
    STRATEGIES,
    VOLUME_LIMITS,
)


def test_the_page_names_everything() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "old-configurations.md").read_text()
    names = {*PREDICATES, *PRIORITIES, *STRATEGIES, *REMOVED, *SELECTOR_SPREADS, *VOLUME_LIMITS}
    assert {name for name in names if f"| `{name}` |" not in page} == set()
