"""KubeSchedulerConfiguration: types, plugin args, defaults, MultiPoint expansion, validation."""
