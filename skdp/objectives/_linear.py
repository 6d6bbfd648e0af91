"""`LinearObjective`: what a linear model minimises, and the public facts of its fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from skdp._validation import check_bool, check_count, check_real
from skdp.losses._base import Loss
from skdp.losses._weighted import typical_weight
from skdp.privacy._adjacency import TableRelation, check_table_relation

# Of the bounds on a row and on an entry, for rules that weigh one against the other.
_LARGEST_RATIO = 1e50


@dataclass(frozen=True, kw_only=True)
class LinearObjective:
    """A loss of raw predictions, and public facts; nothing computed from the data.

    The objective is ``mean(loss) + alpha / 2 * ||W||^2`` over weights W with one row
    per column, the intercept included: it is the weight of one more column that
    holds the constant `data_norm`.

    Parameters
    ----------
    loss : Loss
        Of one record's raw predictions.
    n_samples, n_features : int
        Public counts of records, or of users, and of features.
    data_norm : float in (0, inf]
        Rows are clipped to this L2 norm, in units of the features. inf: no clipping,
        allowed only without privacy.
    adjacency : {"replace_one", "zero_out", "replace_user", "zero_out_user"}
    alpha : float in [0, inf), default=0.0
        L2 regularisation of the mean loss.
    fit_intercept : bool, default=True
    feature_bound : float in (0, inf], default=inf
        Entries are clipped to this magnitude before rows are clipped, in units of the
        features. A row's norm bounds its entries too.
    n_nonzero : int or None, default=None
        Most features that may have a nonzero weight; None: all of them.
    product_norm : float in [data_norm, inf] or None, default=None
        Bound on rows in products with weights, where these are rows before they were
        brought to `data_norm`; None: `data_norm`.
    offset : tuple of float, default=()
        Added to the raw predictions of every record, one for each output; released or
        public. Empty: nothing.
    holds_rows : bool, default=True
        Whether rows are in memory, or read anew at every pass.
    is_ordered : bool, default=True
        Whether every reading shows the records in the same order.
    is_permutable : bool, default=True
        Whether the records can be gone through in an order that is drawn.
    """

    loss: Loss
    n_samples: int
    n_features: int
    data_norm: float
    adjacency: TableRelation
    alpha: float = 0.0
    fit_intercept: bool = True
    feature_bound: float = math.inf
    n_nonzero: int | None = None
    product_norm: float | None = None
    offset: tuple[float, ...] = ()
    holds_rows: bool = True
    is_ordered: bool = True
    is_permutable: bool = True

    def __post_init__(self) -> None:
        data_norm = check_real(
            "data_norm", self.data_norm, low=0.0, high=math.inf, low_open=True
        )
        alpha = check_real("alpha", self.alpha, low=0.0, high=math.inf, high_open=True)
        check_table_relation(self.adjacency)
        check_bool("fit_intercept", self.fit_intercept)
        # Plain numbers, whatever NumPy scalars came in.
        object.__setattr__(self, "n_samples", check_count("n_samples", self.n_samples))
        object.__setattr__(
            self, "n_features", check_count("n_features", self.n_features)
        )
        object.__setattr__(self, "data_norm", data_norm)
        object.__setattr__(self, "alpha", alpha)
        bound = check_real(
            "feature_bound", self.feature_bound, low=0.0, high=math.inf, low_open=True
        )
        object.__setattr__(self, "feature_bound", bound)
        if self.n_nonzero is not None:
            most = check_count("n_nonzero", self.n_nonzero, high=self.n_features)
            object.__setattr__(self, "n_nonzero", most)

    @property
    def n_columns(self) -> int:
        """Number of weights per output, the intercept's included."""
        return self.n_features + self.fit_intercept

    @property
    def most_features(self) -> int:
        """Most features that may have a nonzero weight: `n_nonzero`, or all."""
        return self.n_features if self.n_nonzero is None else self.n_nonzero

    @property
    def n_telling(self) -> float:
        """How many records the rules take to tell of the weights: less of few labels.

        Of weighted labels; for defaults only.
        """
        return self.n_samples * typical_weight(self.loss)

    @property
    def row_norm(self) -> float:
        """Bound on the norm of a row with its intercept column."""
        return self.data_norm * (math.sqrt(2) if self.fit_intercept else 1.0)

    @property
    def entry_bound(self) -> float:
        """Bound on the magnitude of an entry of a clipped row."""
        return min(self.feature_bound, self.data_norm)

    @property
    def full_entries(self) -> float:
        """How many entries of the largest magnitude fill a row of norm `data_norm`."""
        # Far more than there are features at the end: its square is finite too.
        return min(self.data_norm / self.entry_bound, _LARGEST_RATIO) ** 2

    @property
    def has_dense_rows(self) -> bool:
        """Whether public bounds say that every feature is in a row, more or less.

        Then a row at its bounds has more entries than the square root of the number of
        features.
        """
        return self.full_entries**2 >= self.n_features

    @property
    def intercept_value(self) -> float:
        """The constant in the intercept's column."""
        return self.data_norm if math.isfinite(self.data_norm) else 1.0

    def with_loss(self, loss: Loss) -> Self:
        return replace(self, loss=loss)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the weights: a row per column, a column per output."""
        return self.n_columns, self.loss.n_outputs

    @property
    def smoothness(self) -> float:
        """Public bound L on the curvature of one record's regularised loss."""
        return self.loss.smoothness * self.row_norm**2 + self.alpha
