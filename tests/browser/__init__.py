"""The page in a real browser: `make browser`."""
