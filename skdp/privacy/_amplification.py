"""What a secret batch of the records is worth, where an exact law is known."""

from __future__ import annotations

import math

# Above this the exponential is taken out of the logarithm, before it overflows.
_LARGE = 500.0
# Bound on the relative rounding error of the formula, added to round up.
_FORMULA_ERROR = 1e-12


def batch_epsilon(epsilon: float, rate: float) -> float:
    """Epsilon of an epsilon-DP release of a batch that stays secret.

    ``log(1 + rate (exp(epsilon) - 1))`` for a batch of a fixed size, drawn afresh and
    uniformly without replacement ([1]_, theorem 9). Exact: some releases attain it.

    Parameters
    ----------
    epsilon : float in (0, inf)
        Of the release, for the exchange of **one record of the batch for any other**;
        also where data sets are neighbours by a missing record, since another record
        takes its place in the batch (``docs/proofs/nesterov.md``, Lemma 3).
    rate : float in (0, 1]
        Size of the batch over the number of records, both public.

    References
    ----------
    .. [1] Balle, Barthe and Gaboardi (2018). Privacy amplification by subsampling:
       tight analyses via couplings and divergences. NeurIPS.
       https://arxiv.org/abs/1807.01647
    """
    if epsilon > _LARGE:
        amplified = epsilon + math.log(rate + math.exp(-epsilon))
    else:
        amplified = math.log1p(rate * math.expm1(epsilon))
    return amplified * (1 + _FORMULA_ERROR)
