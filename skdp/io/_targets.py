"""Targets of a source: labels by their declared number, numbers by a public rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._floats import FloatArray
from skdp.io import _arrow

# Kinds of NumPy's arrays, by what labels must be where they are stored.
_KINDS = {"i": "number", "u": "number", "f": "number", "b": "boolean"}


class Targets(Protocol):
    """What becomes of the target of a record, by that record alone."""

    def __call__(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Targets as doubles, and which of them could be read."""
        ...


@dataclass(frozen=True, eq=False)
class Labels:
    """The place of each label among those declared; others make a null record.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted; public.
    """

    classes: np.ndarray

    @property
    def kind(self) -> str:
        """What labels are: number, boolean or string."""
        return _KINDS.get(self.classes.dtype.kind, "string")

    def __call__(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        if self.kind == "string":
            return self._of_text(array)
        values = _arrow.numbers(array)
        classes = self.classes.astype(np.float64)
        codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        is_known = classes[codes] == values
        return np.where(is_known, codes, 0).astype(np.float64), is_known

    def _of_text(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        import pyarrow.compute as pc

        pa = _arrow.arrow()
        labels = [str(label).encode() for label in self.classes]
        known = pa.array(labels, pa.large_binary())
        codes = pc.index_in(_arrow.as_bytes(array), value_set=known, skip_nulls=True)
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.maximum(codes, 0).astype(np.float64), codes >= 0


@dataclass(frozen=True, eq=False)
class Numbers:
    """Finite numbers, changed by a public rule; others make a null record.

    Parameters
    ----------
    then : callable or None, default=None
        From an array of numbers to an array, number by number.
    """

    then: Callable[[FloatArray], FloatArray] | None = None
    kind = "number"

    def __call__(self, array: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
        values = _arrow.numbers(array).astype(np.float64)
        is_finite = np.isfinite(values)
        values = np.where(is_finite, values, 0.0)
        return (values if self.then is None else self.then(values)), is_finite
