"""A whole cluster in one process: API server, controllers, fake kubelets and the scheduler, put together."""
