"""Evaluate the plugin on a cluster: run PYTHONPATH=src python explore.py, or copy the code into a notebook."""

from {{ package }} import {{ plugin }}

from moorage import Session

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
}


def pod(name: str) -> dict:
    metadata = {"name": name, "labels": {"{{ label }}": "solver"}}
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# A cluster can also be a file ("cluster.yaml") or a snapshot (snapshot="today.json.gz"). Without arguments,
# Session.open reads the cluster that kubectl uses, and writes nothing.
with Session.open(NODE, plugins=[{{ plugin }}]) as session:
    for name in ("first", "second", "third"):  # there are two licenses, so the third pod is rejected
        attempt = session.place(pod(name))
        print(f"{name}: scheduled to {attempt.node}" if attempt.node else f"{name}: {attempt.decision.message}")
