"""One attempt to place an entire group: ``cycle.py`` is its course, ``algorithm.py`` finds the places.

Pods are tried one by one as single pods are, each after those before it. All placements are reverted, and
repeated only if enough pods fit.
"""
