"""One attempt to place one pod, in upstream's order of phases.

``filter.py`` (pre-filter, nominated node, filter) → ``score.py`` (pre-score, score, normalise, choose) → reserve and
permit in ``extension_points.py``. What is true of all rows between two pods is kept in ``engine/cached_results``.
"""
