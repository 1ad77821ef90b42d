"""Plugins beyond kube-scheduler's: community plugins, GPU sharing and learned scores."""
