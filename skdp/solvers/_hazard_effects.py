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

from skdp._arrays import FloatArray
from skdp.solvers._centred_descent import CentredSolution
from skdp.solvers._centred_rows import CentredStates, EffectsOfStates
from skdp.solvers._life_table import EFFECTS, SHARES, HazardBase
from skdp.solvers._run_noise import NoiseOfRun, Principal, clipped, effect_noise

# Variance of the effects of persons if nothing is known: hazards of two typical persons
# differ by a factor of e^1.4.
_TYPICAL = 1.0
# The prior of the variance of effects counts as much as so many effects without noise,
# and so does, for the details of a column, what is found for all columns.
# Bands of 5,000 persons in many designs cover .93 to .94 with 1 and 2, and .91 to .94
# with 0.5 (40 fits, errors of about .01: `python -m benchmarks survival_constants --set
# constants=_PRIOR --set sizes=5000`).
_PRIOR = 1.0
# Each round takes what the last one found as the prior, so that where much is known a
# wrong prior counts less. In many designs one, three and five rounds differ by less
# than their errors (`--set constants=_ROUNDS`).
_ROUNDS = 3
# Directions of a part with less than this share of its largest variance have details:
# curves have one direction of nearly straight lines, and common categories have nearly
# equal ones; rare categories are details too.
# With 0.3 coverage and width are the same within their errors. With 0 nothing is a
# detail: bands of 5,000 persons cover .95 at epsilon .3, 1 and 4, and are .87, .69 and
# .46 wide in place of .43, .21 and .12 (`--set constants=_DETAIL`).
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
    of_weights : tuple of ndarray of float64 of shape (n_features, n_directions)
        Errors of these weights in independent directions, one array for each part of
        the rows, as long as their standard deviations.
    of_times : ndarray of float64 of shape (n_intervals,)
        Variance of the logarithm of the cumulated hazard at the end of each interval.
    stretch : float in [1, inf)
        Factor by which the weights make up, on average, for the clip of rows.
    """

    middle: FloatArray
    of_weights: tuple[FloatArray, ...]
    of_times: FloatArray
    stretch: float

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        rows, found = solution.centred, solution.found
        assert isinstance(rows, CentredStates)
        parts, effects = rows.principal, _Effects.of(solution)
        constant, of_times = _of_intervals(solution, effects)
        facts = vars(solution) | {"constant": constant}
        facts["weights"] = found.kept * _weights(rows, effects.shrunk * effects.weights)
        if solution.states is not None:
            facts["states"] = _shrunk(solution.states, parts, found.noise, effects)
        return cls(
            **facts,
            middle=_weights(rows, effects.middle),
            of_weights=rows.back(parts, effects.errors),
            of_times=of_times,
            stretch=_stretch(rows),
        )


class _Effects(NamedTuple):
    """Estimates of the true weights, from the weights of the descent.

    Parameters
    ----------
    run : NoiseOfRun
        The noise, with the curvature for typical effects.
    weights : ndarray of float64 of shape (n_directions,)
        Weights of the descent in the principal directions of the parts.
    shrunk : ndarray of float64 of shape (n_directions,)
        Posterior means of the true weights, over the weights.
    middle, errors : ndarray of float64 of shape (n_directions,)
        Estimates of the true weights and their standard deviations, with a prior for
        details only.
    of_model, of_truth : float
        Variance of the effects in the model, and expected variance of the true effects.
    """

    run: NoiseOfRun
    weights: FloatArray
    shrunk: FloatArray
    middle: FloatArray
    errors: FloatArray
    of_model: float
    of_truth: float

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        kept, noise, rows = solution.found.kept, solution.found.noise, solution.centred
        base, n = noise.base, noise.n_samples
        assert isinstance(base, HazardBase)
        assert isinstance(rows, CentredStates)
        parts = rows.principal
        weights = rows.along(parts, solution.found.mean[:, 0])
        spreads, unit = clipped(np.concatenate([part.spreads for part in parts]))
        curvature = (base.table.chord(_TYPICAL) / n,)
        squares = (float(base.table.hazards(_TYPICAL).squares.sum()) / n,)
        run = replace(noise, base=replace(base, curvature=curvature, squares=squares))
        learned = run.learned(spreads, unit)[:, 0]
        chance = run.variance(spreads, unit)[:, 0]
        prior = np.full(len(spreads), _TYPICAL / max(float(spreads.sum()), 1e-300))
        details = _details(parts)
        column = np.repeat(range(len(parts)), [len(part.spreads) for part in parts])

        def factor(where: NDArray[np.bool_]) -> float:
            return _growth(prior[where], weights[where], learned[where], chance[where])

        prior *= factor(~details)
        for where in [details, *(details & (column == j) for j in range(len(parts)))]:
            for _ in range(_ROUNDS):
                prior[where] *= factor(where)
        shrunk = prior * learned / np.maximum(prior * learned**2 + chance, 1e-300)
        left = prior * (1 - shrunk * learned)
        if not noise.deviations.any():  # epsilon = inf: the plain estimate
            shrunk = np.ones(len(spreads))
        free = np.maximum(learned, _LEAST_LEARNED)
        energy = spreads * (shrunk * weights) ** 2
        return cls(
            run=run,
            weights=weights,
            shrunk=shrunk,
            middle=np.where(details, shrunk, 1 / free) * weights,
            errors=np.sqrt(np.where(details, left, chance / free**2)),
            of_model=kept**2 * float(energy.sum()),
            of_truth=min(float(energy.sum() + spreads @ left), _MOST_VARIANCE),
        )


def _weights(rows: CentredStates, values: FloatArray) -> FloatArray:
    """Weights of features from weights in principal directions."""
    each = [part.sum(axis=1) for part in rows.back(rows.principal, values)]
    return np.asarray(np.sum(each, axis=0))[:, None]


def _growth(
    prior: FloatArray, weights: FloatArray, learned: FloatArray, chance: FloatArray
) -> float:
    """Estimated variance of the true weights in some directions, over the prior."""
    signal = prior * learned**2
    expected = np.maximum(signal + chance, 1e-300)
    known = float(np.sum((signal / expected) ** 2))
    seen = float(np.sum(signal * (weights**2 - chance) / expected**2))
    return (_PRIOR + max(seen, 0.0)) / (_PRIOR + known)


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
) -> tuple[FloatArray, FloatArray]:
    """Log-hazards with what the table adds, and the variance of their sums' logarithms.

    What the descent has not learned of an interval follows from the table, with the
    variance of the effects in the model. The variance of the true effects may differ.
    """
    kept, noise = solution.found.kept, solution.found.noise
    base, square = noise.base, noise.paces[0].intercept_weight ** 2
    assert isinstance(base, HazardBase)
    table, now = base.table, base.table.hazards(effects.of_model)
    bend = square * now.curvature / noise.n_samples
    learned = -kept * np.expm1(-noise.flow * bend)
    moved = (1 - learned) * (now.logs - np.array(base.constant))
    constant = solution.constant + moved
    hazard = np.exp(constant)
    of_sample = learned**2 * now.squares / np.maximum(now.curvature**2, 1e-300)
    of_sample += (1 - learned) ** 2 / (table.exposed * table.steady)
    # Intervals depend on each other little, and their steps have no preconditioner.
    by_steps = noise.of_gradients(bend[:, None, None], np.zeros((1, 1)))
    of_steps = kept**2 * square * by_steps[:, 0]
    of_table = ((1 - learned) * hazard)[:, None] * table.steady_noise
    variance = np.cumsum(hazard**2 * (of_sample + of_steps))
    variance += np.sum(np.cumsum(of_table, axis=0) ** 2, axis=1)
    both = now.logs, table.hazards(effects.of_truth).logs
    off = np.subtract(*[np.logaddexp.accumulate(logs) for logs in both])
    return constant, variance / np.cumsum(hazard) ** 2 + off**2
