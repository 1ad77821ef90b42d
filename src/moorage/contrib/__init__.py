"""Plugins beyond kube-scheduler's: community plugins, GPU sharing and learned scores.

Other areas import names from here only; each is loaded on first use. Profiles enable the plugins by name.
"""

from typing import TYPE_CHECKING

from moorage.common.lazy import lazy_exports

if TYPE_CHECKING:
    from moorage.contrib.gpu.columns import GpuTable
    from moorage.contrib.gpu.demand import readable_demand
    from moorage.contrib.gpu.devices import NodeGpus
    from moorage.contrib.gpu.shapes import GpuShape, Typical
    from moorage.contrib.learned_score.observation import Float32Array, ObservedColumns
    from moorage.contrib.learned_score.policies import ScoringFunction
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gpu.columns": ("GpuTable",),
            "gpu.demand": ("readable_demand",),
            "gpu.devices": ("NodeGpus",),
            "gpu.shapes": ("GpuShape", "Typical"),
            "learned_score.observation": ("Float32Array", "ObservedColumns"),
            "learned_score.policies": ("ScoringFunction",),
        },
    )

__all__ = [
    "Float32Array",
    "GpuShape",
    "GpuTable",
    "NodeGpus",
    "ObservedColumns",
    "ScoringFunction",
    "Typical",
    "readable_demand",
]
