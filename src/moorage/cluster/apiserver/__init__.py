"""The cluster's objects behind the rules of the Kubernetes API: the only API server of our own."""
