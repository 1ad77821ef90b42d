"""VolumeBinding: find, reserve and bind the volumes of a pod's claims together with its node.

``plugin`` has the extension points and sorts the pod's claims. ``static_volumes`` finds existing volumes;
``provisioning`` checks where volumes can be provisioned; ``pod_volumes`` combines both per node and scores them.
``assume_cache`` holds decisions that are not yet written. ``volume_binder`` writes them and waits.
"""
