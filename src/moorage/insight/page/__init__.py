"""The web page: served by `moorage ui`, by `moorage up`, and by the scheduler."""
