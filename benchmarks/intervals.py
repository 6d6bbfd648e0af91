"""How often intervals of private linear models hold the coefficients.

equal
    Least squares by adassp; errors have one variance.
unequal
    Least squares whose errors are larger for some rows, by noisy_newton.
by_one_variance
    The same records by adassp, which takes their errors to have one variance.
logistic
    Logistic regression by noisy_newton.
few
    The same of fewer records and more columns: how often there are intervals.
straight, labels
    Straight and logistic models of eight correlated columns, by noisy_newton: `equal`
    correlations of .95; a `chain`, whose correlations are .95 to the power of the
    distance; `three` columns that correlate by .97 beside five independent ones; and
    condition numbers of 1,000 and 10,000.
clipped
    Logistic regression with a penalty, of rows of which many are clipped, so that no
    logistic model is true of them: what is to be held are the coefficients that the
    clipped, penalised objective has in the population, found without noise on half a
    million other records.

Coverage is that of all coefficients together, the intercept among them, with its
standard error by fits, where there are intervals: `given` says for how many of the
coefficients. `least` is the coverage of the coefficient that is held least often. The
width is over that of the intervals without privacy on the same records.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks._runner import Line, benchmark, line
from skdp import BoundedScaler, DPLinearRegression, DPLogisticRegression
from skdp.sums._grid_rows import clipped_products

EPSILONS = (0.5, 1.0, 4.0)
_ERROR, _NEEDED = 0.2, 1.959964
_SLOPE, _MIDDLE = 3.0, 0.3
_NORM, _ALPHA, _POPULATION = 0.5, 0.01, 500_000
_COLUMNS = 8
_SPECTRA = ("equal", "chain", "three", "1e3", "1e4")


class Sample(NamedTuple):
    """Scaled rows with their targets, and the coefficients behind them."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray


def _rows(rng: np.random.Generator, n_samples: int, n_features: int) -> np.ndarray:
    """Even in a declared box, of norm at most 1."""
    X = rng.uniform(0, 1, (n_samples, n_features))
    return np.asarray(BoundedScaler(bounds=(0, 1)).fit_transform(X))


def _signs(rng: np.random.Generator, n_features: int) -> np.ndarray:
    return np.asarray(rng.choice([-1.0, 1.0], n_features) / np.sqrt(n_features))


def sample(n_samples: int, n_features: int, seed: int) -> Sample:
    """Even rows, coefficients of either sign, errors cut at the declared bounds."""
    rng = np.random.default_rng(seed)
    X = _rows(rng, n_samples, n_features)
    slopes = _signs(rng, n_features)
    truth = np.append(slopes, 0.1)
    errors = rng.normal(scale=_ERROR, size=n_samples).clip(-0.9, 0.9)
    return Sample(X, X @ slopes + 0.1 + errors, truth)


def uneven(n_samples: int, n_features: int, seed: int) -> Sample:
    """The same with errors that grow with the first feature, to either side."""
    rng = np.random.default_rng(seed)
    X = _rows(rng, n_samples, n_features)
    slopes = _signs(rng, n_features)
    scale = 2 * _ERROR * np.sqrt(n_features) * np.abs(X[:, 0])
    errors = (scale * rng.normal(size=n_samples)).clip(-0.9, 0.9)
    return Sample(X, X @ slopes + 0.1 + errors, np.append(slopes, 0.1))


def labelled(n_samples: int, n_features: int, seed: int) -> Sample:
    """Labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = _rows(rng, n_samples, n_features)
    slopes = _SLOPE * _signs(rng, n_features)
    chances = expit(X @ slopes + _MIDDLE)
    y = (rng.uniform(size=n_samples) < chances).astype(np.int64)
    return Sample(X, y, np.append(slopes, _MIDDLE))


def correlated(
    rng: np.random.Generator, n_samples: int, correlations: np.ndarray
) -> np.ndarray:
    """Normal columns with these correlations, cut at 3 in a declared box."""
    own = correlations.copy()
    np.fill_diagonal(own, 1.0)
    drawn = rng.multivariate_normal(np.zeros(len(own)), own, n_samples)
    return np.asarray(np.clip(drawn, -3, 3) / (3 * np.sqrt(len(own))))


def _correlations(name: str) -> np.ndarray:
    if name == "equal":
        return np.full((_COLUMNS, _COLUMNS), 0.95)
    if name == "chain":
        i = np.arange(_COLUMNS)
        return np.asarray(0.95 ** np.abs(i[:, None] - i))
    if name == "three":
        found = np.eye(_COLUMNS)
        found[:3, :3] = 0.97
        return found
    basis = np.linalg.qr(np.random.default_rng(7).normal(size=(_COLUMNS, _COLUMNS)))[0]
    own = (basis * np.geomspace(1, 1 / float(name), _COLUMNS)) @ basis.T
    scale = np.sqrt(np.diag(own))
    return np.asarray(own / np.outer(scale, scale))


def straight(n_samples: int, name: str, seed: int) -> Sample:
    """A straight line of correlated columns whose predictions vary by .25."""
    rng = np.random.default_rng(seed)
    X = correlated(rng, n_samples, _correlations(name))
    slopes = 0.25 * _usual_slopes(name)
    errors = rng.normal(scale=0.25, size=n_samples).clip(-0.9, 0.9)
    return Sample(X, X @ slopes + 0.1 + errors, np.append(slopes, 0.1))


def labels(n_samples: int, name: str, seed: int) -> Sample:
    """Labels of a logistic model whose log-odds vary by 1.2."""
    rng = np.random.default_rng(seed)
    X = correlated(rng, n_samples, _correlations(name))
    slopes = 1.2 * _usual_slopes(name)
    y = (rng.uniform(size=n_samples) < expit(X @ slopes + _MIDDLE)).astype(np.int64)
    return Sample(X, y, np.append(slopes, _MIDDLE))


@cache
def _usual_slopes(name: str) -> np.ndarray:
    """Slopes of either sign and one size, so that predictions vary by 1."""
    X = correlated(np.random.default_rng(1), 20_000, _correlations(name))
    signs = np.random.default_rng(5).choice([-1.0, 1.0], _COLUMNS)
    return np.asarray(signs / np.std(X @ signs))


def shortened(n_samples: int, n_features: int, seed: int) -> Sample:
    """The same labels, and what the clipped, penalised objective makes of them."""
    drawn = labelled(n_samples, n_features, seed)
    # Rows are as likely with either sign of a feature.
    signs = np.append(np.sign(drawn.truth[:-1]), 1.0)
    return drawn._replace(truth=signs * _in_population(n_features))


@cache
def _in_population(n_features: int) -> np.ndarray:
    """Where all slopes are positive."""
    rng = np.random.default_rng(10**6)
    X = _rows(rng, _POPULATION, n_features)
    slopes = np.full(n_features, _SLOPE / np.sqrt(n_features))
    # Chances in place of labels: less noise, the same mean.
    U, chances = with_constant(_clipped(X)), expit(X @ slopes + _MIDDLE)
    return newton(U, chances, _penalty(len(X), U.shape[1]))


def _clipped(X: np.ndarray) -> np.ndarray:
    """Rows as a fit with `_NORM` has them."""
    return np.asarray(clipped_products(X, np.eye(X.shape[1]), _NORM))


def _penalty(n_samples: int, n_columns: int) -> np.ndarray:
    """Of the sum of the losses; the intercept's column holds `_NORM`."""
    penalty = np.full(n_columns, n_samples * _ALPHA)
    penalty[-1] /= _NORM**2
    return penalty


def with_constant(X: np.ndarray) -> np.ndarray:
    """Rows and a column of ones."""
    return np.column_stack([X, np.ones(len(X))])


def newton(U: np.ndarray, y: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Logistic regression without privacy."""
    weights = np.zeros(U.shape[1])
    for _ in range(10):
        chances = expit(U @ weights)
        bent = (U.T * (chances * (1 - chances))) @ U + np.diag(penalty)
        gradient = U.T @ (chances - y) + penalty * weights
        weights -= np.linalg.solve(bent, gradient)
    return weights


def without_privacy(drawn: Sample) -> np.ndarray:
    """Half the widths of the intervals of least squares."""
    X = with_constant(drawn.X)
    found, (squares,), _, _ = np.linalg.lstsq(X, drawn.y, rcond=None)
    variance = squares / (len(X) - len(found))
    covariance = variance * np.linalg.inv(X.T @ X)
    return np.asarray(_NEEDED * np.sqrt(np.diag(covariance)))


def robust(drawn: Sample) -> np.ndarray:
    """The same of a sandwich."""
    X = with_constant(drawn.X)
    found = np.linalg.lstsq(X, drawn.y, rcond=None)[0]
    return _half_widths(X, X @ found - drawn.y, X.T @ X)


def of_labels(drawn: Sample, *, is_clipped: bool = False) -> np.ndarray:
    """The same of logistic regression, with the clip and the penalty or without."""
    U = with_constant(_clipped(drawn.X) if is_clipped else drawn.X)
    penalty = is_clipped * _penalty(len(U), U.shape[1])
    chances = expit(U @ newton(U, drawn.y, penalty))
    bent = (U.T * (chances * (1 - chances))) @ U + np.diag(penalty)
    return _half_widths(U, chances - drawn.y, bent)


def _half_widths(U: np.ndarray, residual: np.ndarray, bent: np.ndarray) -> np.ndarray:
    inverse = np.linalg.inv(bent)
    covariance = inverse @ (U.T * residual**2) @ U @ inverse
    return np.asarray(_NEEDED * np.sqrt(np.diag(covariance)))


class Case(NamedTuple):
    """Records, a model of them, and half the widths without privacy."""

    drawn: Callable[[int, Any, int], Sample]
    model: Callable[..., Any]
    usual: Callable[[Sample], np.ndarray]
    sizes: tuple[tuple[int, int | str], ...] = ((5_000, 3), (20_000, 5))


_BY_MOMENTS = partial(
    DPLinearRegression,
    target_bounds=(-2, 2),
    solver="adassp",
    solver_params={"squares_weight": 0.5},
)
_BY_STEPS = partial(DPLinearRegression, target_bounds=(-2, 2), solver="noisy_newton")
_OF_LABELS = partial(DPLogisticRegression, classes=[0, 1], solver="noisy_newton")


def _of_clipped(epsilon: float, **params: Any) -> Any:
    (n_samples, _) = CASES["clipped"].sizes[0]
    # The objective's penalty is of the mean loss.
    strength = 1 / (n_samples * _ALPHA)
    return _OF_LABELS(epsilon, data_norm=_NORM, C=strength, **params)


CASES = {
    "equal": Case(sample, _BY_MOMENTS, without_privacy),
    "unequal": Case(uneven, _BY_STEPS, robust, ((5_000, 2),)),
    "by_one_variance": Case(uneven, _BY_MOMENTS, robust, ((5_000, 2),)),
    "logistic": Case(labelled, _OF_LABELS, of_labels, ((10_000, 3), (30_000, 5))),
    "few": Case(
        labelled,
        _OF_LABELS,
        of_labels,
        ((2_500, 3), (5_000, 3), (10_000, 10), (20_000, 10)),
    ),
    "straight": Case(
        straight, _BY_STEPS, robust, tuple((16_000, name) for name in _SPECTRA)
    ),
    "labels": Case(
        labels, _OF_LABELS, of_labels, tuple((16_000, name) for name in _SPECTRA)
    ),
    "clipped": Case(
        shortened, _of_clipped, partial(of_labels, is_clipped=True), ((20_000, 3),)
    ),
}


def covered(
    drawn: Sample, epsilon: float, adjacency: str, name: str = "equal"
) -> tuple[float, float]:
    """Share of the coefficients that are held, and the widths over those without.

    NaN and inf where no coefficient has an interval.
    """
    is_held, wider = held(drawn, epsilon, adjacency, name)
    return float(np.nanmean(is_held)), wider


def held(
    drawn: Sample, epsilon: float, adjacency: str, name: str
) -> tuple[np.ndarray, float]:
    """Which of the coefficients are held, 1 or 0, and the same."""
    case = CASES[name]
    model = case.model(epsilon, adjacency=adjacency)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends = model.fit(drawn.X, drawn.y).estimates_.conf_int()
    low, high = ends["lower"].to_numpy(), ends["upper"].to_numpy()
    if np.isnan(low).all():
        return low, np.inf
    is_held = ((low <= drawn.truth) & (drawn.truth <= high)).astype(float)
    is_held[np.isnan(low)] = np.nan
    wider = (high - low) / 2 / case.usual(drawn)
    return is_held, float(np.nanmedian(wider))


@benchmark("intervals", runs=400, judged=True)
def lines(cases: str = "") -> Iterator[Line]:
    """Coverage of all coefficients together; `cases` are names with commas."""
    for name in cases.split(",") if cases else CASES:
        for size, adjacency, epsilon in product(
            CASES[name].sizes, ("replace_one", "zero_out"), EPSILONS
        ):
            n_samples, n_features = size
            yield line(
                {
                    "case": name,
                    "n": n_samples,
                    "d": n_features,
                    "adjacency": adjacency,
                    "epsilon": epsilon,
                },
                "95 % intervals",
                partial(_measured, name, size, adjacency, epsilon),
                ("width", *(f"_{i}" for i in range(_MOST + 1))),
                private=True,
                judge=_summary,
            )


_MOST = max(
    _COLUMNS if isinstance(d, str) else d
    for case in CASES.values()
    for _, d in case.sizes
)


def _measured(
    name: str, size: tuple[int, int | str], adjacency: str, epsilon: float, seed: int
) -> list[float]:
    is_held, wider = held(CASES[name].drawn(*size, seed), epsilon, adjacency, name)
    return [wider, *is_held, *[np.nan] * (_MOST + 1 - len(is_held))]


def _summary(values: np.ndarray, _: Any) -> str:
    """How many coefficients have intervals, and coverage and width where they do."""
    values = values[:, ~np.isnan(values).all(axis=0)]
    has_any = np.isfinite(values[:, 0])
    if not has_any.any():
        return "given 0 %"
    own = values[has_any, 1:]
    shown = f"given {100 * np.isfinite(own).sum() / values[:, 1:].size:.0f} %"
    error = np.nanmean(own, axis=1).std() / np.sqrt(len(own))
    least, width = np.nanmean(own, axis=0).min(), np.median(values[has_any, 0])
    return (
        f"{shown}, holds {100 * np.nanmean(own):.1f} ± {100 * error:.1f} %, least "
        f"{100 * least:.1f} %, width {width:.2f}"
    )
