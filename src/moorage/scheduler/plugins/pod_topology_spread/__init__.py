"""PodTopologySpread: spread the pods of a kind evenly over zones, hosts or any other domains."""
