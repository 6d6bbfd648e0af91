"""MNIST tests of the bolt-on paper: ten one-vs-all models, test accuracy.

As published: 60,000 + 10,000 images, a public Gaussian projection to 50 columns, rows
divided by their norm, epsilon and delta shared out equally over the ten models. A run
has a projection, a permutation and noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import product

import numpy as np

from benchmarks._line import Line
from benchmarks._papers import _bolt_on as bolt_on
from benchmarks._papers._privacy import (
    classical_multiplier,
    exact_multiplier,
    sampled_gaussian_epsilon,
    spherical,
)
from benchmarks._papers._projected_mnist import D, K, M, accuracies, projected
from skdp.privacy import GaussianEvent, PureEvent, epsilon_of

_DELTA = 1 / M**2
_REFUSED = "Algorithms 4 and 5 have no guarantee with delta = 0"


@lru_cache(maxsize=8)
def _snapshots(
    runs: tuple[int, ...], most: int, batch: int, regularisation: float
) -> list[np.ndarray]:
    """Weights after each pass, without noise; convex if nothing is regularised."""
    X, Y, _, _ = projected(runs)
    if regularisation:
        descent = bolt_on.psgd_strongly_convex(most, batch, regularisation)
    else:
        descent = bolt_on.psgd_convex(M, most, batch)
    return list(bolt_on.train(X, Y, descent))


def _bolted_on(
    passes: int,
    most: int,
    batch: int,
    regularisation: float,
    noise: tuple[str, float],
    runs: Sequence[int],
) -> np.ndarray:
    """Accuracies of noise-free training with noise added to the weights at the end."""
    kind, scale = noise
    W = _snapshots(tuple(runs), most, batch, regularisation)[passes - 1]
    added = []
    for run in runs:
        rng = np.random.default_rng([3, run])
        shape = W.shape[1:]
        if kind == "pure":
            added.append(spherical(rng, shape, scale))
        else:
            added.append(rng.normal(0, scale, shape))
    return accuracies(W + np.stack(added), tuple(runs))


def _noisy(descent: bolt_on.Descent, runs: Sequence[int]) -> np.ndarray:
    """Accuracies of training with noise at every update."""
    X, Y, _, _ = projected(tuple(runs))
    rngs = [np.random.default_rng([4, run]) for run in runs]
    *_, W = bolt_on.train(X, Y, descent, rngs)
    return accuracies(W, tuple(runs))


def _pure_line(scale: float, true_sensitivity: float) -> tuple[str, float, float]:
    """Kind, scale and true epsilon of spherical noise for each of the ten models."""
    true = epsilon_of(PureEvent(true_sensitivity / scale, K), 0.0)
    return "pure", scale, true


def _gaussian_line(
    deviation: float, true_sensitivity: float
) -> tuple[str, float, float]:
    """The same for Gaussian noise; one record is in all ten models."""
    event = GaussianEvent(deviation / true_sensitivity, K)
    return "gaussian", deviation, epsilon_of(event, _DELTA)


def _share(epsilon: float, sensitivity: float, *, pure: bool) -> float:
    """Scale of the paper: each model gets epsilon / 10 (and delta / 10)."""
    if pure:
        return sensitivity * K / epsilon
    return sensitivity * classical_multiplier(epsilon / K, _DELTA / K)


def _joint(epsilon: float, sensitivity: float) -> float:
    """Deviation for all ten models together, exactly calibrated."""
    return sensitivity * math.sqrt(K) * exact_multiplier(epsilon, _DELTA)


def convex(
    *,
    settings: list[list[int]],
    gaussian: list[list[int]],
    rivals: list[list[int]],
    epsilon: list[float],
) -> Iterator[Line]:
    """Tests 1 and 2, Figures 4a and 4c: `settings` are pairs (k, b)."""
    for pure, chosen in ((True, settings), (False, gaussian)):
        for k, b in chosen:
            most = max(passes for passes, batch in settings + gaussian if batch == b)
            sensitivity = bolt_on.convex_sensitivity(M, k, b)
            measure = partial(_bolted_on, k, most, b, 0.0)
            place = _place(1 if pure else 2, f"k={k}, b={b}")
            yield _noiseless(place, measure)
            for one in epsilon:
                scale = _share(one, sensitivity, pure=pure)
                kinds = {"bolt-on": scale}
                if not pure:
                    kinds["bolt-on, joint Gaussian"] = _joint(one, sensitivity)
                yield from _lines(place, one, kinds, sensitivity, measure, pure)
    for k, b in rivals:
        for test in (1, 2):
            place = _place(test, f"k={k}, b={b}")
            for one in epsilon:
                yield _scs13(place, k, b, one, 0.0, pure=test == 1)
                yield from _bst14(place, k, b, one, 0.0, pure=test == 1)


def strongly_convex(
    *,
    settings: list[list[int]],
    regularisation: list[float],
    rivals: list[float],
    epsilon: list[float],
) -> Iterator[Line]:
    """Tests 3 and 4, with the sensitivity as printed and with the exact one.

    `settings` are pairs (k, b), `rivals` the values of `regularisation` at which SCS13
    and BST14 run too.
    """
    for (passes, batch), value in product(settings, regularisation):
        most = max(k for k, b in settings if b == batch)
        descent = bolt_on.psgd_strongly_convex(passes, batch, value)
        exact = bolt_on.exact_sensitivity(M, descent, beta=1 + value)
        printed = bolt_on.printed_sensitivity(M, batch, value)
        measure = partial(_bolted_on, passes, most, batch, value)
        for test in (3, 4):
            pure = test == 3
            setting = f"lambda={value:g}"
            if len(settings) > 1:
                setting += f", k={passes}, b={batch}"
            place = _place(test, setting)
            yield _noiseless(place, measure)
            for one in epsilon:
                kinds = {
                    "bolt-on, divided by b": _share(one, printed, pure=pure),
                    "bolt-on, corrected": (
                        _share(one, exact, pure=True) if pure else _joint(one, exact)
                    ),
                }
                yield from _lines(place, one, kinds, exact, measure, pure)
                if value not in rivals:
                    continue
                yield _scs13(place, passes, batch, one, value, pure=pure)
                yield from _bst14(place, passes, batch, one, value, pure=pure)


def _place(test: int, setting: str) -> dict[str, str | float]:
    return {"setting": f"Test {test}, {setting}"}


def _noiseless(
    place: dict[str, str | float], measure: Callable[..., np.ndarray]
) -> Line:
    return Line(
        place=place | {"epsilon": math.inf},
        method="no noise",
        claimed=math.inf,
        true=math.inf,
        measure=partial(measure, ("gaussian", 0.0)),
    )


def _lines(
    place: dict[str, str | float],
    epsilon: float,
    scales: dict[str, float],
    sensitivity: float,
    measure: Callable[..., np.ndarray],
    pure: bool,
) -> Iterator[Line]:
    for method, scale in scales.items():
        of = _pure_line if pure else _gaussian_line
        kind, _, true = of(scale, sensitivity)
        yield Line(
            place=place | {"epsilon": epsilon},
            method=method,
            claimed=epsilon,
            true=true,
            delta=0.0 if pure else _DELTA,
            measure=partial(measure, (kind, scale)),
            note="true epsilon: upper bound" if "divided" in method else "",
        )


def _scs13(
    place: dict[str, str | float],
    k: int,
    b: int,
    epsilon: float,
    value: float,
    *,
    pure: bool,
) -> Line:
    place = place | {"epsilon": epsilon}
    if not pure:
        return _refused(place, "SCS13", "its noise for a delta above 0 is not stated")

    return Line(
        place=place,
        method="SCS13",
        claimed=epsilon,
        true=epsilon,
        measure=partial(_noisy, bolt_on.scs13(k, b, epsilon / K, value)),
        note="reading: epsilon / k per pass",
    )


def _refused(place: dict[str, str | float], method: str, reason: str) -> Line:
    claimed = float(place["epsilon"])
    return Line(
        place=place,
        method=method,
        claimed=claimed,
        true=math.nan,
        measure=None,
        refusal=reason,
    )


def _bst14(
    place: dict[str, str | float],
    k: int,
    b: int,
    epsilon: float,
    value: float,
    *,
    pure: bool,
) -> Iterator[Line]:
    place = place | {"epsilon": epsilon}
    if pure:
        yield _refused(place, "BST14", _REFUSED)
        return
    printed = bolt_on.bst14_deviation(M, k, b, epsilon / K, _DELTA / K)
    deviations = {
        "BST14": printed,
        "BST14, corrected": _bst14_corrected(k, b, epsilon),
    }
    for method, deviation in deviations.items():
        yield Line(
            place=place,
            method=method,
            claimed=epsilon,
            true=bst14_epsilon(deviation, k, b),
            delta=_DELTA,
            measure=partial(_noisy, _bst14_descent(k, b, deviation, value)),
            note="true epsilon: upper bound",
        )


def _bst14_descent(k: int, b: int, deviation: float, value: float) -> bolt_on.Descent:
    if value:
        return bolt_on.bst14_strongly_convex(k, b, deviation, value)
    return bolt_on.bst14_convex(k, b, deviation, D)


def bst14_epsilon(deviation: float, k: int, b: int) -> float:
    """Upper bound for all ten models, which see the same batches.

    An exchanged record changes the sum of a batch by at most 2 in each model.
    """
    multiplier = deviation / (2 * math.sqrt(K))
    return sampled_gaussian_epsilon(multiplier, b / M, k * M // b, _DELTA)


@lru_cache
def _bst14_corrected(k: int, b: int, epsilon: float) -> float:
    """Smallest deviation, to a hundredth, whose upper bound is the epsilon asked."""
    low, high = 1e-1, 1e5
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        if bst14_epsilon(middle, k, b) > epsilon:
            low = middle
        else:
            high = middle
    return high
