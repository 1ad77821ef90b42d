"""Evaluate the plugin on a cluster: run PYTHONPATH=src python explore.py, or copy the code into a notebook."""

from {{ package }} import {{ plugin }}

from moorage import Session


def node(name: str) -> dict:
    size = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": size}}


RESERVED = {
    "apiVersion": "{{ project }}.example.org/v1",
    "kind": "Reservation",
    "metadata": {"name": "node-2"},
    "spec": {"team": "ads"},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"{{ label }}": "search"}},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
}

# A cluster can also be a file ("cluster.yaml") or a snapshot (snapshot="today.json.gz"). Without arguments,
# Session.open reads the cluster that kubectl uses, and writes nothing.
with Session.open(node("node-1"), node("node-2"), RESERVED, POD, plugins=[{{ plugin }}]) as session:
    print("{{ plugin }} alone:")
    for row in session.filter("web", "{{ plugin }}"):  # pandas.DataFrame(...) turns the rows into a table
        print(" ", row)
    print("all plugins of the profile:")
    for row in session.score("web"):
        print(" ", row)
    print("scheduled to", session.place("web").node)
    session.undo()
