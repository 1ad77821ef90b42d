"""`moorage new`: a project with a plugin of one's own, from the templates beside this file."""
