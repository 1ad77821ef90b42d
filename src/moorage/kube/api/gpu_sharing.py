"""Names by which nodes and pods say what they have and want of GPUs that can be shared.

A node has devices of a thousand parts each. A pod says on how many devices it wants how many parts; the sum is an
ordinary request as well, so that no profile gives away more than there is, whether or not it knows of devices.
"""

from typing import Final

GPU_MODEL: Final = "moorage.io/gpu-model"
"""A node's label: the model of its devices. A pod's annotation: the models that will do, joined by ``|``."""
GPU_COUNT: Final = "moorage.io/gpu-count"
"""A node's allocatable: how many devices. A pod's annotation: on how many devices it runs."""
GPU_MILLI: Final = "moorage.io/gpu-milli"
"""A node's allocatable: a thousand for each device. A pod's annotation: how much of each device it wants."""
GPU_DEVICES: Final = "moorage.io/gpu-devices"
"""A pod's annotation, written when it is bound: which devices it was given, such as ``0,3``."""
WHOLE_GPU: Final = 1000
