"""The effects of persons that follow from a descent on hazards; post-processing.

A descent goes a known part of the way to each true weight, and adds chance of a known
variance. Weights are posterior means. Bands have a prior for details only. Section
"From weights to effects" of ``docs/proofs/survival.md`` derives the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skdp._arrays import FloatArray
from skdp.solvers._centred_descent import CentredSolution
from skdp.solvers._centred_rows import CentredStates, EffectsOfStates
from skdp.solvers._life_table import EFFECTS, SHARES, HazardBase
from skdp.solvers._run_noise import NoiseOfRun, Principal, clipped, effect_noise

# Variance of the effects of persons if nothing is known: hazards of two typical persons
# differ by a factor of e^1.4.
_TYPICAL = 1.0
# Deviation of the logarithm of the variance of true weights: of straight lines and
# categories around the typical one, of the bends of all columns around that, and of the
# bends of a column around those of all.
# In many designs bands of 5,000 persons cover .92, .94, .94 with 1, and .92, .94, .93
# with 1.5, and .95, .90, .94 with 2 (epsilon .3, 1, 4; 40 fits, errors of about .01):
# `python -m benchmarks survival_constants --set constants=_SPREAD`.
_SPREAD = 1.5
# Probability that a curve has no bends. With 0 these bands cover .96 and are a tenth
# wider, and bands of straight lines cover .98 to 1; with .7 they cover .93, .91, .93
# (`--set constants=_STRAIGHT`).
_STRAIGHT = 0.6
# Logarithms of the variances that are considered, over the typical one.
_LOGS = np.linspace(-12.0, 6.0, 73)
# Directions of a part with less than this share of its largest variance are details:
# curves have one direction of nearly straight lines, and common categories have nearly
# equal ones. Details of a curve are its bends, and those of a text rare categories.
# With 0.3 coverage and width are the same within their errors. With 0 nothing is a
# detail: bands of 5,000 persons cover .96, .94, .96, and are .88, .68, .45 wide, not
# .42, .20, .11 (`--set constants=_DETAIL`).
_DETAIL = 0.5
# In directions of which a descent learns less, no estimate is made.
_LEAST_LEARNED = 1e-3
# With this variance hazards of two typical persons differ by a factor of e^7. Without a
# limit they overflow where nobody has the event and nothing is known of the effects.
_MOST_VARIANCE = 25.0


@dataclass(frozen=True, kw_only=True)
class HazardSolution(CentredSolution):
    """Weights and intervals, and how certain they are; post-processing.

    Parameters
    ----------
    middle : ndarray of float64 of shape (n_features, 1)
        Weights in the middle of the bands.
    middle_constant : ndarray of float64 of shape (n_intervals,)
        Log-hazards of a row at the centre in the middle of the bands.
    of_weights : tuple of ndarray of float64 of shape (n_features, n_directions)
        Errors of these weights in independent directions, one array for each part of
        the rows, as long as their standard deviations.
    of_times : ndarray of float64 of shape (n_intervals,)
        Variance of the logarithm of the cumulated hazard at the end of each interval.
    stretch : float in [1, inf)
        Factor by which the weights make up, on average, for the clip of rows.
    """

    middle: FloatArray
    middle_constant: FloatArray
    of_weights: tuple[FloatArray, ...]
    of_times: FloatArray
    stretch: float

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        rows, found = solution.centred, solution.found
        assert isinstance(rows, CentredStates)
        parts = rows.principal
        # The curvature depends on how large effects are.
        effects = _Effects.of(solution, _Effects.of(solution, _TYPICAL).of_truth)
        constant, middle, of_times = _of_intervals(solution, effects)
        facts = vars(solution) | {"constant": constant}
        facts["weights"] = found.kept * _weights(rows, effects.shrunk * effects.weights)
        if solution.states is not None:
            facts["states"] = _shrunk(solution.states, parts, found.noise, effects)
        return cls(
            **facts,
            middle=_weights(rows, effects.middle),
            middle_constant=middle,
            of_weights=rows.back(parts, effects.errors),
            of_times=of_times,
            stretch=effects.stretch,
        )


class _Effects(NamedTuple):
    """Estimates of the true weights, from the weights of the descent.

    Parameters
    ----------
    run : NoiseOfRun
        The noise, with the curvature for effects of some variance.
    weights : ndarray of float64 of shape (n_directions,)
        Weights of the descent in the principal directions of the parts.
    shrunk : ndarray of float64 of shape (n_directions,)
        Posterior means of the true weights, over the weights.
    middle, errors : ndarray of float64 of shape (n_directions,)
        Estimates of the true weights and their standard deviations, with a prior for
        details only.
    stretch : float
        As in `HazardSolution`.
    of_descent, of_model, of_truth : float
        Variance of the effects of the descent and of the model, and expected variance
        of the true effects.
    """

    run: NoiseOfRun
    weights: FloatArray
    shrunk: FloatArray
    middle: FloatArray
    errors: FloatArray
    stretch: float
    of_descent: float
    of_model: float
    of_truth: float

    @classmethod
    def of(cls, solution: CentredSolution, variance: float) -> Self:
        """Estimates with the curvature for effects of this variance."""
        kept, noise, rows = solution.found.kept, solution.found.noise, solution.centred
        base, n = noise.base, noise.n_samples
        assert isinstance(base, HazardBase)
        assert isinstance(rows, CentredStates)
        parts = rows.principal
        weights = rows.along(parts, solution.found.mean[:, 0])
        spreads, unit = clipped(np.concatenate([part.spreads for part in parts]))
        curvature = (base.table.chord(variance) / n,)
        squares = (float(base.table.hazards(variance).squares.sum()) / n,)
        run = replace(noise, base=replace(base, curvature=curvature, squares=squares))
        learned = run.learned(spreads, unit)[:, 0]
        chance = np.maximum(run.variance(spreads, unit)[:, 0], 1e-300)
        typical = _TYPICAL / max(float(spreads.sum()), 1e-300)
        groups, details = _groups(rows, parts), _details(parts)
        shrunk, left = _posterior(weights, learned, chance, groups, typical)
        if not noise.deviations.any():  # epsilon = inf: the plain estimate
            shrunk = np.ones(len(spreads))
        free = np.maximum(learned, _LEAST_LEARNED)
        stretch = _stretch(rows)
        energy = float(spreads @ (shrunk * weights) ** 2)
        of_truth = (energy + float(spreads @ left)) / stretch**2
        return cls(
            run=run,
            weights=weights,
            shrunk=shrunk,
            middle=np.where(details, shrunk, 1 / free) * weights,
            errors=np.sqrt(np.where(details, left, chance / free**2)),
            stretch=stretch,
            of_descent=kept**2 * float(spreads @ weights**2) / stretch**2,
            of_model=kept**2 * energy / stretch**2,
            of_truth=min(of_truth, _MOST_VARIANCE),
        )


def _weights(rows: CentredStates, values: FloatArray) -> FloatArray:
    """Weights of features from weights in principal directions."""
    each = [part.sum(axis=1) for part in rows.back(rows.principal, values)]
    return np.asarray(np.sum(each, axis=0))[:, None]


def _posterior(
    weights: FloatArray,
    learned: FloatArray,
    chance: FloatArray,
    groups: NDArray[np.int_],
    typical: float,
) -> tuple[FloatArray, FloatArray]:
    """Posterior means of the true weights, over the weights, and posterior variances.

    Parameters
    ----------
    weights, learned, chance : ndarray of float64 of shape (n_directions,)
        ``weights`` are ``learned`` times the true weights plus chance of this variance.
    groups : ndarray of int of shape (n_directions,)
        True weights of a group have a common variance. The first group has lines and
        categories; each of the others has the bends of a curve.
    typical : float
        Variance of the true weights of lines if nothing is known.
    """
    sizes = typical * np.exp(_LOGS)[:, None]
    expected = sizes * learned**2 + chance
    each = -0.5 * (np.log(expected) + weights**2 / expected)
    ours = [each[:, groups == group].sum(axis=1) for group in range(groups.max() + 1)]
    belief = _belief(np.stack(ours))[groups].T
    gains = sizes * learned / expected
    shrunk = np.sum(belief * gains, axis=0)
    apart = (gains - shrunk) ** 2 * weights**2
    left = np.sum(belief * (sizes * (1 - gains * learned) + apart), axis=0)
    return shrunk, left


def _belief(likely: FloatArray) -> FloatArray:
    """Probability of each variance of `_LOGS` in each group, from log-likelihoods."""
    lines, curves = likely[0], likely[1:]
    lines = softmax(lines - (_LOGS / _SPREAD) ** 2 / 2)
    near = softmax(-((np.subtract.outer(_LOGS, _LOGS) / _SPREAD) ** 2) / 2, axis=1)
    # The smallest variance is none.
    near = (1 - _STRAIGHT) * near + _STRAIGHT * (np.arange(len(_LOGS)) == 0)
    curves = np.exp(curves - curves.max(axis=1, keepdims=True))
    # Given the variance of the bends of all columns, by what each curve says of it.
    says = np.log(np.maximum(curves @ near.T, 1e-300))
    of_all = says.sum(axis=0) - ((_LOGS - lines @ _LOGS) / _SPREAD) ** 2 / 2
    curves *= softmax(of_all - says, axis=1) @ near
    return np.vstack([lines, curves / curves.sum(axis=1, keepdims=True)])


def _groups(rows: CentredStates, parts: list[Principal]) -> NDArray[np.int_]:
    """Group of each direction in `_posterior`."""
    # A category is a feature, and a point of a curve has a feature of each fineness.
    features = np.diff(rows.states.basis.indptr)
    each = np.split(features, np.cumsum(rows.states.parts)[:-1])
    curves = [own.max(initial=0) > 1 for own in each]
    numbers = [own * (1 + part) for part, own in enumerate(curves)]
    repeated = np.repeat(numbers, [len(part.spreads) for part in parts])
    return np.asarray(repeated * _details(parts))


def _shrunk(
    states: EffectsOfStates, parts: list[Principal], noise: NoiseOfRun, true: _Effects
) -> EffectsOfStates:
    """The noise in the effects of states after each direction is shrunk."""
    ends = np.cumsum([len(part.spreads) for part in parts])[:-1]
    pairs = [effect_noise(parts, each).deviations for each in (noise, true.run)]
    factors = [
        np.linalg.norm(now * by, axis=1)
        / np.maximum(np.linalg.norm(before, axis=1), 1e-300)
        for before, now, by in zip(*pairs, np.split(true.shrunk, ends), strict=True)
    ]
    return states._replace(deviations=np.concatenate(factors) * states.deviations)


def _details(parts: list[Principal]) -> NDArray[np.bool_]:
    """Directions with the details of a part, whose effects are smaller if smooth."""
    each = [part.spreads < _DETAIL * part.spreads.max(initial=0.0) for part in parts]
    return np.concatenate(each)


def _stretch(rows: Any) -> float:
    """The factor of `HazardSolution`, for independent columns and normal squares."""
    squares = [np.sum(part.places**2, axis=1) for part in rows.principal]
    shares = np.split(rows.margins, np.cumsum(rows.states.parts)[:-1])
    means = [own @ each for own, each in zip(shares, squares, strict=True)]
    moments = [own @ each**2 for own, each in zip(shares, squares, strict=True)]
    spread = math.sqrt(max(sum(moments) - sum(mean**2 for mean in means), 0.0))
    lengths = np.maximum(sum(means) + spread * EFFECTS, 0.0)
    kept = 1 / np.sqrt(np.maximum(lengths, 1.0))
    if not lengths.any():  # rows do not vary
        return 1.0
    return float(SHARES @ (kept * lengths) / (SHARES @ (kept**2 * lengths)))


def _of_intervals(
    solution: CentredSolution, effects: _Effects
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-hazards of the model, of the bands, and the variance of their cumulated sums.

    What the descent has not learned of an interval follows from the table. Hazards of
    a row at the centre depend on the variance of the effects, which is that of the
    model or that of the true effects; the descent has learned those for its effects.
    The variance is that of the logarithms of the sums.
    """
    kept, noise = solution.found.kept, solution.found.noise
    base, square = noise.base, noise.paces[0].intercept_weight ** 2
    assert isinstance(base, HazardBase)
    table, now = base.table, base.table.hazards(effects.of_model)
    bend = square * now.curvature / noise.n_samples
    learned = -kept * np.expm1(-noise.flow * bend)
    start, found = np.array(base.constant), solution.constant
    constant = found + (1 - learned) * (now.logs - start)
    true = table.hazards(effects.of_truth).logs
    middle = found + (1 - learned) * (true - start)
    middle += learned * (true - table.hazards(effects.of_descent).logs)
    hazard = np.exp(middle)
    of_sample = learned**2 * now.squares / np.maximum(now.curvature**2, 1e-300)
    of_sample += (1 - learned) ** 2 / (table.exposed * table.steady)
    # Intervals depend on each other little, and their steps have no preconditioner.
    by_steps = noise.of_gradients(bend[:, None, None], np.zeros((1, 1)))
    of_steps = kept**2 * square * by_steps[:, 0]
    of_table = ((1 - learned) * hazard)[:, None] * table.steady_noise
    variance = np.cumsum(hazard**2 * (of_sample + of_steps))
    variance += np.sum(np.cumsum(of_table, axis=0) ** 2, axis=1)
    return constant, middle, variance / np.cumsum(hazard) ** 2
