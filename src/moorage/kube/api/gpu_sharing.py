"""Names of labels, annotations and resources for GPUs that can be shared.

A device has a thousand parts. A pod requests a number of devices and parts per device. The sum is also an ordinary
resource request: no profile overcommits a node, with or without support for devices.
"""

from typing import Final

GPU_MODEL: Final = "moorage.io/gpu-model"
"""A label of nodes: the model of their devices. An annotation of pods: the accepted models, joined by ``|``."""
GPU_COUNT: Final = "moorage.io/gpu-count"
"""A node's allocatable: how many devices. A pod's annotation: on how many devices it runs."""
GPU_MILLI: Final = "moorage.io/gpu-milli"
"""A node's allocatable: a thousand for each device. A pod's annotation: the requested part of each device."""
GPU_DEVICES: Final = "moorage.io/gpu-devices"
"""A pod's annotation, written with its binding: the indexes of its devices, such as ``0,3``."""
WHOLE_GPU: Final = 1000
