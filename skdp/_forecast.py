"""Noise against signal, by public facts: what is forecast, what `fit` warns of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skdp._card import card
from skdp._quiet import warn_once
from skdp._validation import check_real
from skdp.exceptions import NoiseDominatesWarning
from skdp.privacy._accounting import Budget
from skdp.privacy._adjacency import Relation
from skdp.privacy._gaussian import gaussian_epsilon, gaussian_mu

# Of any budget.
_LEAST_EPSILON, _LARGEST_EPSILON = 1e-6, 1e8


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Noise in a coefficient against the size of useful ones; public facts only.

    Attributes
    ----------
    coefficient_noise : float
        Standard deviation of the privacy noise in a coefficient that is learned to
        the end: of a linear model in a direction of average curvature, of a sparse one
        of the largest among the features, of a factorisation in an item's bias, of
        boosted trees in one of eight leaves.
    coefficient_scale : float
        Size of the coefficients of a model whose raw predictions vary by one unit of
        decision: one logit, half a hinge, a third of the target bound; in a sparse
        model of as many as it may have. Of biases a ninth of the width of the rating
        bounds.
    n_records : int
        Records, ratings or users that the noise is for.
    counted : {"records", "ratings", "users"}
        What is counted.
    little_to, constant_from : float
        Noise over scale up to which models were close to those without privacy, and
        from which on they were hardly better than a constant one: of the default 0.3
        and 12, or less with many labels, of named solvers 0.3 and 10, for delta = 0 0.3
        and 4, of sparse models 0.3 and 3, of factorisations 0.02 and 1.5, of boosted
        trees 0.01 and 1
        (``docs/how_to_choose.md``, ``benchmarks/dominating_noise.py``).
    """

    coefficient_noise: float
    coefficient_scale: float
    n_records: int
    counted: str = "records"
    little_to: float = 0.3
    constant_from: float = 10.0

    @property
    def noise_to_signal(self) -> float:
        """`coefficient_noise` over `coefficient_scale`."""
        return self.coefficient_noise / self.coefficient_scale

    @property
    def noise_dominates(self) -> bool:
        """Whether `fit` warns."""
        return self.noise_to_signal >= self.constant_from

    @property
    def records_for_little_noise(self) -> int:
        """Of what is `counted`: how many there have to be, with all else as it is."""
        return self._records_for(self.little_to)

    @property
    def verdict(self) -> str:
        """What to expect of a fit, in words."""
        if self.noise_dominates:
            return "expect hardly more than a constant model"
        if self.noise_to_signal <= self.little_to:
            return "expect a model close to the one without privacy"
        return "expect a model that is worse for its privacy, but useful"

    def _records_for(self, ratio: float) -> int:
        return math.ceil(self.n_records * self.noise_to_signal / ratio)

    def _in_words(self) -> str:
        # Few digits, so that folds of nearly the same size say the same.
        return (
            f"noise is about {rounded(self.noise_to_signal, 1)} times the size of the "
            f"coefficients: {self.verdict}"
        )

    def _where_it_ends(self) -> str:
        enough = rounded(self._records_for(self.constant_from), 2)
        little = rounded(self.records_for_little_noise, 2)
        return f"{enough} {self.counted} or more (little noise from {little} on)"


def rounded(number: float, digits: int) -> str:
    """So many digits of it, in words."""
    return f"{float(f'{number:.{digits - 1}e}'):,.10g}"


def relaxed(budget: Budget) -> tuple[str, ...]:
    """The remedy for those who pay for pure epsilon."""
    return ("delta above 0",) if budget.delta == 0 else ()


def warn_of_noise(
    signal: Signal, remedies: tuple[str, ...], *, where: str = "this fit"
) -> tuple[str, ...]:
    """Warn if noise dominates, once a statement; what stays on the record is returned.

    Parameters
    ----------
    remedies : tuple of str
        What to change, besides the number of records.
    """
    if not signal.noise_dominates:
        return ()
    warn_once(
        f"At this budget noise dominates {where}. The {signal._in_words()}. Use "
        f"{', '.join((signal._where_it_ends(), *remedies))}.",
        NoiseDominatesWarning,
    )
    return (signal._in_words(),)


@dataclass(frozen=True, kw_only=True)
class Forecast(Signal):
    """Noise against signal for a problem of some shape; public facts only.

    Attributes
    ----------
    epsilon, delta : float
    adjacency : str
        The guarantee that all the rest is for.
    solver : str
        Key of the solver that a fit would use.
    why_solver : str
    solver_params : mapping
        Its hyper-parameters, every rule filled in.
    noise_multiplier : float
        Of that solver: scale of its noise over the sensitivity of its query.
    notes : tuple of str
        What that solver foretells of its own.
    half_at : float or None
        Noise over scale at which a model is expected to have half of what one without
        privacy gains; None: that was not measured of this solver.
    coefficient_noise, coefficient_scale, n_records, counted
    little_to, constant_from
        As in `Signal`.
    """

    epsilon: float
    delta: float
    adjacency: Relation
    solver: str
    why_solver: str
    solver_params: Mapping[str, Any]
    noise_multiplier: float
    notes: tuple[str, ...] = ()
    half_at: float | None = None

    def epsilon_for(self, score: float) -> float:
        """The least epsilon at which a model is expected to reach a score.

        The strength is the number of records times mu, halved under replace_one. The
        expected score is ``strength / (strength + 140)``, and 0 below a strength of 50,
        where the model is the constant; with K > 2 labels both numbers are
        ``sqrt(K / 2)`` times as large. Only public facts count, and nothing is spent.

        It is a guess (``benchmarks/forecast_score.py``: scores 0.5, 0.75 and 0.9 on
        held-out rows, epsilon 0.1 to 4). On the six tables of declared columns that
        settled it, the guess was within a factor of 2 of the epsilon that was needed in
        67 % of cells, of 3 in 88 % and of 5 in 94 %; on seven other tables in 49, 63
        and 75 %. Weak signals need up to 17 times as much: two of the seven, on which
        the model without privacy takes less than a tenth off the constant's loss. So do
        sparse rows of texts. Strong signals in few records need a tenth as much.

        Parameters
        ----------
        score : float in (0, 1)
            Share of what the same model without privacy gains over the constant, in
            log-loss or deviance, or in 1 - R2 of a regression; no accuracy and no R2.

        Returns
        -------
        float in [1e-6, 1e8] or inf
            For this delta, adjacency and number of records. inf: beyond 1e8, the
            largest epsilon of any estimator.

        Raises
        ------
        ValueError, TypeError
            If `score` is no number in (0, 1), or the solver is not the default of
            linear models with a delta above 0, of which alone scores were measured.

        Examples
        --------
        >>> from skdp import forecast
        >>> told = forecast(10_000, 14)
        >>> round(told.epsilon_for(0.5), 2), round(told.epsilon_for(0.9), 2)
        (0.1, 1.07)
        """
        check_real(
            "score",
            score,
            low=0.0,
            high=1.0,
            low_open=True,
            high_open=True,
            remedy="Use a share such as 0.9 of what a model without privacy gains.",
        )
        if self.half_at is None:
            raise ValueError(
                "An epsilon for a score must be asked of the default of linear models "
                f"with a delta above 0. Got solver={self.solver!r}, delta="
                f"{self.delta:g}. Use solver='auto' and a delta such as 1e-6, or "
                "compare noise_to_signal."
            )
        # Where the ratio is constant_from itself, the model is the constant.
        ratio = min(self.half_at * (1 / score - 1), 0.999 * self.constant_from)
        mu = gaussian_mu(self.epsilon, self.delta) * self.noise_to_signal / ratio
        epsilon = max(gaussian_epsilon(mu, self.delta), _LEAST_EPSILON)
        return epsilon if epsilon <= _LARGEST_EPSILON else math.inf

    def __str__(self) -> str:
        return (
            f"({self.epsilon:g}, {self.delta:g}) under {self.adjacency}: "
            f"solver={self.solver!r} ({self.why_solver}). Noise in a coefficient: "
            f"{self.noise_to_signal:.2g} times its scale; {self.verdict}. Little noise "
            f"from {self.records_for_little_noise:,} {self.counted} on."
            + "".join(f" {note}." for note in self.notes)
        )

    def _repr_html_(self) -> str:
        told = {
            "guarantee": f"({self.epsilon:g}, {self.delta:g}), {self.adjacency}",
            "solver": f"{self.solver}: {self.why_solver}",
            "noise in a coefficient": f"{self.noise_to_signal:.2g} times its scale",
            "little noise from": f"{self.records_for_little_noise:,} {self.counted} on",
        }
        if self.notes:
            told["moreover"] = "; ".join(self.notes)
        verdict, is_good = self.verdict.capitalize(), not self.noise_dominates
        return card(verdict, told.items(), is_good=is_good)
