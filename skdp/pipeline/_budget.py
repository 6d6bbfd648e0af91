"""`set_budget`: one budget for a pipeline, split among its private steps."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sklearn.base import clone

from skdp._checks import check_positive, explained
from skdp.exceptions import UnaccountedStepError
from skdp.pipeline._report import (
    MU_MARGIN,
    check_estimator,
    check_vouched,
    step_reports,
    total_of,
    unaccounted_in,
    warn_of_clipped_rows,
)
from skdp.pipeline._walk import private_steps, walk
from skdp.privacy.accounting._calibrate import Budget
from skdp.privacy.accounting._gaussian import gaussian_epsilon, gaussian_mu

Estimator = TypeVar("Estimator")

# Weight of a final predictor; each other step has weight 1.
_PREDICTOR = 3.0
# Rounding must not lift a sum of shares above the whole.
_ROUND_DOWN = 1 - 1e-12
# Relative steps that bring a rounded-up epsilon back to its mu.
_STEPS_BACK = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class _Share:
    """A private step and its weight."""

    path: str
    step: Any
    weight: float


_HOW_TO_CALL = (
    "Write set_budget(model, epsilon=1.0, delta=1e-6): what all steps may cost."
)


@partial(explained, when_missing=_HOW_TO_CALL)
def set_budget(
    estimator: Estimator,
    *,
    epsilon: float,
    delta: float,
    weights: Mapping[str, float] | None = None,
    data_independent: Collection[Any] = (),
) -> Estimator:
    """Copy a pipeline, and divide one budget among its private steps.

    Steps that release Gaussian noise only share one delta, and their mu^2 are
    proportional to their weights: together they are as private as one Gaussian release
    at the whole budget. Steps of other mechanisms get shares of epsilon and of delta
    by basic composition, and so do all steps at ``delta=0``. If there are several
    private steps, those with ``solver="auto"`` get parameters with which their noise
    adds up without loss (not at ``delta=0``): linear models and boosting
    ``solver_params={"law": "gaussian"}``, networks ``solver="noisy_gd"``, and sparse
    models ``"iht"``, unless the bounds say that ``"auto"`` may take ``"peeling"``.

    Parameters
    ----------
    estimator : estimator
        Not changed.
    epsilon : float in [1e-6, 1e8]
        Privacy loss of all steps together.
    delta : 0 or float in [1e-50, 1)
    weights : mapping from names of steps to positive numbers or None, default=None
        Paths as in `privacy_report`, or their last part if it names one private step
        only. A predictor at the end has weight 3 unless named here, every other step 1.
    data_independent : collection of classes or instances, default=()
        As in `privacy_report`.

    Returns
    -------
    estimator
        A clone.

    Raises
    ------
    UnaccountedStepError
        If a step reads the data outside of any accounting; the message names
        alternatives.
    ValueError, TypeError
        If there is no private step, a private step is seeded or fitted already
        (FrozenEstimator), a name in `weights` is unknown, or a share would be below
        the smallest epsilon.

    Warns
    -----
    ClippedRowsWarning
        As in `privacy_report`.

    Examples
    --------
    >>> from sklearn.feature_selection import SelectFromModel
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdp import DPLogisticRegression, privacy_report, set_budget
    >>> model = make_pipeline(
    ...     SelectFromModel(DPLogisticRegression()), DPLogisticRegression()
    ... )
    >>> model = set_budget(model, epsilon=1.0, delta=1e-6)
    >>> [round(step.epsilon, 3) for step in privacy_report(model).steps]
    [0.475, 0.857]
    """
    check_estimator(estimator)
    check_vouched(data_independent)
    budget = Budget(epsilon, delta)
    check_accounted(estimator, data_independent)
    private_steps(estimator)  # refuses what a clone would not show: frozen steps
    result: Estimator = clone(estimator)
    set_budget_in_place(result, budget, weights)
    warn_of_clipped_rows(walk(result, planned=True))
    return result


def set_budget_in_place(
    estimator: Any, budget: Budget, weights: Mapping[str, float] | None = None
) -> None:
    """Set the budgets of the private steps of an unfitted estimator.

    Other steps are assumed to be free.
    """
    if not budget.is_finite:
        raise ValueError(
            "The 'epsilon' parameter must be finite here. Got inf. Set epsilon=inf on "
            "the steps themselves for a fit without privacy."
        )
    shares = _shares(private_steps(estimator), weights)
    relations = sorted({str(share.step.step_privacy().adjacency) for share in shares})
    if len(relations) > 1:
        raise ValueError(
            "The private steps that share a budget must have the same adjacency, since "
            "costs under different ones cannot be added. Got "
            f"{relations}. Give all of them the same 'adjacency'."
        )
    for share in shares:
        _check_settable(share)
    if budget.delta == 0 or len(shares) == 1:
        _add_up(shares, budget)
    else:
        _add_up_in_squares(shares, budget)
    _check_total(shares, budget)


def check_accounted(estimator: Any, data_independent: Collection[Any] = ()) -> None:
    """Raise UnaccountedStepError if a step to be fitted is unaccounted."""
    rows = step_reports(list(walk(estimator, planned=True)), data_independent)
    unaccounted = unaccounted_in(rows)
    if unaccounted:
        raise UnaccountedStepError(
            "A budget can be set only for a pipeline whose steps are all accounted "
            f"for. Got {unaccounted}."
        )


def _check_settable(share: _Share) -> None:
    # The seed is checked, not the step's epsilon: that may be inf and is set here.
    if getattr(share.step, "random_state", None) is not None:
        raise ValueError(
            f"Every private step must have random_state=None. Got a seed in "
            f"{share.path}, which is not private whatever its epsilon."
        )


def _shares(
    steps: Sequence[tuple[str, Any]], weights: Mapping[str, float] | None
) -> list[_Share]:
    if not steps:
        raise ValueError(
            "The 'estimator' parameter must have a private step. Got none. Use a "
            "private estimator of skdp where the data are read."
        )
    named = _weights_by_path(
        [path for path, _ in steps], {} if weights is None else weights
    )
    last = steps[-1][1]
    return [
        _Share(path, step, named.get(path, _default_weight(step is last, step)))
        for path, step in steps
    ]


def _default_weight(is_last: bool, step: Any) -> float:
    return _PREDICTOR if is_last and hasattr(step, "predict") else 1.0


def _weights_by_path(
    paths: Sequence[str], weights: Mapping[str, float]
) -> dict[str, float]:
    """Weights under full paths; a name may be a path or an unambiguous last part."""
    if not isinstance(weights, Mapping):
        raise TypeError(
            "The 'weights' parameter must be None or a mapping from names of steps to "
            f"numbers. Got an instance of {type(weights).__name__}."
        )
    named = {}
    for name, weight in weights.items():
        matches = [path for path in paths if path == name]
        matches = matches or [x for x in paths if x.rsplit("/", 1)[-1] == name]
        if len(matches) != 1 or matches[0] in named:
            raise ValueError(
                "The 'weights' parameter must name each private step at most once, by "
                f"its path or by a last part that no other has. Got {name!r}. The "
                f"private steps are {list(paths)}."
            )
        named[matches[0]] = check_positive(f"weights[{name!r}]", weight)
    return named


def _add_up(shares: Sequence[_Share], budget: Budget) -> None:
    """Set shares of epsilon and of delta by basic composition."""
    whole = math.fsum(share.weight for share in shares)
    for share in shares:
        _set(share, _part(budget, share.weight / whole))


def _add_up_in_squares(shares: Sequence[_Share], budget: Budget) -> None:
    """Compose the Gaussian steps into one event, and add the other steps to it."""
    gaussian: list[_Share] = []
    others: list[_Share] = []
    for share in shares:
        # The mechanism may depend on the kind of budget, so a budget is set before
        # asking.
        _set(share, budget)
        share.step._use_composable_noise()
        adds = share.step.step_privacy().adds_in_squares
        (gaussian if adds else others).append(share)
    whole = math.fsum(share.weight for share in shares)
    for share in others:
        _set(share, _part(budget, share.weight / whole))
    if gaussian:
        weight = math.fsum(share.weight for share in gaussian)
        _share_squares(gaussian, weight, _part(budget, weight / whole))


def _share_squares(shares: Sequence[_Share], whole: float, budget: Budget) -> None:
    """Set shares of mu^2 at one delta."""
    mu = gaussian_mu(budget.epsilon, budget.delta)
    for share in shares:
        part = mu * math.sqrt(share.weight / whole) * (1 - 2 * MU_MARGIN)
        epsilon = _epsilon_within(part, budget.delta, share.path)
        _set(share, Budget(epsilon, budget.delta))


def _epsilon_within(mu: float, delta: float, path: str) -> float:
    """An epsilon at which the mu of a step is at most this one."""
    rounded_up = gaussian_epsilon(mu, delta)
    for step_back in _STEPS_BACK:
        epsilon = rounded_up * (1 - step_back)
        if epsilon >= 1e-6 and gaussian_mu(epsilon, delta) <= mu:
            return epsilon
    raise _too_small(path)


def _part(budget: Budget, share: float) -> Budget:
    if share == 1:
        return budget
    factor = share * _ROUND_DOWN
    try:
        return Budget(budget.epsilon * factor, budget.delta * factor)
    except ValueError:
        raise _too_small("a step") from None


def _too_small(path: str) -> ValueError:
    return ValueError(
        f"The share of {path} must be at least epsilon=1e-6 (and delta=1e-50). Got "
        "less. Use a larger budget, or weights that are closer together."
    )


def _set(share: _Share, budget: Budget) -> None:
    share.step.set_params(epsilon=budget.epsilon, delta=budget.delta)


def _check_total(shares: Sequence[_Share], budget: Budget) -> None:
    """Check the total with the report's arithmetic; a failure is a bug of skdp."""
    planned = [share.step.step_privacy() for share in shares]
    epsilon, delta = total_of(planned)
    if epsilon > budget.epsilon or delta > budget.delta:
        raise RuntimeError(
            f"The steps must cost at most epsilon={budget.epsilon!r}, delta="
            f"{budget.delta!r} together. Got {epsilon!r}, {delta!r}. Please report it."
        )
