"""VolumeBinding: find, reserve and bind the volumes of a pod's claims together with its node.

``plugin`` is the extension points; ``claims`` sorts the pod's claims; ``matching`` finds volumes that are there and
``provisioning`` places where they can be made; ``wanted`` puts these together per node, by topology; ``assume`` keeps
what was decided and not yet written; ``binding`` writes it and waits; ``scoring`` scores nodes by storage left over.
"""
