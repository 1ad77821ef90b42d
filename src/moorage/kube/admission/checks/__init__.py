"""Validation of objects with the texts of kube-apiserver. Types are checked and defaults are set before."""
