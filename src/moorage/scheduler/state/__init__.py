"""The cached state of the cluster: nodes and pods, including assumed pods."""
