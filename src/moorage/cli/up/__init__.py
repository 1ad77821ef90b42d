"""The `moorage up` command: an embedded cluster with its terminal display."""
