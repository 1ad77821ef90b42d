"""`moorage extender`: plugins served to a stock kube-scheduler, which calls them as an extender."""
