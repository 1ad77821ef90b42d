"""Validation of objects with the texts of kube-apiserver; types are checked and defaults are set before."""
