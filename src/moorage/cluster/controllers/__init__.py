"""What makes a cluster out of an API server: the controllers of workloads, storage and nodes, and fake kubelets.

Each is a function from objects to actions (``reconcile``), called with a key that changes may
have affected; one driver lists, watches, asks and carries out. All of them are clients of any API server.
"""
