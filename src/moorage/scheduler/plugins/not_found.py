"""What users read when something a pod refers to is not there, in the words of upstream's listers."""


def claim_not_found(name: str) -> str:
    """Say that a claim is missing."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """Say that a persistent volume is missing."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """Say that a storage class is missing."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def pod_not_found(name: str) -> str:
    """Say that a pod is missing."""
    return f'pod "{name}" not found'


def node_not_found(name: str) -> str:
    """Say that a node is missing."""
    return f'node "{name}" not found'
