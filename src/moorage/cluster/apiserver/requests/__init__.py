"""From a request to plain data: paths, bodies in three formats, and the ways to refuse."""
