"""The base of every Kubernetes struct: camelCase on the wire, snake_case here, immutable, defaults left out."""

from typing import Any

import msgspec

Data = dict[str, Any]
"""An object, or a part of one, as plain data."""


class KubeStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A piece of a Kubernetes object; fields the scheduler has no use for are dropped while decoding.

    ``gc=False`` is safe because decoded objects form trees, and keeps fifty thousand pods out of the collector's way.
    """
