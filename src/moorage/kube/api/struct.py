"""The base of every Kubernetes struct: camelCase on the wire, snake_case here, immutable, defaults left out."""

from typing import Annotated, Any, TypeAlias

import msgspec

Data = dict[str, Any]
"""An object, or a part of one, as plain data."""


Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Numbers have the width of their Go type: the decoder rejects longer ones."""


class KubeStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A piece of a Kubernetes object; fields the scheduler has no use for are dropped while decoding.

    ``gc=False`` is safe because decoded objects form trees, and keeps fifty thousand pods out of the collector's way.
    """
