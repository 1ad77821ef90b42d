"""Taints of a node for a limited time, which controllers set and remove: new nodes do not have them."""

from typing import Final

CONDITIONS: Final = "node.kubernetes.io/"
"""Prefix of the taints of cordoned nodes and of nodes with a problem."""
CLOUD: Final = "node.cloudprovider.kubernetes.io/"
SHUTDOWN: Final = "node.kubernetes.io/out-of-service"
"""An operator sets and removes this taint of conditions. No controller does."""
STARTING: Final = ("agent-not-ready", "not-ready", "unregistered", "uninitialized", "startup-taint")
"""Ends of the keys of taints that an agent removes as soon as it runs on the node."""
STARTUP_DOMAIN: Final = "startup-taint.cluster-autoscaler.kubernetes.io/"
REMOVERS: Final = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "DeletionCandidateOfClusterAutoscaler": "the cluster autoscaler",
    "karpenter.sh/disrupted": "Karpenter",
    "karpenter.sh/disruption": "Karpenter",
    "cloud.google.com/impending-node-termination": "the cloud provider",
    "aws-node-termination-handler/": "the cloud provider",
}
"""Controllers that are about to remove a node, by the key of their taint or its prefix."""


def find_remover(key: str) -> str:
    """Return the controller that removes a node with this taint, or empty for other taints.

    >>> find_remover("karpenter.sh/disrupted"), find_remover("aws-node-termination-handler/spot-itn"), find_remover("x")
    ('Karpenter', 'the cloud provider', '')
    """
    return next((owner for name, owner in REMOVERS.items() if key == name or _is_prefix(name, key)), "")


def _is_prefix(name: str, key: str) -> bool:
    return name.endswith("/") and key.startswith(name)


def find_starter(key: str) -> str:
    """Return the controller that removes this taint of a starting or faulty node, or empty for other taints.

    >>> find_starter("node.cilium.io/agent-not-ready"), find_starter("node.kubernetes.io/not-ready")
    ('the agent of node.cilium.io', 'the node controller')
    >>> find_starter("node.cloudprovider.kubernetes.io/uninitialized"), find_starter("dedicated")
    ('the cloud controller', '')
    """
    if find_remover(key) or key == SHUTDOWN:
        return ""
    if key.startswith(CONDITIONS):
        return "the node controller"
    if key.startswith(CLOUD):
        return "the cloud controller"
    domain, _, name = key.rpartition("/")
    is_starting = bool(domain) and (name.endswith(STARTING) or key.startswith(STARTUP_DOMAIN))
    return f"the agent of {domain}" if is_starting else ""


def is_temporary(key: str) -> bool:
    """Return whether a taint is about the state of a node, not about its purpose."""
    return key == SHUTDOWN or bool(find_remover(key) or find_starter(key))
