"""`moorage extender`: plugins served to a stock kube-scheduler, which asks them as an extender."""
