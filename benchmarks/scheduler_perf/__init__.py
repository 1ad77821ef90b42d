"""Plays the workloads of Kubernetes' scheduler_perf on a real API server, with both schedulers."""
