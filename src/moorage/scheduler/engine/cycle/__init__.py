"""One attempt to place one pod, in upstream's order of phases.

``filter.py`` (pre-filter, nominated node, filter) → ``score.py`` (pre-score, score, normalize, choose) → reserve and
permit in ``extension_points.py``. ``engine/cached_results`` keeps the results that remain valid from pod to pod.
"""
