"""Gradient sums in which all that a user adds is clipped as one vector.

A user adds the sum over the own rows, whole numbers, shortened to the norm of
`user_clip` records and cut towards 0. Proof: ``docs/proofs/users.md``, Lemma 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp._floats import FloatArray, IntArray
from skdp.data._centred import CentredRows
from skdp.data._source import Source, crowding
from skdp.privacy._query import Bound
from skdp.queries._exact_gradient import ExactGradientSum, Kept
from skdp.queries._exact_sums import WholeSum
from skdp.queries._gradient import Gradient, Gradients
from skdp.queries._grid import RESIDUAL_BITS, on_grid
from skdp.queries._row_grid import LONGEST
from skdp.queries._summed import Sums

# Users whose clipped parts, numbers below 2^41, add up in 64 bits.
_MOST_USERS = 1 << 20


@dataclass(frozen=True)
class UserGradients(Gradients):
    """Gradient sums of one objective, of users.

    `user_clip`, in (0, 1], is the norm to which a user's part is clipped, in units of
    the largest of a record.
    """

    user_clip: float = 1.0

    def at(self, weights: FloatArray) -> UserGradient:
        """The query at released weights of shape (n_columns, n_outputs)."""
        return UserGradient(self, on_grid(weights))

    def bound(self, weights_norm: float) -> Bound:
        """Of the ball in which a user's part lies; of users alone."""
        record = super().bound(weights_norm).zero_out
        if record is None or not self.is_exact:
            return Bound()
        most = self.user_clip * record
        return Bound(zero_out_user=most, replace_user=2 * most)


@dataclass(frozen=True, eq=False)
class UserGradient(Gradient):
    """The sum of users' clipped parts at `weights`, which are released."""

    family: UserGradients

    def open(self, source: Source) -> UserSum:
        return UserSum(source, self.family)

    def whole_sums(self, reader: UserSum, rows: IntArray | None) -> Sums:
        most = self.bound().under("zero_out_user")
        return reader.clipped_sums(self.weights, most)

    def total(self, reader: UserSum, rows: IntArray | None) -> FloatArray:
        return self.answer(reader.value(self.whole_sums(reader, rows)))

    def read(self, released: FloatArray) -> FloatArray:
        """The gradient sum, in which a user's largest part is that of a record."""
        return super().read(released) / self.family.user_clip


class UserSum(ExactGradientSum):
    """Sums over users of what each adds, clipped; a user's rows may be anywhere."""

    def __init__(self, source: Source, gradients: UserGradients) -> None:
        super().__init__(source, gradients.objective, gradients.residual_clip)
        self._weight = gradients.intercept_weight * gradients.objective.fit_intercept

    def _gridded(self, X: Any) -> Any:
        # What is clipped is a vector of features, not of what they are made of.
        return super()._gridded(X.made() if isinstance(X, CentredRows) else X)

    def clipped_sums(self, weights: FloatArray, most: float) -> Sums:
        """What the sum follows from, with users' parts of norm at most `most`."""
        of_features, of_constant = self._parts(weights)
        constant = self._weight * LONGEST
        n_users, size = len(of_features), of_features[0].size + of_constant[0].size
        squares = np.zeros(n_users)
        # One after the other, so that a user's norm depends on no other user.
        for own in of_constant.T:
            squares += (constant * own) ** 2
        for column in of_features.reshape(n_users, -1).T:
            squares += column * column
        unit = self._objective.data_norm / LONGEST * self._largest
        # Less for the rounding of squares, of their sum, of roots and of products.
        shorter = 1 - (size + 16) * 2.0**-51
        limit = most * shorter / (unit * 2.0**-RESIDUAL_BITS)
        lengths = np.sqrt(squares)
        factor = limit / np.maximum(lengths, limit)
        of_features *= factor[:, None, None]
        of_constant *= factor[:, None]
        return _summed(of_features), _summed(of_constant[:, None, :])

    def _parts(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each user's sums of rows times residuals, and of residuals; whole."""
        # Of a part of a source users have the numbers that they have in all of it.
        n = round(self._objective.n_samples * crowding(self._source))
        k = weights.shape[1]
        of_features = np.zeros((n, self._objective.n_features, k))
        of_constant = np.zeros((n, k))
        for block in self._blocks(None):
            rows = block.products.in_double()
            residual = self._residual(rows, block, weights)
            units = self._units(residual, None, RESIDUAL_BITS)
            users, whose = _users_of(block)
            of_constant[users] += whose @ units
            for j, own in enumerate(units.T):
                if issparse(rows.entries):
                    moved = rows.entries.multiply(own[:, None])
                    of_features[users, :, j] += (whose @ csr_array(moved)).toarray()
                else:
                    of_features[users, :, j] += whose @ (rows.entries * own[:, None])
        return of_features, of_constant


def _users_of(block: Kept) -> tuple[IntArray, csr_array]:
    """Users of a block's rows that count, and which rows are whose.

    Of these alone, so that time does not grow with blocks times users.
    """
    if block.users is None or block.present is None:
        raise TypeError(
            "Users' parts must be of rows whose users are known. Got others."
        )
    rows = np.flatnonzero(block.present)
    users, codes = np.unique(block.users[rows], return_inverse=True)
    shape = len(users), len(block.present)
    return users, csr_array((np.ones(len(rows)), (codes, rows)), shape)


def _summed(parts: FloatArray) -> WholeSum:
    """The sum of all users' parts, cut towards 0."""
    total = WholeSum(parts.shape[1:])
    for first in range(0, len(parts), _MOST_USERS):
        run = np.trunc(parts[first : first + _MOST_USERS])
        total.add(run.astype(np.int64).sum(axis=0))
    return total
