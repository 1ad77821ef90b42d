"""Running the pages takes kubectl and minutes: `make docs` does it. What needs neither is part of every run."""

import os

if not os.environ.get("MOORAGE_DOCS"):
    collect_ignore = ["test_snippets.py"]
