"""The live differential: kube-scheduler itself and `moorage scheduler` on one real API server, one after the other."""
