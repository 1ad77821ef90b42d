"""Messages about missing objects, as upstream's listers format them."""


def claim_not_found(name: str) -> str:
    """Return the message for a missing claim."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """Return the message for a missing persistent volume."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """Return the message for a missing storage class."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def pod_not_found(name: str) -> str:
    """Return the message for a missing pod."""
    return f'pod "{name}" not found'


def node_not_found(name: str) -> str:
    """Return the message for a missing node."""
    return f'node "{name}" not found'
