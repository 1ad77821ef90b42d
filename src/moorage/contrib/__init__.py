"""Plugins beyond kube-scheduler's: community plugins, GPU sharing and learned scores.

Other areas import names from here only. Each is loaded on first use. Profiles enable the plugins by name.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.contrib.gpu.columns import GpuTable
    from moorage.contrib.gpu.devices import NodeGpus, readable_demand
    from moorage.contrib.gpu.shapes import GpuShape, Typical
    from moorage.contrib.learned_score.policies import Float32Array, ObservedColumns, ScoringFunction
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gpu.columns": ("GpuTable",),
            "gpu.devices": ("NodeGpus", "readable_demand"),
            "gpu.shapes": ("GpuShape", "Typical"),
            "learned_score.policies": ("Float32Array", "ObservedColumns", "ScoringFunction"),
        },
    )
