"""Metrics with kube-scheduler's names, labels and buckets, cheap enough to keep with every pod."""
