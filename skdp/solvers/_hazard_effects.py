"""The effects of persons that follow from a descent on hazards; post-processing.

Weights are posterior means. Bands have a prior for bends of curves only. Section "From
weights to effects" of ``docs/proofs/survival.md`` derives the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from skdp._arrays import FloatArray
from skdp.solvers._centred_descent import CentredSolution
from skdp.solvers._centred_rows import CentredStates, EffectsOfStates
from skdp.solvers._life_table import EFFECTS, SHARES, HazardBase
from skdp.solvers._run_noise import NoiseOfRun, Principal, clipped, effect_noise
from skdp.solvers._true_weights import Found, Seen, true_weights

# Variance of the effects of persons if nothing is known: hazards of two typical persons
# differ by a factor of e^1.4.
_TYPICAL = 1.0
# In directions of which a descent learns less, no estimate is made.
_LEAST_LEARNED = 1e-3
# Indicators weigh half as much as the position on an axis, and hats at most .36 times
# as much (`_hat_weights`).
_LEAST_FREE = 0.4
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
    of_weights : tuple of ndarray of float64 of shape (n_features, n_errors)
        Independent errors of these weights, one array for each part of the rows, as
        long as their standard deviations.
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
        facts["weights"] = found.kept * _weights(rows, effects.means)
        if solution.states is not None:
            facts["states"] = _shrunk(solution.states, parts, found.noise, effects)
        return cls(
            **facts,
            middle=_weights(rows, [each.middle for each in effects.found]),
            middle_constant=middle,
            of_weights=rows.back(parts, [each.errors for each in effects.found]),
            of_times=of_times,
            stretch=effects.stretch,
        )


class _Effects(NamedTuple):
    """Estimates of the true weights, from the weights of the descent.

    Parameters
    ----------
    run : NoiseOfRun
        The noise, with the curvature for effects of some variance.
    found : list of Found
        Estimates for each part.
    means : list of ndarray of float64 of shape (n_directions_of_part,)
        Posterior means of the true weights.
    stretch : float
        As in `HazardSolution`.
    of_descent, of_model, of_truth : float
        Variance of the effects of the descent and of the model, and expected variance
        of the true effects.
    """

    run: NoiseOfRun
    found: list[Found]
    means: list[FloatArray]
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
        learned = np.maximum(run.learned(spreads, unit)[:, 0], _LEAST_LEARNED)
        chance = np.maximum(run.variance(spreads, unit)[:, 0], 1e-300)
        ends = np.cumsum([len(part.spreads) for part in parts])[:-1]
        numbers = [np.split(each, ends) for each in (weights, learned, chance)]
        lines = _lines(rows, parts)
        columns = [Seen(*each) for each in zip(*numbers, lines, strict=True)]
        found = true_weights(columns, _TYPICAL / max(float(spreads.sum()), 1e-300))
        if not noise.deviations.any():  # epsilon = inf: the plain estimate
            found = [each._replace(gains=np.eye(len(each.left))) for each in found]
        means = [
            each.gains @ column.weights
            for each, column in zip(found, columns, strict=True)
        ]
        # The clip of rows makes the variance of the effects smaller.
        stretch = _stretch(rows)
        shares = spreads / stretch**2
        of_model = float(shares @ np.concatenate(means) ** 2)
        left = float(shares @ np.concatenate([each.left for each in found]))
        return cls(
            run=run,
            found=found,
            means=means,
            stretch=stretch,
            of_descent=kept**2 * float(shares @ weights**2),
            of_model=kept**2 * of_model,
            of_truth=min(of_model + left, _MOST_VARIANCE),
        )


def _weights(rows: CentredStates, values: list[FloatArray]) -> FloatArray:
    """Weights of features from weights in the principal directions of each part."""
    each = rows.back(rows.principal, [value[:, None] for value in values])
    return np.asarray(np.sum(each, axis=0))


def _lines(rows: CentredStates, parts: list[Principal]) -> list[FloatArray | None]:
    """Orthonormal directions without a prior in the bands of a curve, or None.

    They span the position on the axis and the indicators of heaps and missing cells.
    The rest of a curve are bends. Categories have None.
    """
    ends = np.cumsum(rows.states.parts)
    found: list[FloatArray | None] = []
    for part, states in zip(
        parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True
    ):
        basis = abs(rows.states.basis[states])
        largest = basis.max(axis=0).toarray().ravel()[np.unique(basis.indices)]
        free = part.directions[:, largest > _LEAST_FREE * largest.max(initial=0.0)]
        # Directions without variance have no effect, and any weight.
        varies = part.spreads > 1e-12 * part.spreads.max(initial=0.0)
        lines, sizes, _ = np.linalg.svd(free * varies[:, None], full_matrices=False)
        lines = lines[:, sizes > 1e-6]
        # A category is one feature; a point of a curve has a position and hats.
        is_curve = np.diff(basis.indptr).max(initial=0) > 1 and lines.size > 0
        found.append(lines if is_curve else None)
    return found


def _shrunk(
    states: EffectsOfStates, parts: list[Principal], noise: NoiseOfRun, true: _Effects
) -> EffectsOfStates:
    """The noise in the effects of states, in posterior means of the weights."""
    moved = [
        part._replace(places=part.places @ each.gains)
        for part, each in zip(parts, true.found, strict=True)
    ]
    pairs = [(parts, noise), (moved, true.run)]
    before, now = [
        np.concatenate([np.linalg.norm(each, axis=1) for each in noise_of.deviations])
        for noise_of in [effect_noise(*pair) for pair in pairs]
    ]
    factors = now / np.maximum(before, 1e-300)
    return states._replace(deviations=factors * states.deviations)


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
