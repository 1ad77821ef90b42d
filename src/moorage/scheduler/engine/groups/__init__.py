"""One attempt to place a whole group: ``cycle.py`` is its course, ``algorithm.py`` finds the places.

Pods are tried one by one as single pods are, each seeing those before it; all of that is undone, and done for real only
if enough of them fit.
"""
