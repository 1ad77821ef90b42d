"""Validation of objects as plain data, with the texts of kube-apiserver.

Types are already checked, and defaults are set.
"""
