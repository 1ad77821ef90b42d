"""Ask the plugin about a cluster: PYTHONPATH=src python explore.py, or the same lines in the cells of a notebook."""

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

# A cluster may also be a file ("cluster.yaml"), a snapshot (snapshot="today.json.gz"), or the one that kubectl would
# talk to: then nothing is given, and it is only read.
with Session.open(node("node-1"), node("node-2"), RESERVED, POD, plugins=[{{ plugin }}]) as session:
    print("{{ plugin }} alone:")
    for row in session.{{ ask }}("web", "{{ plugin }}"):  # pandas.DataFrame(...) makes a table of it
        print(" ", row)
    print("the whole profile:")
    for row in session.score("web"):
        print(" ", row)
    print("placed on", session.place("web").node)
    session.undo()
