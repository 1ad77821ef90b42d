"""The live differential: kube-scheduler and `moorage scheduler` on one real API server, in turn."""
