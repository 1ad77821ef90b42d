"""Plugins that people know from sigs.k8s.io/scheduler-plugins, under the same names: on when a profile names them."""
