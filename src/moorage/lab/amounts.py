"""How large numbers in the lab's files may be: none below zero, and none that no cluster could have."""

from typing import Annotated, Final

from msgspec import Meta

MOST: Final = 10**12
"""Of anything: seconds, milli-CPU, MiB. Sums of such numbers are still exact."""
MOST_GPUS: Final = 1000
"""On one node, and of one pod."""
MOST_NODES: Final = 1_000_000
MOST_PODS: Final = 10_000_000
LOWEST_PRIORITY: Final = -(2**31)

Count = Annotated[int, Meta(ge=0, le=MOST)]
GpuCount = Annotated[int, Meta(ge=0, le=MOST_GPUS)]
NodeCount = Annotated[int, Meta(ge=0, le=MOST_NODES)]
PodCount = Annotated[int, Meta(ge=1, le=MOST_PODS)]
Priority = Annotated[int, Meta(ge=LOWEST_PRIORITY, le=2**31 - 1)]
Amount = Annotated[float, Meta(ge=0.0, le=float(MOST))]
Positive = Annotated[float, Meta(gt=0.0, le=float(MOST))]
Name = Annotated[str, Meta(min_length=1)]
