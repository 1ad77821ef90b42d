"""Build and try the artifacts of a release: `make dist`, `make pyz`, `make image-root`, `make skew` …

Nothing here publishes. The workflows in .github/workflows run the same commands and upload the results.
"""
