"""Matrices of ratings as pairs of ids, one row for each rating."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse


def pairs_from_sparse(R: Any) -> tuple[np.ndarray, np.ndarray]:
    """The stored entries of a sparse matrix as pairs and ratings.

    Parameters
    ----------
    R : sparse matrix or array of shape (n_users, n_items)
        Users in rows, items in columns. An entry that is stored is a rating, also if it
        is 0; one that is not stored is none.

    Returns
    -------
    X : ndarray of int64 of shape (n_ratings, 2)
        Row and column number of each rating.
    y : ndarray of shape (n_ratings,)
        The ratings.

    Raises
    ------
    TypeError
        If R is not sparse: of a dense array nobody knows which entries are ratings.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from skdp.decomposition import pairs_from_sparse
    >>> X, y = pairs_from_sparse(csr_array([[5, 0], [3, 4]]))
    >>> X.tolist(), y.tolist()
    ([[0, 0], [1, 0], [1, 1]], [5, 3, 4])
    """
    if not issparse(R):
        raise TypeError(
            "The R argument must be a sparse matrix, whose stored entries are the "
            f"ratings. Got an instance of {type(R).__name__}. Use "
            "scipy.sparse.csr_array."
        )
    entries = R.tocoo()
    X = np.column_stack([entries.row, entries.col]).astype(np.int64)
    return X, np.asarray(entries.data)
