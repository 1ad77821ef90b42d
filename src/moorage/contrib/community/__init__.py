"""Plugins of sigs.k8s.io/scheduler-plugins, under the same names; a profile must enable them."""
