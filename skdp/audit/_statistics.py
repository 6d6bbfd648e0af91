"""Scores that tell two tables apart, and signs of wrong noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import pdtrc
from sklearn.covariance import ledoit_wolf

from skdp._arrays import FloatArray
from skdp.audit._result import epsilon_of_event, lower_rate, upper_rate
from skdp.audit._runs import Runs

# ------------------------------------------ LinearScore: one number from a fitted model
# A linear read-out is the best score if outputs are Gaussian with one covariance. Its
# direction is the effect of the exchanged record, divided by the covariance of the
# noise: the effect is the difference of the mean outputs, or of fits with next to no
# noise between them. The learning runs decide which of the two is used, so that the
# test runs are independent of it.


# Outputs beyond this many interquartile ranges from the middle are cut: heavy tails
# teach nothing more, and Gaussian outputs are never that far.
_FAR = 20.0
# With fewer runs for each column, the covariance is shrunk.
_RUNS_PER_COLUMN = 5
_RIDGE = 1e-10
# A direction learned from noisy runs must be better by this many times the gain that
# noise alone could show with this number of runs.
_BETTER = 5.0
# Number of columns for events, and quantiles of distances that bound the events.
_EVENTS, _DISTANCES = 100, (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
# Error of the bounds by which events are compared.
_SURE = 1e-6
_NEVER = 1e-300
# Spread below which a combination of columns, each of spread 1, has no noise.
_NOISELESS, _MOVED = 1e-9, 1e-6


@dataclass(frozen=True)
class Scaling:
    """Columns scaled to spread 1 around 0, and which of them are used."""

    used: np.ndarray
    middle: FloatArray
    spread: FloatArray
    reach: FloatArray

    def of(self, table: FloatArray) -> FloatArray:
        """The used columns, scaled, with far values cut."""
        moved = table[:, self.used] - self.middle
        scaled: FloatArray = np.clip(moved, -self.reach, self.reach) / self.spread
        return scaled


def scaling_of(inside: Runs, outside: Runs) -> Scaling:
    """Scaling of the columns that vary between runs on either data set."""
    both = (inside.table, outside.table)
    used = np.flatnonzero(np.any([np.ptp(t, axis=0) > 0 for t in both], axis=0))
    pooled = np.concatenate([t[:, used] for t in both])
    low, middle, high = np.quantile(pooled, [0.25, 0.5, 0.75], axis=0)
    reach = _FAR * np.maximum(high - low, 0.0)
    reach[reach == 0] = np.inf
    cut = np.clip(pooled - middle, -reach, reach)
    half = len(both[0])
    within = np.concatenate([cut[:half] - cut[:half].mean(0), cut[half:]])
    within[half:] -= cut[half:].mean(0)
    spread = np.sqrt(np.mean(within**2, axis=0))
    spread[spread == 0] = 1.0
    return Scaling(used, middle, spread, reach)


@dataclass(frozen=True)
class LinearScore:
    """A linear read-out of scaled outputs.

    Parameters
    ----------
    scaling : Scaling
    direction : ndarray of float64 of shape (n_used,)
    what : str
        Origin of the direction.
    """

    scaling: Scaling
    direction: FloatArray
    what: str

    def of(self, runs: Runs) -> FloatArray:
        """One number for each run; larger numbers mean the first data set."""
        numbers: FloatArray = self.scaling.of(runs.table) @ self.direction
        return numbers


def learned_score(
    inside: Runs, outside: Runs, shown: tuple[Runs, Runs] | None, where: str
) -> LinearScore | None:
    """The read-out that separates these runs best; None if no output varies.

    Parameters
    ----------
    shown : pair of Runs or None
        Fits on both data sets with next to no noise between them.
    where : str
        What these are, in words.
    """
    scaling = scaling_of(inside, outside)
    if not scaling.used.size:
        return None
    a, b = scaling.of(inside.table), scaling.of(outside.table)
    within = _covariance(a, b)
    learned = LinearScore(scaling, _direction(within, _gap(a, b)), "learned from runs")
    if shown is None:
        return learned
    direction = _direction(within, _gap(*(scaling.of(runs.table) for runs in shown)))
    if _crossed(a, b) > _apart(a, b, direction) + _BETTER / math.sqrt(len(a)):
        return learned
    return LinearScore(scaling, direction, where)


def distance(inside: Runs, outside: Runs, first: Runs, second: Runs) -> float:
    """Distance of two kinds of runs, in units of the noise of others.

    Parameters
    ----------
    inside, outside : Runs
        Runs whose noise is the unit.
    first, second : Runs
        Runs whose mean outputs are compared.
    """
    scaling = scaling_of(inside, outside)
    alone = [np.ptp(runs.table, axis=0) == 0 for runs in (first, second)]
    still = alone[0] & alone[1]
    still[scaling.used] = False
    if np.any(first.table[0, still] != second.table[0, still]):
        return np.inf
    if not scaling.used.size:
        return 0.0
    gap = _gap(scaling.of(first.table), scaling.of(second.table))
    noise = scaling.of(inside.table), scaling.of(outside.table)
    return float(gap @ np.linalg.solve(_covariance(*noise), gap))


def _gap(a: FloatArray, b: FloatArray) -> FloatArray:
    gap: FloatArray = a.mean(axis=0) - b.mean(axis=0)
    return gap


def _covariance(a: FloatArray, b: FloatArray) -> FloatArray:
    """Covariance within the two samples, never singular."""
    rows = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    if len(rows) >= _RUNS_PER_COLUMN * rows.shape[1]:
        covariance = rows.T @ rows / len(rows)
    else:
        covariance = ledoit_wolf(rows, assume_centered=True)[0]
    size = max(float(np.trace(covariance)) / len(covariance), 1e-300)
    return np.asarray(covariance + _RIDGE * size * np.eye(len(covariance)))


def _direction(covariance: FloatArray, change: FloatArray) -> FloatArray:
    """The direction of length 1 in which a change stands out from the noise."""
    direction = np.asarray(np.linalg.solve(covariance, change), dtype=np.float64)
    size = float(np.linalg.norm(direction))
    return direction / size if size > 0 else direction


def _apart(a: FloatArray, b: FloatArray, direction: FloatArray) -> float:
    """Distance of two samples of scores, in standard deviations."""
    first, second = a @ direction, b @ direction
    spread = float(np.sqrt((np.var(first) + np.var(second)) / 2))
    return float(np.mean(first) - np.mean(second)) / max(spread, 1e-300)


def _crossed(a: FloatArray, b: FloatArray) -> float:
    """The distance for a direction learned on every other run, tested on the rest."""
    found = []
    for learn, test in ((0, 1), (1, 0)):
        x, y = a[learn::2], b[learn::2]
        direction = _direction(_covariance(x, y), _gap(x, y))
        found.append(_apart(a[test::2], b[test::2], direction))
    return float(np.mean(found))


@dataclass(frozen=True)
class ScoreEvent:
    """An event that is seen more often on one of the data sets.

    One output is near a value, or far from it: noise whose size depends on the data
    moves no mean, and a linear read-out does not see it.

    Parameters
    ----------
    column : int
    centre, distance : float
    is_near : bool
        Whether the event is a value within the distance.
    is_outside : bool
        Whether the event is more frequent on the neighbour.
    """

    column: int
    centre: float
    distance: float
    is_near: bool
    is_outside: bool

    def seen(self, runs: Runs) -> int:
        """Number of runs with the event."""
        away = np.abs(runs.table[:, self.column] - self.centre)
        return int(np.sum((away <= self.distance) == self.is_near))


def learned_event(inside: Runs, outside: Runs) -> ScoreEvent | None:
    """The event with the best bound on epsilon here; None if no output varies."""
    best: tuple[float, ScoreEvent] | None = None
    sizes = len(inside), len(outside)
    rates = tuple(_rates(n) for n in sizes)
    for column in scaling_of(inside, outside).used[:_EVENTS]:
        sides = [runs.table[:, column] for runs in (inside, outside)]
        pooled = np.concatenate(sides)
        centre = float(np.median(pooled))
        cuts = np.quantile(np.abs(pooled - centre), _DISTANCES)
        near = [
            np.sum(np.abs(x - centre)[:, None] <= cuts, axis=0, dtype=int)
            for x in sides
        ]
        far = [n - found for n, found in zip(sizes, near, strict=True)]
        for (is_near, seen), is_outside in itertools.product(
            ((True, near), (False, far)), (False, True)
        ):
            often, seldom = int(is_outside), 1 - int(is_outside)
            bounds = rates[often][0][seen[often]] - rates[seldom][1][seen[seldom]]
            at = int(np.argmax(bounds))
            if best is None or bounds[at] > best[0]:
                event = ScoreEvent(
                    int(column), centre, float(cuts[at]), is_near, is_outside
                )
                best = float(bounds[at]), event
    return None if best is None else best[1]


def _rates(n: int) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the bounds on a probability, by number of occurrences."""
    low = [max(lower_rate(k, n, _SURE), _NEVER) for k in range(n + 1)]
    high = [upper_rate(k, n, _SURE) for k in range(n + 1)]
    return np.log(low), np.log(high)


def bound_by(
    event: ScoreEvent, inside: Runs, outside: Runs, delta: float, error: float
) -> float:
    """Bound on epsilon from the frequency of the event in these runs."""
    sides = (outside, inside) if event.is_outside else (inside, outside)
    (often, n), (seldom, m) = ((event.seen(runs), len(runs)) for runs in sides)
    return epsilon_of_event(often, n, seldom, m, delta, error)


@dataclass(frozen=True)
class Noiseless:
    """An output without noise that differs between the two data sets.

    Parameters
    ----------
    what : str
    holds : callable
        The runs in which it has the value of the first data set.
    """

    what: str
    holds: Callable[[Runs], np.ndarray]


def noiseless(inside: Runs, outside: Runs) -> list[Noiseless]:
    """Columns, one combination of them, and texts that are constant on each data set.

    Columns with few possible values may be constant by chance: runs that are not used
    here show how sure this is.
    """
    first, second = inside.table, outside.table
    still = (np.ptp(first, axis=0) == 0) & (np.ptp(second, axis=0) == 0)
    found = []
    for j in np.flatnonzero(still & (first[0] != second[0])).tolist():
        values = float(first[0, j]), float(second[0, j])
        found.append(Noiseless(inside.names[j], partial(_has_number, j, *values)))
    found += _noiseless_combination(inside, outside)
    for name, texts in inside.texts.items():
        one, other = set(texts), set(outside.texts[name])
        if len(one) == len(other) == 1 and one != other:
            found.append(Noiseless(name, partial(_has_text, name, texts[0])))
    return found


def _has_number(column: int, inside: float, outside: float, runs: Runs) -> np.ndarray:
    return np.asarray(np.abs(runs.table[:, column] - inside) < abs(inside - outside))


def _has_score(
    score: LinearScore, inside: float, outside: float, runs: Runs
) -> np.ndarray:
    return np.asarray(np.abs(score.of(runs) - inside) < abs(inside - outside) / 3)


def _has_text(name: str, text: str, runs: Runs) -> np.ndarray:
    return np.array([shown == text for shown in runs.texts[name]])


def _noiseless_combination(inside: Runs, outside: Runs) -> list[Noiseless]:
    scaling = scaling_of(inside, outside)
    a, b = scaling.of(inside.table), scaling.of(outside.table)
    if not scaling.used.size or len(a) + len(b) < 2 * a.shape[1] + 2:
        return []
    rows = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
    sizes, axes = np.linalg.svd(rows, full_matrices=False)[1:]
    still = axes[sizes < _NOISELESS * np.sqrt(len(rows))]
    direction = still.T @ (still @ _gap(a, b))
    size = float(np.linalg.norm(direction))
    if size < _MOVED:
        return []
    score = LinearScore(scaling, direction / size, "a combination without noise")
    largest = np.argsort(-np.abs(score.direction))[:3]
    names = ", ".join(inside.names[scaling.used[j]] for j in largest)
    values = float(np.mean(score.of(inside))), float(np.mean(score.of(outside)))
    return [Noiseless(f"a combination of {names}", partial(_has_score, score, *values))]


# ---------------------------------------------------------------- Signs of faulty noise
# Each test looks for something that sound noise shows with next to no probability:
#
# - repeats: runs that show the same numbers to the last bit. Noise has at least 2^12
#   values in reach, unless outputs are few for all to see; then as many repeats are
#   expected as their grid says, and as the few most frequent values say;
# - low bits: noise of fewer digits than the sum that it is added to. The last
#   digits are then those of the sum: equal in all runs, and different on the neighbour
#   [1]_.
#
# References
# ----------
# .. [1] Mironov (2012). On significance of the least significant bits for differential
#    privacy. CCS. https://doi.org/10.1145/2382196.2382264


# Least number of values of noise within reach.
_VALUES = 2.0**12
# Number of bits that must agree, share of runs in which they do, and least number of
# distinct values.
_BITS, _QUORUM, _DISTINCT = 8, 0.9, 20
# Factor for last bits that are lost by the rounding of sums of another size.
_ROUNDED = 4.0
_COLUMNS = 400
# Number of values of a column that may have separate probabilities: bounds, and zero.
_ATOMS = 3


def repeats(runs: Runs) -> tuple[int, float]:
    """Pairs of runs with the same numbers, and the probability of this many pairs.

    Returns
    -------
    pairs : int
    chance : float in [0, 1]
        1.0 if no output varies.
    """
    used = runs.table[:, np.ptp(runs.table, axis=0) > 0]
    if not used.size:
        return 0, 1.0
    counts = np.unique(used, axis=0, return_counts=True)[1]
    found = int(np.sum(counts * (counts - 1) // 2))
    n_pairs = len(used) * (len(used) - 1) / 2
    by_column = [_expected_share(x) + _share_of_atoms(x) for x in used.T[:_COLUMNS]]
    expected = n_pairs * max(min(by_column), 1 / _VALUES)
    return found, float(pdtrc(found - 1, expected)) if found else 1.0


def _share_of_atoms(column: FloatArray) -> float:
    """Share of pairs that agree on the most frequent values, such as bounds.

    Agreement on them is expected: a repeated seed repeats many values.
    """
    shares = np.sort(np.unique(column, return_counts=True)[1]) / len(column)
    return float(np.sum(shares[-_ATOMS:] ** 2))


def _expected_share(column: FloatArray) -> float:
    """Share of pairs that agree if the column is Gaussian on its own grid."""
    values = np.unique(column)
    if len(values) < _DISTINCT:
        return 1.0
    grid = float(np.min(np.diff(values)))
    middle = np.quantile(column, [0.25, 0.75])
    deviation = float(middle[1] - middle[0]) / 1.349
    if deviation <= 0:
        return 1.0
    # The closest two of n values on a fine grid are one grid step apart only if there
    # are no repeats; a coarse grid reveals itself.
    step = grid if _is_on(values, grid) else 0.0
    return min(1.0, step / (2 * math.sqrt(math.pi) * deviation))


def _is_on(values: FloatArray, grid: float) -> bool:
    """Whether all values are multiples of a step, from the first one on."""
    steps = (values - values[0]) / grid
    return bool(np.all(np.abs(steps - np.rint(steps)) < 1e-6 * (1 + np.abs(steps))))


def low_bits_differ(inside: Runs, outside: Runs, n_samples: int) -> list[str]:
    """Columns whose last bits are equal in all runs and differ between the sides.

    The bits are those of the values, or of the sums whose means the values are.
    """
    used = scaling_of(inside, outside).used[:_COLUMNS]
    return [
        inside.names[j]
        for j in used
        if any(
            _has_own_bits(times * inside.table[:, j], times * outside.table[:, j])
            for times in (1, n_samples)
        )
    ]


def _has_own_bits(first: FloatArray, second: FloatArray) -> bool:
    largest = float(max(np.abs(first).max(), np.abs(second).max()))
    few = min(len(np.unique(first)), len(np.unique(second))) < _DISTINCT
    if few or not 1e-250 < largest < 1e250:
        return False
    unit = _ROUNDED * 2.0 ** (math.floor(math.log2(largest)) - 52)
    sides = [np.rint(side / unit).astype(np.int64) for side in (first, second)]
    for bits in range(_BITS, 50):
        found = [_common(side, bits) for side in sides]
        if None in found:
            return False
        if _differ(found[0], found[1], bits):
            return True
    return False


def _differ(a: int | None, b: int | None, bits: int) -> bool:
    # Neighbouring residues may come from one sum, rounded up and down.
    gap = ((a or 0) - (b or 0)) % (1 << bits)
    return min(gap, (1 << bits) - gap) > 1


def _common(whole: np.ndarray, bits: int) -> int | None:
    """The last bits that nearly all values have; None if they have none in common."""
    values, counts = np.unique(whole & ((1 << bits) - 1), return_counts=True)
    at = int(np.argmax(counts))
    return int(values[at]) if counts[at] >= _QUORUM * len(whole) else None
