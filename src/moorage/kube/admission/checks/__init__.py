"""What the API refuses, in its own words: checks of objects as plain data, one module per kind of thing.

Types are right by the time these run, and defaults are filled in; the texts are those of kube-apiserver.
"""
