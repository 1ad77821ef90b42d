"""The documentation site: what mkdocs adds to the pages under docs/. `make docs` builds it."""
