"""Plugins of sigs.k8s.io/scheduler-plugins, under the same names. A profile must enable them."""
