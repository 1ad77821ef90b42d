"""Running the pages needs kubectl and takes minutes: `make docs` does it. Other tests are part of every run."""

import os

import pytest

from tests.docs.snippets import how_much_is_run

if not os.environ.get("MOORAGE_DOCS"):
    collect_ignore = ["test_snippets.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the number of executed blocks, and the reasons of skipped ones."""
    if os.environ.get("MOORAGE_DOCS"):
        every, left_out = how_much_is_run()
        terminalreporter.write_line(f"{every - left_out.total()} blocks of {every} are run; not run:")
        for why, count in left_out.most_common():
            terminalreporter.write_line(f"  {count:3} {why}")
