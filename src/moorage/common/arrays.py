"""Types of arrays, without the imports of numpy.typing."""

from typing import Any, TypeAlias, TypeVar

import numpy as np

Scalar_co = TypeVar("Scalar_co", bound=np.generic, covariant=True)

NDArray: TypeAlias = np.ndarray[Any, np.dtype[Scalar_co]]

IntType: TypeAlias = type[np.int32] | type[np.int64]
