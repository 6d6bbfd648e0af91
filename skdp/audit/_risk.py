"""`membership_risk`: what the best attacker gains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._checks import check_count, check_delta, check_epsilon, check_real
from skdp._show import Display, Shown, axes_or_new
from skdp.privacy.accounting._risk import (
    PowerCurve,
    bet_sentence,
    power_of_event,
    power_of_pair,
)
from skdp.privacy.ledger._ledger import BudgetLedger
from skdp.privacy.release._record import PrivacyRecord

# ---------------------------------------- membership_risk: bounds before there are data


_RARE = 1e-3
# Of a picture: the least rate with logarithmic axes, and the number of points.
_LEAST, _POINTS = 1e-5, 201
_WHAT = "a fitted object of skdp, its privacy_, or an Event"


@dataclass(frozen=True, kw_only=True, repr=False)
class MembershipRisk(Shown):
    """Bounds on the gain of the best attacker, who knows everything but one record.

    All numbers follow from the guarantee: they hold for every data set, every record
    and every attack, and nothing was read to find them. They are upper bounds for two
    neighbouring data sets under `adjacency`.

    Parameters
    ----------
    power : PowerCurve
        Bound on the true positive rate by the false positive rate.
    adjacency : str or None
        None if it is unknown.
    basis : str
        The guarantee that the bounds follow from.
    n_records : int
        How many records of the table one person has.
    """

    power: PowerCurve
    adjacency: str | None
    basis: str
    n_records: int

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> NDArray[np.float64]:
        """Largest true positive rate of an attack with this false positive rate.

        Parameters
        ----------
        false_positive_rate : float in [0, 1], or array of them

        Returns
        -------
        ndarray of float, of the same shape
        """
        rates = np.asarray(false_positive_rate, dtype=np.float64)
        if not np.all((rates >= 0) & (rates <= 1)):
            raise ValueError(
                "The 'false_positive_rate' parameter must hold numbers in [0, 1]. "
                "Got others."
            )
        return self.power(rates)

    @property
    def advantage(self) -> float:
        """Largest true minus false positive rate, in [0, 1]."""
        return max(0.0, 2 * self.power.best(0.5) - 1)

    def accuracy(self, prior: float = 0.5) -> float:
        """Largest probability of guessing right.

        Parameters
        ----------
        prior : float in [0, 1], default=0.5
            How probable the record's presence is before the release is seen.
        """
        return self.power.best(_check_rate("prior", prior))

    def posterior(
        self, prior: float = 0.5, false_positive_rate: float = _RARE
    ) -> float:
        """Largest probability that an alarm is right.

        Parameters
        ----------
        prior : float in [0, 1], default=0.5
        false_positive_rate : float in (0, 1], default=0.001
            Rarer alarms may be more certain.
        """
        prior = _check_rate("prior", prior)
        rate = check_real(
            "false_positive_rate", false_positive_rate, low=1e-12, high=1.0
        )
        hit = prior * float(self.true_positive_rate(rate))
        return hit / (hit + (1 - prior) * rate)

    def reconstruction(self, prior: float) -> float:
        """Largest probability of guessing what a record holds.

        Parameters
        ----------
        prior : float in [0, 1]
            Probability of the best guess without the release.
        """
        return float(self.true_positive_rate(_check_rate("prior", prior)))

    def sentence(self) -> str:
        """The largest chance to win an even bet, in one sentence to be quoted."""
        text = bet_sentence(self.advantage, self.adjacency, self.basis)
        if self.n_records == 1:
            return text
        return f"Of {self.n_records} records of a person, taken together: {text}"

    def to_dict(self) -> dict[str, Any]:
        """The main numbers, JSON-ready."""
        return {
            "adjacency": self.adjacency,
            "basis": self.basis,
            "n_records": self.n_records,
            "advantage": self.advantage,
            "accuracy_of_even_odds": self.accuracy(),
            "true_positive_rate_at_0.001": self.reconstruction(_RARE),
            "sentence": self.sentence(),
        }

    def plot(
        self, *, log: bool = False, ax: Any = None, name: str | None = None
    ) -> Display:
        """Draw the largest true positive rates: no ROC curve is above the line.

        Parameters
        ----------
        log : bool, default=False
            Axes in powers of ten from 1e-5, which show rare false alarms.
        ax : matplotlib Axes or None, default=None
            None makes a figure.
        name : str or None, default=None
            Name in the legend; None: the advantage.

        Returns
        -------
        display
            With `line_`, `ax_` and `figure_`.

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        ax = axes_or_new(ax, "true_positive_rate()")
        rates = np.linspace(0.0, 1.0, _POINTS)
        if log:
            rates = np.geomspace(_LEAST, 1.0, _POINTS)
        label = name or f"best attack, advantage {self.advantage:.3f}"
        (line,) = ax.plot(rates, self.true_positive_rate(rates), label=label)
        ax.plot(rates, rates, linestyle=":", color="0.5", label="blind guess")
        ax.set(
            xlabel="false positive rate",
            ylabel="true positive rate, at most",
            title=f"Membership: {self.adjacency or 'any adjacency'}",
        )
        if log:
            ax.set(xscale="log", yscale="log")
        ax.legend(loc="lower right")
        return Display.of(ax, line)

    def _rows(self) -> list[tuple[str, str]]:
        rare = self.reconstruction(_RARE)
        return [
            ("advantage", f"{self.advantage:.4f} (true minus false positive rate)"),
            ("guessing right", f"{self.accuracy():.4f} (a coin: 0.5)"),
            ("at 0.1 % false alarms", f"{rare:.4%} found"),
            ("an alarm is right", f"{self.posterior():.4f} (even odds, 0.1 %)"),
            ("reconstruction", f"{self.reconstruction(0.01):.4f} (without: 0.01)"),
        ]


def membership_risk(
    model: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    ledger: BudgetLedger | None = None,
    n_records: int = 1,
) -> MembershipRisk:
    r"""Bound the gain of the best attacker from a release, by its guarantee alone.

    Give one of `model`, `epsilon` with `delta`, or `ledger`. The noise of a model is
    known, and for Gaussian noise the bound is exact: at epsilon 1 and delta 1e-6 the
    attacker gains 9.4 points, where epsilon and delta alone would allow 46.

    Parameters
    ----------
    model : object or None, default=None
        A fitted estimator, transformer, search or score of skdp, its `privacy_`, or an
        `Event`.
    epsilon : float in [1e-6, 1e8] or inf, or None, default=None
    delta : 0 or float in [1e-50, 1), or None, default=None
        None: 0, if epsilon is given.
    ledger : BudgetLedger or None, default=None
        Its cap bounds the gain, also for fits chosen one after another. For fits that
        were fixed in advance use ``membership_risk(ledger.to_event())``.
    n_records : int of at least 1, default=1
        How many records of the table one person has.

    Returns
    -------
    MembershipRisk

    Raises
    ------
    TypeError
        If the model has made no release.
    ValueError
        Unless exactly one of the three is given.

    Notes
    -----
    Privacy: no data are read, and nothing is spent. For a seeded fit, or a fit with
    ``epsilon=inf``, every bound is 1.

    The gain of a guess of a record's content is bounded like membership [1]_: without
    the record, a set of outputs that favours one content is as rare as a right guess
    without the release.

    References
    ----------
    .. [1] Hayes, Mahloujifar and Balle (2023). Bounding training data reconstruction in
       DP-SGD. NeurIPS. https://arxiv.org/abs/2302.07225

    Examples
    --------
    >>> from skdp.audit import membership_risk
    >>> from skdp.privacy import GaussianEvent
    >>> risk = membership_risk(GaussianEvent(noise_multiplier=4.23))
    >>> round(risk.advantage, 3), round(float(risk.true_positive_rate(0.001)), 4)
    (0.094, 0.0022)
    >>> round(membership_risk(epsilon=1.0, delta=1e-6).advantage, 3)
    0.462
    """
    given = [model is not None, epsilon is not None, ledger is not None]
    if sum(given) != 1 or (delta is not None and epsilon is None):
        raise ValueError(
            "membership_risk needs one of 'model', 'epsilon' (with 'delta') and "
            f"'ledger'. Got {sum(given)} of them. Leave the others out; delta belongs "
            "to epsilon."
        )
    times = check_count("n_records", n_records)
    if epsilon is not None:
        size = check_epsilon(epsilon), check_delta(0.0 if delta is None else delta)
        curve = power_of_pair(*size, times)
        return MembershipRisk(
            power=curve, adjacency=None, basis="epsilon and delta", n_records=times
        )
    if ledger is not None:
        if not isinstance(ledger, BudgetLedger):
            raise TypeError(
                "The 'ledger' parameter must be a BudgetLedger. "
                f"Got an instance of {type(ledger).__name__}."
            )
        return MembershipRisk(
            power=power_of_pair(ledger.cap.epsilon, ledger.cap.delta, times),
            adjacency=ledger.adjacency,
            basis="the cap of the ledger",
            n_records=times,
        )
    return _of_model(model, times)


def _of_model(model: Any, times: int) -> MembershipRisk:
    # A score has `privacy`, a fitted object `privacy_`.
    record = getattr(model, "privacy_", getattr(model, "privacy", model))
    if isinstance(record, PrivacyRecord):
        event, adjacency = record.event, record.adjacency
    elif hasattr(record, "leaves"):
        event, adjacency = record, None
    else:
        raise TypeError(
            f"The 'model' parameter must be {_WHAT}. Got an instance of "
            f"{type(model).__name__} without privacy_. Fit it first, or pass the "
            "epsilon and delta that privacy_report shows for a pipeline."
        )
    gaussian = math.isfinite(event.mu_squared) and event.pure_epsilon == 0
    return MembershipRisk(
        power=power_of_event(event, times),
        adjacency=adjacency,
        basis="its Gaussian noise" if gaussian else "its noise",
        n_records=times,
    )


def _check_rate(name: str, value: Any) -> float:
    return check_real(name, value, low=0.0, high=1.0)
