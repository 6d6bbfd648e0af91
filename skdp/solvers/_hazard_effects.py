"""The effects of persons that follow from a descent on hazards; post-processing.

Weights are posterior means. Bands have a prior for bends of curves only. Section "From
weights to effects" of ``docs/proofs/survival.md`` derives the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag
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
    common : CommonErrors
        Errors that all effects and intervals share.
    between_knots : float
        Variance of effects by bends that are too fine for hats.
    """

    middle: FloatArray
    middle_constant: FloatArray
    of_weights: tuple[csr_array, ...]
    common: CommonErrors
    between_knots: float

    @classmethod
    def of(cls, solution: CentredSolution) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        rows, found = solution.centred, solution.found
        assert isinstance(rows, CentredStates)
        parts = rows.principal
        persons, lines = typical_persons(rows), _lines(rows, parts)
        effects = _Effects.of(solution, lines)
        for _ in range(_ROUNDS):
            assumed = effects.assumed(persons, _moments(parts), found.kept)
            effects = _Effects.of(solution, lines, assumed)
        constant, middle = _intervals(solution, effects, assumed)
        facts = vars(solution) | {"constant": constant}
        facts["weights"] = found.kept * _weights(rows, effects.means)
        if solution.states is not None:
            facts["states"] = _shrunk(solution.states, parts, found.noise, effects)
        return cls(
            **facts,
            middle=_weights(rows, [each.middle for each in effects.found]),
            middle_constant=middle,
            of_weights=rows.back(parts, [each.errors for each in effects.found]),
            common=CommonErrors.of(rows, effects, assumed, middle, found.kept),
            between_knots=_between_knots(rows, effects.found),
        )


class CommonErrors(NamedTuple):
    """Errors of the common size of all effects, and of cumulated hazards.

    Parameters
    ----------
    effects : ndarray of float64 of shape (n_features, 1)
        Weights that are assumed to be true.
    of_size : float
        Variance of the logarithm of their size, plus the variance that errors of single
        weights give it. Bands count the former in place of the latter.
    with_weights : ndarray of float64 of shape (n_features, 1)
        Covariance of the errors of weights with what they make of the size.
    with_times, of_times : ndarray of float64 of shape (n_intervals,)
        Logarithms of cumulated hazards of a row at the centre: their covariance with
        the logarithm of the size, and their variance.
    """

    effects: FloatArray
    of_size: float
    with_weights: FloatArray
    with_times: FloatArray
    of_times: FloatArray

    @classmethod
    def of(
        cls,
        rows: CentredStates,
        effects: _Effects,
        assumed: _Assumed,
        constant: FloatArray,
        kept: float,
    ) -> Self:
        """Section "From weights to effects" of the proof page derives the numbers."""
        persons, weights, average = assumed
        moments, base = _moments(rows.principal), effects.run.base
        assert isinstance(base, HazardBase)
        larger = math.exp(_LARGER) * weights
        beyond = AverageDescent.of(effects.run, persons, larger, moments, kept)
        part = max(average.part, _LEAST_LEARNED)
        grows = math.log(max(beyond.part, _LEAST_LEARNED) / part) / _LARGER
        grows = within(grows, -1.0, 1.0)  # beyond, rounds would diverge
        means = np.concatenate(effects.means)
        known = float(moments @ means**2) / max(effects.of_truth, 1e-300)
        # Errors of the size by the descent, and by what is expected before the data.
        # Each round assumes the size that the round before has found.
        by_descent = of_size = np.array([1.0, 0.0])
        for _ in range(_ROUNDS):
            of_assumed = known * of_size + np.array([0.0, known - 1])
            of_size = by_descent - grows * of_assumed
        # Intervals follow from the assumed size, and from what is found beyond it.
        logs = base.table.hazards(persons @ larger).logs
        logs = logs - base.table.hazards(assumed.effects).logs
        follows = (logs - (beyond.constant - average.constant)) / _LARGER
        hazard = np.tril(np.tile(np.exp(constant), (len(constant), 1)))
        cumulated = hazard / hazard.sum(axis=1, keepdims=True)
        # From the errors of the descent, and then from that of what is expected.
        both = np.vstack([of_size, np.outer(cumulated @ follows, of_assumed)])
        of_intervals = np.vstack([np.zeros(len(constant)), cumulated])
        of_found = np.column_stack([both[:, 0] / part, of_intervals, both[:, 1]])
        errors = of_found @ block_diag(average.errors, _OF_SIZE**2) @ of_found.T
        by_weights, with_weights = _size_by_weights(rows, effects, weights)
        return cls(
            effects=_weights(rows, _of_parts(rows.principal, weights)),
            of_size=errors[0, 0] + by_weights,
            with_weights=with_weights,
            with_times=errors[0, 1:],
            of_times=np.diag(errors)[1:],
        )


def _size_by_weights(
    rows: CentredStates, effects: _Effects, weights: FloatArray
) -> tuple[float, FloatArray]:
    """Variance of the size by errors of single weights, and covariance with them."""
    shares = _moments(rows.principal) * weights
    shares = shares / max(float(shares @ weights), 1e-300)
    along, errors = _of_parts(rows.principal, shares), [e.errors for e in effects.found]
    each = [part @ own for part, own in zip(along, errors, strict=True)]
    shared = [own @ part for part, own in zip(each, errors, strict=True)]
    return sum(float(part @ part) for part in each), _weights(rows, shared)


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
        numbers = [_of_parts(parts, each) for each in (weights, learned, chance)]
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

    def assumed(
        self, persons: FloatArray, moments: FloatArray, kept: float
    ) -> _Assumed:
        """The means, and as much variance of the effects as is expected."""
        means = np.concatenate(self.means)
        of_means = max(float(moments @ means**2), 1e-300)
        weights = math.sqrt(self.of_truth / of_means) * means
        average = AverageDescent.of(self.run, persons, weights, moments, kept)
        return _Assumed(persons, weights, average)


def _moments(parts: list[Principal]) -> FloatArray:
    """Variances of rows in the principal directions of the parts."""
    return np.concatenate([part.spreads for part in parts])


def _of_parts(parts: list[Principal], values: FloatArray) -> list[FloatArray]:
    """Numbers of all principal directions, for each part."""
    return np.split(values, np.cumsum([len(part.spreads) for part in parts])[:-1])


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


def _intervals(
    solution: CentredSolution, effects: _Effects, assumed: _Assumed
) -> tuple[FloatArray, FloatArray]:
    """Log-hazards of the model and of the bands, of a row at the centre.

    They follow from the table and the effects of persons, which are those of the model
    or the true ones, and from what the descent has found beyond its average.
    """
    base, kept = solution.found.noise.base, solution.found.kept
    assert isinstance(base, HazardBase)
    beyond = solution.constant - assumed.average.constant
    of_model = assumed.persons @ (kept * np.concatenate(effects.means))
    constant = beyond + base.table.hazards(of_model).logs
    return constant, beyond + base.table.hazards(assumed.effects).logs
