"""The page: a cluster to look at in a browser, its data as JSON, and changes to try out on a copy of it."""
