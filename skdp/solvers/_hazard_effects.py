"""The effects of persons that follow from a descent on hazards; post-processing.

Weights are posterior means. Bands have a prior for bends of curves only. Section "From
weights to effects" of ``docs/proofs/survival.md`` derives the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from skdp._arrays import FloatArray
from skdp.solvers._average_descent import (
    AverageDescent,
    knots_and_lines,
    typical_persons,
)
from skdp.solvers._centred_descent import CentredSolution
from skdp.solvers._centred_rows import CentredStates, EffectsOfStates
from skdp.solvers._life_table import HazardBase
from skdp.solvers._run_noise import NoiseOfRun, Principal, clipped, effect_noise
from skdp.solvers._target_base import within
from skdp.solvers._true_weights import Found, Seen, true_weights

# Variance of the effects of persons if nothing is known: hazards of two typical persons
# differ by a factor of e^1.4.
_TYPICAL = 1.0
# Effects of persons before any are estimated.
_NORMAL = math.sqrt(_TYPICAL) * ndtri((np.arange(64) + 0.5) / 64)
# How often estimates are assumed to be true. With 1 curves of 50,000 persons of the
# linear simulation are off by .0075 in place of .0040 at epsilon 1; 3 is no better
# (replace_one, 8 fits: `python -m benchmarks survival_constants --runs 8 --set
# constants=_ROUNDS --set simulation=linear --set sizes=50000`).
_ROUNDS = 2
# Largest factor on the linear part of the way, so that no number gets out of hand.
_FARTHEST = 4.0
# Difference of the logarithms of two sizes of all effects, for a derivative.
_LARGER = 0.1
# Deviation of the logarithm of the common size of all effects if nothing is known. The
# logarithm of their variance has twice as much (`_SPREAD` of the true weights).
_OF_SIZE = 0.75
# In directions of which a descent learns less, no estimate is made.
_LEAST_LEARNED = 1e-3
# Variance of a curve between its knots, over that of a finest hat with a weight of the
# bends. It is what coarser hats cannot follow of hats of a half of the width, a quarter
# and so on, whose squares fall by a half from level to level.
_BETWEEN = 0.35
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
    of_weights : tuple of CSR of float64 of shape (n_features, n_errors)
        Independent errors of these weights, one array for each part of the rows, as
        long as their standard deviations.
    of_times : ndarray of float64 of shape (n_intervals,)
        Variance of the logarithm of the cumulated hazard at the end of each interval,
        and of bends between knots.
    size : SizeError
        The error of the common size of all effects, beyond those of single weights.
    """

    middle: FloatArray
    middle_constant: FloatArray
    of_weights: tuple[csr_array, ...]
    of_times: FloatArray
    size: SizeError

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        rows, found = solution.centred, solution.found
        assert isinstance(rows, CentredStates)
        parts = rows.principal
        persons, lines = typical_persons(rows), _lines(rows, parts)
        effects = _Effects.of(solution, lines)
        for _ in range(_ROUNDS):
            assumed = effects.assumed(persons, _moments(parts))
            effects = _Effects.of(solution, lines, assumed)
        constant, middle, of_times = _of_intervals(solution, effects, assumed)
        facts = vars(solution) | {"constant": constant}
        facts["weights"] = found.kept * _weights(rows, effects.means)
        if solution.states is not None:
            facts["states"] = _shrunk(solution.states, parts, found.noise, effects)
        return cls(
            **facts,
            middle=_weights(rows, [each.middle for each in effects.found]),
            middle_constant=middle,
            of_weights=rows.back(parts, [each.errors for each in effects.found]),
            of_times=of_times + _between_knots(rows, effects.found),
            size=SizeError.of(rows, effects, assumed, middle),
        )


class SizeError(NamedTuple):
    """How the common size of all effects errs, and what follows from it.

    Parameters
    ----------
    variance : float
        Variance of the logarithm of the size.
    with_weights : ndarray of float64 of shape (n_features, 1)
        Covariance of this logarithm with the errors of weights.
    of_effects : float
        Part of the error of the size that is in no error of a weight.
    of_times : ndarray of float64 of shape (n_intervals,)
        Change of the logarithms of cumulated hazards of a row at the centre, over that
        of the logarithm of the size.
    """

    variance: float
    with_weights: FloatArray
    of_effects: float
    of_times: FloatArray

    @classmethod
    def of(
        cls,
        rows: CentredStates,
        effects: _Effects,
        assumed: _Assumed,
        constant: FloatArray,
    ) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        persons, weights, average = assumed
        parts = rows.principal
        moments, base = _moments(parts), effects.run.base
        assert isinstance(base, HazardBase)
        larger = math.exp(_LARGER) * weights
        beyond = AverageDescent.of(effects.run, persons, larger, moments).part
        fall = math.log(max(beyond, 1e-300) / max(average.part, 1e-300)) / _LARGER
        means = np.concatenate(effects.means)
        known = float(moments @ means**2) / max(effects.of_truth, 1e-300)
        # Each round assumes the size that the round before has found.
        grows = sum((-fall * known) ** k for k in range(_ROUNDS + 1))
        more = within(grows / math.sqrt(average.along), 1 / _FARTHEST, _FARTHEST)
        along = moments * weights / max(float(moments @ weights**2), 1e-300)
        ends = np.cumsum([len(each.left) for each in effects.found])[:-1]
        each = [
            share @ found.errors
            for share, found in zip(np.split(along, ends), effects.found, strict=True)
        ]
        alone = sum(float(part @ part) for part in each)
        # A size of which nothing is known errs as far as is expected, and no less than
        # the weights do.
        more = max(more / math.sqrt(1 + more**2 * alone / _OF_SIZE**2), 1.0)
        covariances = [
            found.errors @ part for found, part in zip(effects.found, each, strict=True)
        ]
        logs = base.table.hazards(persons @ larger).logs
        logs = constant + logs - base.table.hazards(assumed.effects).logs
        both = [np.log(np.cumsum(np.exp(each))) for each in (logs, constant)]
        return cls(
            variance=more**2 * alone,
            with_weights=more * _weights(rows, covariances),
            of_effects=1 - 1 / more,
            of_times=(both[0] - both[1]) / _LARGER,
        )


class _Assumed(NamedTuple):
    """Weights that are assumed to be true, and what the descent then finds on average.

    Parameters
    ----------
    persons : ndarray of float64 of shape (n_persons, n_directions)
        Typical persons.
    weights : ndarray of float64 of shape (n_directions,)
    average : AverageDescent
    """

    persons: FloatArray
    weights: FloatArray
    average: AverageDescent

    @property
    def effects(self) -> FloatArray:
        """Those of the persons."""
        return np.asarray(self.persons @ self.weights)


class _Effects(NamedTuple):
    """Estimates of the true weights, from the weights of the descent.

    Parameters
    ----------
    run : NoiseOfRun
        The noise, with the curvature for effects like the estimated ones.
    found : list of Found
        Estimates for each part.
    means : list of ndarray of float64 of shape (n_directions_of_part,)
        Posterior means of the true weights.
    of_truth : float
        Expected variance of the true effects.
    """

    run: NoiseOfRun
    found: list[Found]
    means: list[FloatArray]
    of_truth: float

    @classmethod
    def of(
        cls,
        solution: CentredSolution,
        lines: list[FloatArray | None],
        assumed: _Assumed | None = None,
    ) -> Self:
        """Estimates with the curvature at weights that are assumed to be true."""
        noise, rows = solution.found.noise, solution.centred
        base, n = noise.base, noise.n_samples
        assert isinstance(base, HazardBase)
        assert isinstance(rows, CentredStates)
        parts = rows.principal
        weights = rows.along(parts, solution.found.mean[:, 0])
        moments = _moments(parts)
        spreads, unit = clipped(moments, are_weighted=True)
        effects = _NORMAL if assumed is None else assumed.effects
        curvature, (square,) = base.table.hazards(effects).per_person(n)
        # A residual of a long row has a weight, and its square has that of the square.
        facts = replace(base, curvature=curvature, squares=(square / unit,))
        run = way = replace(noise, base=facts)
        if assumed is not None:
            # On the way from 0 to the true weights a descent meets another curvature
            # than there, and its noise meets both.
            first = assumed.average.curvature
            way = replace(noise, base=replace(facts, curvature=(first,)))
            both = ((first + curvature[0]) / 2,)
            run = replace(noise, base=replace(facts, curvature=both))
        learned = way.learned(spreads, unit)[:, 0]
        if assumed is not None:
            learned = learned * _beyond_linear(assumed, learned, moments)
        learned = np.maximum(learned, _LEAST_LEARNED)
        chance = np.maximum(run.variance(spreads, unit)[:, 0], 1e-300)
        ends = np.cumsum([len(part.spreads) for part in parts])[:-1]
        numbers = [np.split(each, ends) for each in (weights, learned, chance)]
        columns = [Seen(*each) for each in zip(*numbers, lines, strict=True)]
        found = true_weights(columns, _TYPICAL / max(float(moments.sum()), 1e-300))
        if not noise.deviations.any():  # epsilon = inf: the plain estimate
            found = [each._replace(gains=np.eye(len(each.left))) for each in found]
        means = [
            each.gains @ column.weights
            for each, column in zip(found, columns, strict=True)
        ]
        squares = np.concatenate([each.left for each in found])
        squares += np.concatenate(means) ** 2
        of_truth = min(float(moments @ squares), _MOST_VARIANCE)
        return cls(run, found, means, of_truth)

    def assumed(self, persons: FloatArray, moments: FloatArray) -> _Assumed:
        """The means, and as much variance of the effects as is expected."""
        means = np.concatenate(self.means)
        of_means = max(float(moments @ means**2), 1e-300)
        weights = math.sqrt(self.of_truth / of_means) * means
        average = AverageDescent.of(self.run, persons, weights, moments)
        return _Assumed(persons, weights, average)


def _moments(parts: list[Principal]) -> FloatArray:
    """Variances of rows in the principal directions of the parts."""
    return np.concatenate([part.spreads for part in parts])


def _beyond_linear(
    assumed: _Assumed, learned: FloatArray, moments: FloatArray
) -> float:
    """How far the descent goes, over how far it would go with one curvature."""
    shares = moments * assumed.weights**2
    linear = float(shares @ learned) / max(float(shares.sum()), 1e-300)
    if linear <= 0:
        return 1.0
    return within(assumed.average.part / linear, 1 / _FARTHEST, _FARTHEST)


def _weights(rows: CentredStates, values: list[FloatArray]) -> FloatArray:
    """Weights of features from weights in the principal directions of each part."""
    each = rows.back(rows.principal, [value[:, None] for value in values])
    return np.asarray(sum(each[1:], each[0]).toarray())


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
        _, of_lines = knots_and_lines(rows.states.basis[states])
        if of_lines is None:
            found.append(None)
            continue
        free = part.directions[:, of_lines]
        # Directions without variance have no effect, and any weight.
        varies = part.spreads > 1e-12 * part.spreads.max(initial=0.0)
        lines, sizes, _ = np.linalg.svd(free * varies[:, None], full_matrices=False)
        lines = lines[:, sizes > 1e-6]
        found.append(lines if lines.size else None)
    return found


def _between_knots(rows: CentredStates, found: list[Found]) -> float:
    """Variance of effects by bends that are too fine for hats."""
    features = csr_array(abs(rows.states.basis * rows.states.weights))
    ends = np.cumsum(rows.states.parts)
    total = 0.0
    for states, each in zip(
        np.split(np.arange(ends[-1]), ends[:-1]), found, strict=True
    ):
        part = features[states]
        _, of_lines = knots_and_lines(rows.states.basis[states])
        if of_lines is None or of_lines.all():
            continue  # no curve, or a straight line
        largest = part.max(axis=0).toarray().ravel()[np.unique(part.indices)]
        total += each.bends * float(largest[~of_lines].min()) ** 2
    return _BETWEEN * total / rows.centring.norm**2


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
        for noise_of in [effect_noise(*pair, are_weighted=True) for pair in pairs]
    ]
    factors = now / np.maximum(before, 1e-300)
    return states._replace(deviations=factors * states.deviations)


def _of_intervals(
    solution: CentredSolution, effects: _Effects, assumed: _Assumed
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log-hazards of the model, of the bands, and the variance of their cumulated sums.

    Hazards of a row at the centre follow from the table and the effects of persons,
    which are those of the model or the true ones, and from what the descent has found
    beyond its average. The variance is that of the logarithms of the sums.
    """
    kept, noise = solution.found.kept, solution.found.noise
    base, square = noise.base, noise.paces[0].intercept_weight ** 2
    assert isinstance(base, HazardBase)
    table, start = base.table, np.array(base.constant)
    beyond = solution.constant - start - kept * (assumed.average.constant - start)
    of_model = assumed.persons @ (kept * np.concatenate(effects.means))
    constant = beyond + table.hazards(of_model).logs
    true = table.hazards(assumed.effects)
    middle = beyond + true.logs
    bend = square * true.curvature / noise.n_samples
    learned = -kept * np.expm1(-noise.flow * bend)
    hazard = np.exp(middle)
    of_sample = learned**2 * true.squares / np.maximum(true.curvature**2, 1e-300)
    of_sample += (1 - learned) ** 2 / (table.exposed * table.steady)
    # Intervals depend on each other little, and their steps have no preconditioner.
    by_steps = noise.of_gradients(bend[:, None, None], np.zeros((1, 1)))
    of_steps = kept**2 * square * by_steps[:, 0]
    of_table = ((1 - learned) * hazard)[:, None] * table.steady_noise
    variance = np.cumsum(hazard**2 * (of_sample + of_steps))
    variance += np.sum(np.cumsum(of_table, axis=0) ** 2, axis=1)
    return constant, middle, variance / np.cumsum(hazard) ** 2
