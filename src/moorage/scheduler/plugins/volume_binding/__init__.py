"""VolumeBinding: find, reserve and bind the volumes of a pod's claims together with its node.

``plugin`` has the extension points; ``pod_claims`` sorts the pod's claims; ``static_volumes`` finds existing volumes;
``provisioning`` checks where volumes can be provisioned; ``pod_volumes`` combines both per node; ``assume_cache`` holds
decisions that are not yet written; ``volume_binder`` writes them and waits; ``score`` scores nodes by free storage.
"""
