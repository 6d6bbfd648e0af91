"""`private_score`: one released number that says how good an estimator is."""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from skdp._base import UNIT, DeclaredEstimator, PrivateEstimator
from skdp._input import check_rows, check_targets, without_data
from skdp.model_selection._scoring import resolve_scoring
from skdp.model_selection._scoring_base import PrivateScoring
from skdp.privacy._accounting import Budget
from skdp.privacy._door import Commitment, commit
from skdp.privacy._laws import NoiseLaw, budget_of, quietest_law
from skdp.privacy._noise import NoiseSource
from skdp.privacy._record import PrivacyRecord


@dataclass(frozen=True)
class PrivateScore:
    """A released score.

    Parameters
    ----------
    value : float
        The score, greater is better. Private output.
    standard_error : float or None
        Of the noise alone, in units of the score: not of the records' being a sample.
        Public. None for scores that are no multiple of one sum.
    scoring : str
        scikit-learn's name. Public.
    privacy : PrivacyRecord
        What was released, at what cost.
    """

    value: float
    standard_error: float | None
    scoring: str
    privacy: PrivacyRecord

    def __float__(self) -> float:
        return self.value

    def _headline(self) -> str:
        noise = ""
        if self.standard_error is not None:
            noise = f" (standard error of the noise: {self.standard_error:.2g})"
        return f"{self.scoring} = {self.value:.6g}{noise}"

    def __repr__(self) -> str:
        return f"{self._headline()}\n{self.privacy!r}"

    def _repr_html_(self) -> str:
        headline = html.escape(self._headline())
        return f"<p><b>{headline}</b></p>{self.privacy._repr_html_()}"


def private_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    epsilon: float,
    delta: float = 0.0,
    adjacency: str = "replace_one",
    classes: Any = None,
    target_bounds: Any = None,
    random_state: int | None = None,
    ledger: Any = None,
) -> PrivateScore:
    r"""Score a fitted estimator with differential privacy for the scored records.

    **Privacy.** (epsilon, delta)-differential privacy for one record of (X, y), under
    `adjacency`, with the number of records public. Released is the score. The
    estimator counts as public, with what follows from it: use one that was fitted
    privately, or on other records. On the records it was fitted to, the costs of fit
    and score add up; a `ledger` adds them. What one record can change is derived in
    ``docs/proofs/private_score.md``. Its predictions for a row must follow from that
    row alone; a row for which it raises counts as predicted in the worst way.

    Parameters
    ----------
    estimator : fitted estimator
        A classifier or regressor, or a pipeline that ends in one.
    X : array-like or CSR of shape (n_samples, n_features)
        Checked as the estimator checks it if that shows before the commit: if the
        estimator, or the first step of a pipeline, takes numbers and is skdp's own, or
        there is no pipeline. Otherwise only for its length.
    y : array-like of shape (n_samples,)
        Labels, or finite targets.
    scoring : str, PrivateScoring or None, default=None
        "accuracy", "balanced_accuracy", "neg_log_loss", "neg_mean_absolute_error",
        "neg_mean_squared_error" or "r2". None: "accuracy" for classifiers,
        "neg_mean_squared_error" for regressors.
    epsilon : float in [1e-6, 1e8] or inf
        Privacy loss. inf gives scikit-learn's score, which is **not** private.
    delta : 0 or float in [1e-50, 1), default=0.0
        Probability with which the guarantee may fail. Used only if Gaussian noise is
        smaller than noise of pure epsilon.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What neighbouring data sets are: one record exchanged for any other, or for
        the null record, which contributes nothing.
    classes : array-like of labels or None, default=None
        Public. None: the estimator's.
    target_bounds : pair of floats or None, default=None
        Lowest and highest target, known without looking at the data; targets and
        predictions are clipped to them. None: the estimator's.
    random_state : int or None, default=None
        None: private noise. An integer makes the score reproducible and **not
        private**.
    ledger : BudgetLedger or None, default=None
        Books that the score is charged to before it reads the data.

    Returns
    -------
    PrivateScore
        ``float()`` of it is the score, clipped to the range of possible ones.

    Raises
    ------
    ValueError, TypeError
        For a parameter or input out of range, or a score that one record can change
        without a bound. Nothing was spent.
    BudgetExceeded
        If the ledger's cap does not allow this score. Nothing was read or spent.

    See Also
    --------
    sklearn.metrics.get_scorer : The scores without privacy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import BoundedScaler, DPLogisticRegression, private_score
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(
    ...     BoundedScaler(bounds=(0, 8)),  # centimetres, known without looking
    ...     DPLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1, 2]),
    ... ).fit(X[::2], y[::2])
    >>> score = private_score(model, X[1::2], y[1::2], epsilon=1.0)
    >>> 0 <= float(score) <= 1, score.privacy.epsilon
    (True, 1.0)
    """
    release = _ScoreRelease(epsilon, delta, adjacency, random_state, ledger)
    budget = release._check_privacy_params()
    check_is_fitted(estimator)
    found = resolve_scoring(
        scoring, estimator, classes=classes, target_bounds=target_bounds
    )
    X, y = _accepted(estimator, found, X, y)
    return release.run(found, estimator, X, y, budget)


class _ScoreRelease(PrivateEstimator):
    """Budget, books and noise of one score."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        adjacency: Any,
        random_state: int | None,
        ledger: Any,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    def run(
        self, scoring: PrivateScoring, estimator: Any, X: Any, y: Any, budget: Budget
    ) -> PrivateScore:
        """Declare, calibrate, commit, read."""
        n_samples = len(y)
        law = sensitivity = None
        if budget.is_finite:
            norms = {norm: scoring.sensitivity(self.adjacency, norm) for norm in (1, 2)}
            law = quietest_law(budget, scoring.size, norms)
            sensitivity, budget = norms[law.norm], budget_of(law, budget)
        noise = NoiseSource(self.random_state)
        done, notes = self._commit(law, scoring, budget, noise, n_samples)
        if not done.may_read:
            value = scoring.lowest
        elif law is None or sensitivity is None:
            value = float(get_scorer(scoring.name)(estimator, X, y))
        else:
            query = scoring.statistic(estimator, X, y)
            released = law.release(noise, query, sensitivity, done.noise_multiplier)
            value = scoring.score(released, n_samples)
        sigma = 0.0
        if law is not None and sensitivity is not None:
            sigma = law.scale(sensitivity, done.noise_multiplier, scoring.size).sigma
        facts = {
            "epsilon": budget.epsilon if noise.is_private else math.inf,
            "delta": budget.delta,
            "adjacency": self.adjacency,
            "event": done.event,
            "noise_multiplier": done.noise_multiplier,
            "sensitivity": sensitivity,
            "noise_scale": sigma,
            "n_samples": n_samples,
            "n_features": X.shape[1] if len(X.shape) > 1 else 1,
            "warnings": notes,
            "ledger": self.ledger.path if self.ledger is not None else "",
            "dataset": self.ledger.dataset if self.ledger is not None else "",
        }
        return PrivateScore(
            value,
            _standard_error(law, scoring, sigma, n_samples),
            scoring.name,
            _record(law, scoring, noise.is_private, facts),
        )

    def _commit(
        self,
        law: NoiseLaw | None,
        scoring: PrivateScoring,
        budget: Budget,
        noise: NoiseSource,
        n_samples: int,
    ) -> tuple[Commitment, tuple[str, ...]]:
        """Put the release on the books; nothing was read before."""
        notes = self._warn_of_public_facts(budget, n_samples, noise)
        done = commit(
            law.event if law is not None else None,
            budget,
            adjacency=self.adjacency,
            ledger=self.ledger,
            noise=noise,
            label=f"private_score(scoring={scoring.name!r})",
        )
        return done, notes


def _standard_error(
    law: NoiseLaw | None, scoring: PrivateScoring, sigma: float, n_samples: int
) -> float | None:
    """Of a score that is a multiple of one number with this noise."""
    if law is None:
        return 0.0
    if not scoring.is_single:
        return None
    return (scoring.highest - scoring.lowest) / n_samples * law.deviation(sigma, 1)


def _record(
    law: NoiseLaw | None,
    scoring: PrivateScoring,
    has_private_noise: bool,
    facts: dict[str, Any],
) -> PrivacyRecord:
    reason, why_solver = "epsilon=inf: no noise, no clipping.", "epsilon=inf"
    if law is not None:
        reason = "random_state is set: the noise can be reproduced by anyone."
        why_solver = "the law with the least noise"
    if law is not None and has_private_noise:
        reason = (
            f"{law.name} noise for an L{law.norm} sensitivity, from the operating "
            "system's entropy"
        )
    return PrivacyRecord(
        estimator=f"private_score({scoring.name})",
        is_private=law is not None and has_private_noise,
        reason=reason,
        unit=UNIT,
        solver=law.name.lower() if law is not None else "exact",
        solver_params=asdict(scoring),
        why_solver=why_solver,
        data_norm=None,
        assumed_public=(
            "number of records",
            "the estimator, which predicts each row by that row alone",
        ),
        **facts,
    )


def _accepted(
    estimator: Any, scoring: PrivateScoring, X: Any, y: Any
) -> tuple[Any, np.ndarray]:
    """X and y as passed, or refused; nothing else is learned of them."""
    if y is None:
        raise ValueError("The y argument must hold the true values. Got None.")
    if not hasattr(X, "shape"):
        X = without_data(
            lambda: np.asarray(X), "The X argument must be a table. Got something else."
        )
    _check_first_step(estimator, X)
    if scoring.task == "regression":
        y = check_targets(estimator, X, y)
    else:
        y = without_data(
            lambda: _labels(X, y),
            "The y argument must be a column of labels, one for each row of X. Got "
            "something else.",
        )
    if len(y) == 0:
        raise ValueError("The X argument must have at least one row. Got none.")
    return X, y


def _labels(X: Any, y: Any) -> np.ndarray:
    check_consistent_length(X, y)
    return np.asarray(column_or_1d(y))


def _check_first_step(estimator: Any, X: Any) -> None:
    """Refuse what the estimator would refuse, as far as that is known of it."""
    first = estimator
    while hasattr(first, "steps"):
        first = first.steps[0][1]
    is_own = isinstance(first, (DeclaredEstimator, PrivateEstimator))
    if first is not estimator and not is_own:
        return
    takes = get_tags(first).input_tags
    if takes.allow_nan or takes.string or takes.categorical:
        return
    check_rows(first, X, reset=False, accept_sparse=takes.sparse or not is_own)
