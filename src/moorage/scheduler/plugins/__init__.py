"""kube-scheduler's in-tree plugins, one module each, named as in the configuration."""
