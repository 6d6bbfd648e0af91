"""Types of arrays, and what rounding to nearest costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Largest relative error of one rounded operation in double precision.
UNIT_ROUNDOFF = 2.0**-53
