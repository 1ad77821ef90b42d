"""Project generation for `moorage new`, from the templates in this directory."""
