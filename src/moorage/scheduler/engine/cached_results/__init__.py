"""Cached results: the findings about every node for one pod, kept up to date for the next pod with the same signature.

``plugin_result.py`` holds the results of a plugin, ``combined_result.py`` those of all plugins of a profile, and
``result_cache.py`` finds them by the signature of a pod.
"""
