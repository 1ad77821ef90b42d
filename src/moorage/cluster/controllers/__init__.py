"""Controllers of workloads, storage and nodes, and fake kubelets: they make a cluster out of an API server.

Each controller is a function from objects to actions (``reconcile``), called with the keys of changed objects. The
controller manager lists, watches, calls the controllers and executes their actions. It works with any API server.
"""
