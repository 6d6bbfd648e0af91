r"""Gradient descent of a network on Poisson samples with Gaussian noise on every sum.

The algorithm of ``_noisy_gd.py`` with B_t, a fresh, secret sample that every record
enters independently with probability ``q = batch_size / n``, in place of all records.
The sum is divided by the public batch_size, never by the number of records drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from skdp._configured import Checks, Given
from skdp._validation import check_count
from skdp.neural_network._noisy_gd import NetworkGD
from skdp.neural_network._rules import batch_size_of
from skdp.objectives._network import NetworkObjective
from skdp.privacy._accounting import Budget


@dataclass(frozen=True, kw_only=True)
class NetworkSGD(NetworkGD):
    r"""Noisy gradient descent of a network on Poisson samples.

    Privacy
    -------
    ``n_steps`` Poisson-sampled Gaussian releases of rate ``batch_size / n``, composed
    by privacy-loss distributions. The noise multiplier is sigma over the *zero_out*
    sensitivity C, under both adjacencies: replace_one is two steps for the whole run,
    by the null record. All iterates may be published, the samples may not.
    ``docs/proofs/networks.md``, ``docs/proofs/noisy_sgd.md``. Unit of privacy: one
    record.

    Parameters
    ----------
    n_steps, step_size, momentum, last_step, gradient_clip, tail
        As of `NetworkGD`.
    batch_size : int in [1, 2^31] or None, default=None
        Expected number of records in a sample; n_samples or more means all of them.
        None: all up to 8,192 records, and 4,096 above, or more where the multiplier
        would fall below about 1.

    References
    ----------
    .. [1] Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang (2016). Deep
       learning with differential privacy. CCS. https://arxiv.org/abs/1607.00133
    .. [2] Zhu, Dong and Wang (2022). Optimal accounting of differential privacy via
       characteristic function. AISTATS. https://arxiv.org/abs/2106.08567

    Deviations: numerical composition in place of the moments accountant; one clip for
    all layers with their biases; sums of integers.
    """

    key: ClassVar[str] = "noisy_sgd"
    checks: ClassVar[Checks] = {
        **NetworkGD.checks,
        "batch_size": partial(check_count, high=2**31),
    }

    batch_size: int

    @classmethod
    def adds_in_squares(cls, given: Given) -> bool:
        return False

    @classmethod
    def planned(cls, given: Given, objective: NetworkObjective, budget: Budget) -> Self:
        cls.check(given, budget)
        rest = cls.by_rule(given, objective, budget)
        return cls(batch_size=batch_size_of(given, objective, budget, rest), **rest)

    @property
    def mechanism(self) -> str:
        return "Gaussian noise on Poisson samples, or on all records if batch_size = n"

    def records_of_a_step(self, objective: NetworkObjective) -> int:
        return self.batch_size
