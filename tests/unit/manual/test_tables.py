"""Committed pages of the reference that are generated from tables of the source."""

import pytest
from manual.tables import DOCS, pages


@pytest.mark.parametrize("path", pages())
def test_documentation_matches_the_table(path: str) -> None:
    assert (DOCS / path).read_text(encoding="utf-8") == pages()[path], "run python -m manual.tables"
