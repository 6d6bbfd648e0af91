"""Recompute what a privacy record or a ledger of skdp states, without skdp.

Usage: ``python verify.py FILE ...`` or ``skdp verify FILE ...``; a file is the JSON of
``privacy_.to_json()``, or a ledger. It checks numbers: it cannot know whether a program
added the noise that its record describes. Exit status: 0 if every statement holds, 1 if
one does not or is not confirmed, 2 if a file cannot be read or checked.

Lemmas and theorems are those of docs/proofs/accounting.md. Gaussian noise alone, and
pure events at delta 0, are computed exactly. Losses of other events are rounded to a
grid on the private side (Doroshenko et al. 2022, https://arxiv.org/abs/2207.04380) and
added up by a Fourier transform that is tilted towards large losses: an upper bound.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = Any
Profile = Callable[[Array], Array]  # delta at each epsilon of at least 0
# Relative tolerances: of formulas, and of grids (skdp stops within 0.06 % of a budget).
SMALL, COARSE = 1e-6, 1.5e-3
# A record may state so much more than its events cost: calibration stops earlier, but
# skdp rounds the least budgets up to 1e-6.
SPARE, TINY = 0.01, 1e-6
# Larger losses are not composed, because exponentials overflow.
LARGEST = 500.0
# Largest numbers of nested events, of combinations of disjoint sets, and of cells.
DEEP, MANY, WIDE = 100, 4096, 2**18

# ------------------------------------------------------------------------------ Events

KINDS = {
    "gaussian": "noise_multiplier count",
    "laplace": "noise_multiplier count",
    "pure": "epsilon count",
    "bounded_range": "epsilon count",
    "epsilon_delta": "epsilon delta count",
    "poisson_gaussian": "noise_multiplier sampling_rate count adjacency",
    "objective": "noise_multiplier log_determinant corners half_corners curvature "
    "outputs",
    "selection": "trial family mean most shape",
    "non_private": "",
    "composed": "parts",
    "parallel": "parts",
}
# What a field may be: a value, or a number between two (an integer if both are).
ALLOWED: dict[str, list[Any]] = {
    "noise_multiplier": [(1e-100, 1e100)],
    "epsilon": [(1e-100, 1e100)],
    "delta": [0, (1e-50, 1 - 2**-53)],
    "count": [(1, 2**53)],
    "sampling_rate": [(1e-100, 1.0)],
    "adjacency": ["zero_out", "replace_one"],
    "log_determinant": [(0.0, 1e8)],
    "corners": [(1, 2**53)],
    "half_corners": [(0, 2**53)],
    "curvature": [None, (0.0, 1e8)],
    "outputs": [(1, 500)],
    "family": ["negative_binomial", "poisson"],
    "mean": [(1e-9, 1e4)],
    "most": [(1, 10_000)],
    "shape": [(-0.9, 10.0)],
}
RELATIONS = "replace_one zero_out replace_user zero_out_user rating_value user".split()


class LeafEvent(SimpleNamespace):
    """An event without parts; here are the values of fields that it does not have."""

    mu, epsilon, sampling_rate, adjacency = 0.0, math.inf, 1.0, ""
    delta, count, outputs = 0.0, 1, 1


World = list[LeafEvent]  # leaves that are released together


def demand(is_right: bool, what: str) -> None:
    """Raise ValueError unless a part of the file is as skdp writes it."""
    if not is_right:
        raise ValueError(f"{what} is unknown or out of range")


def is_allowed(name: str, value: Any) -> bool:
    """Whether a field may have a value; NaN and Booleans are no numbers."""
    if type(value) is bool:
        return False
    ranges = [one for one in ALLOWED[name] if isinstance(one, tuple)]
    is_number = [type(value) in (int, type(x)) and x <= value <= y for x, y in ranges]
    return value in ALLOWED[name] or any(is_number)


def worlds(event: Any, relation: str, depth: int = 0) -> list[World]:
    """The leaves of an event, for each of the disjoint sets that a record may be in.

    Raises ValueError unless all events have exactly their fields, with allowed values.
    """
    kind = event.get("event") if isinstance(event, dict) and depth < DEEP else None
    what = f"an event of the kind {kind!r}"
    demand(isinstance(kind, str) and kind in KINDS, what)
    names = KINDS[str(kind)].split()
    values = ({"outputs": 1} if kind == "objective" else {}) | event
    demand(values.keys() == {"event", *names}, f"a field of {what}")
    for name in ALLOWED.keys() & names:
        demand(is_allowed(name, values[name]), f"{name} of {what}")
    leaf = LeafEvent(**values, kind=kind)
    if "parts" in names:
        least = 1 if kind == "parallel" else 0
        is_list = isinstance(leaf.parts, list)
        demand(is_list and len(leaf.parts) >= least, f"parts of {what}")
        each = [worlds(part, relation, depth + 1) for part in leaf.parts]
        if kind == "parallel":
            return list({str(world): world for one in each for world in one}.values())
        demand(math.prod(map(len, each)) <= MANY, "the number of disjoint sets")
        return [list(itertools.chain(*choice)) for choice in itertools.product(*each)]
    # Noise that hides a record's absence may not hide its exchange.
    demand(leaf.adjacency in ("", relation), f"adjacency of {what}")
    if kind == "selection":
        ((leaf.trial,),) = worlds(leaf.trial, relation, depth + 1)
        demand(leaf.trial.kind in ("gaussian", "pure"), f"trial of {what}")
        demand(leaf.family == "poisson" or leaf.mean > 1, f"mean of {what}")
    if kind == "objective":
        # Theorems 4 and 5, one at a time, are for one corner and no half corner or two.
        is_plain = (leaf.corners, leaf.half_corners) in ((1, 0), (1, 2))
        needed = (leaf.curvature is not None) + (leaf.outputs > 1)
        demand(needed <= is_plain, f"corners of {what}")
    if "noise_multiplier" in names:
        leaf.mu = leaf.epsilon = 1 / leaf.noise_multiplier
    return [[leaf]]


# --------------------------------------------------------------- Losses of one release

ERFC = np.vectorize(math.erfc, otypes=[float])


def above(x: Any) -> Array:
    """P(N(0, 1) > x)."""
    return ERFC(np.asarray(x) / math.sqrt(2)) / 2


def log_above(x: Array) -> Array:
    """Logarithm of `above`, also where that is too small for a double."""
    far = np.maximum(x, 25.0)  # four terms of the asymptotic series
    series = 1 - far**-2 + 3 * far**-4 - 15 * far**-6
    tail = np.log(series / far / math.sqrt(2 * math.pi)) - far * far / 2
    return np.where(x > 25, tail, np.log(above(np.minimum(x, 25.0))))


def gaussian(mu: float, e: Array) -> Array:
    """Delta at epsilon e, of any sign, of N(0, 1) against N(mu, 1)."""
    if mu == 0:
        return -np.expm1(np.minimum(e, 0.0))
    one, two = log_above(e / mu - mu / 2), e + log_above(e / mu + mu / 2)
    return np.exp(one) * -np.expm1(np.minimum(two - one, 0.0))


# Q(L > t) of the loss L = log P/Q for |t| < e. The pairs are the worst of their kinds
# (Lemma 6), and symmetric: P(L > t) = 1 - Q(L > -t).
PURE: dict[str, Callable[[float, Array], Array]] = {
    "pure": lambda e, t: 0 * t + 1 / (1 + math.exp(e)),
    "epsilon_delta": lambda e, t: 0 * t + 1 / (1 + math.exp(e)),
    "laplace": lambda e, t: np.exp((-t - e) / 2) / 2,
    "bounded_range": lambda e, t: np.expm1((e - t) / 2) / math.expm1(e),
}


def tails(leaf: LeafEvent, t: Array, back: bool) -> tuple[Array, Array]:
    """P(L > t) and Q(L > t); `back` exchanges P and Q."""
    if leaf.kind == "objective":  # one bound for both orders, and none for Q
        return objective_tail(leaf, t), 0 * t
    if leaf.kind in PURE:
        e, law = leaf.epsilon, PURE[leaf.kind]
        p, q = 1 - law(e, -np.clip(t, -e, e)), law(e, np.clip(t, -e, e))
        return np.where(t < -e, 1.0, p * (t < e)), np.where(t < -e, 1.0, q * (t < e))
    # (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1), whose loss is t where that of
    # N(mu, 1) alone is log((exp(t) - 1 + rate) / rate). It is above log(1 - rate).
    mu, rate, side = leaf.mu, leaf.sampling_rate, -1 if back else 1
    loss = side * t
    if rate < 1:
        loss = np.maximum(loss, -50.0)
        with np.errstate(divide="ignore"):
            share = (rate * np.exp(-loss) - np.expm1(-loss)) / rate
            loss = loss + np.log(np.maximum(share, 0.0))
    x = side * (loss / mu + mu / 2)
    p, q = (1 - rate) * above(x) + rate * above(x - side * mu), above(x)
    return (q, p) if back else (p, q)


def objective_tail(leaf: LeafEvent, t: Array) -> Array:
    """P(L > t) of objective perturbation, bounded by Theorems 1 to 5 of its proof."""
    mu, n, left = leaf.mu, leaf.outputs, t - leaf.log_determinant
    weights = Counter({1.0: leaf.corners, 0.25: leaf.half_corners})  # by (m / mu)^2
    if n > 1:
        weights.clear()
        for i, j in itertools.product(range(n + 1), repeat=2):
            if 0 < i + j <= n and j * leaf.half_corners >= j:
                ways = math.comb(n, i) * math.comb(n - i, j)
                weights[(4 * i + j) / (4 * n)] += ways * 2 ** (i + 2 * j) / 2**n
    best = np.where(left < 0, 1.0, 0.0)
    for square, weight in weights.items():
        m = mu * math.sqrt(square)
        best += weight * above(left / m - m / 2)
    for r in np.linspace(0.5, 1.0, 101 if leaf.curvature is not None else 0):
        end, middle = (t - leaf.curvature * x**2 for x in (r, 1 - r))
        bound = np.where(end < 0, 1.0, above(middle / mu - mu / 2))
        if leaf.half_corners:
            bound += above(2 * middle / mu - mu / 4) + above(2 * end / mu - mu / 4)
        best = np.minimum(best, bound)
    return np.where(t < 0, 1.0, np.minimum(best, 1.0))


def smallest(is_enough: Callable[[float], Any]) -> float:
    """The least x >= 0 that is enough, rounded up; inf if none up to 1e9 is."""
    low = high = 0.0
    while not is_enough(high):
        low, high = high, 2 * high + 1
        if high > 1e9:
            return math.inf
    for _ in range(60 if high else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def least_epsilon(profile: Profile, delta: float) -> float:
    """Smallest epsilon with at most this delta."""
    return smallest(lambda e: profile(np.array([e]))[0] <= delta)


# ------------------------------------------------------------------------- Composition


def reach_of(leaf: LeafEvent, tiny: float) -> float:
    """A loss that is exceeded with a tiny probability at most, in both orders."""

    def most(t: float) -> Any:
        return max(tails(leaf, np.array([t]), back)[0][0] for back in (False, True))

    return smallest(lambda t: most(t) <= tiny)


def variance_of(leaf: LeafEvent) -> float:
    """About the variance of the loss, which sets a grid."""
    if leaf.kind in PURE:
        return min(leaf.epsilon, leaf.epsilon**2)
    return leaf.sampling_rate**2 * math.expm1(min(leaf.mu**2, 4.0))


def masses_of(leaf: LeafEvent, t: Array, back: bool) -> Array:
    """Masses of P at losses t; those of P and Q in a cell are divided over its ends."""
    p, q = (np.maximum(-np.diff(x), 0.0) for x in tails(leaf, t, back))
    up = np.clip((p - np.exp(t[:-1]) * q) / -np.expm1(-np.diff(t)), 0.0, p)
    return np.append(p - up, 0.0) + np.append(0.0, up)


def in_order(world: World, delta: float, back: bool) -> Profile:
    """Bound on delta at each epsilon >= 0, in one order of the neighbours.

    `delta` is the least one that matters; rounding may add a millionth of it.
    """
    counts = np.array([float(leaf.count) for leaf in world])
    far = [reach_of(leaf, delta * 1e-7 / counts.sum()) for leaf in world]
    if max(far) > LARGEST:
        return lambda e: np.ones(e.shape)
    # Cells that add little to the variance, of one step and of all.
    sd = math.sqrt(counts @ [variance_of(leaf) for leaf in world])
    h = max(sd * min(0.05 / math.sqrt(counts.sum()), 0.002), max(far) / WIDE)
    pure = max((leaf.epsilon for leaf in world if leaf.kind in PURE), default=0.0)
    if pure > h:  # a place just above the largest loss, which has a mass
        h = pure / math.ceil(pure / h) * (1 + 1e-12)
    places = [np.arange(-math.ceil(x / h), math.ceil(x / h) + 1) for x in far]
    pairs = list(zip(world, places, strict=True))
    with np.errstate(divide="ignore"):
        laws = [np.log(masses_of(leaf, h * k, back)) for leaf, k in pairs]
    # Cumulants log E[exp(x L)] of each leaf, and of all together.
    x = np.geomspace(min(0.02 / sd, 0.5), 60 / sd, 100)
    x = np.append(-x[::-1], x)
    steps = list(zip(laws, places, strict=True))
    each = np.array([[np.logaddexp.reduce(m + y * h * k) for y in x] for m, k in steps])
    whole = counts @ each
    # The least tilt at which rounding, of 1e-16, stays below delta: Chernoff's bound.
    end = np.min((whole - math.log(delta))[100:] / x[100:])
    best = 100 + int(np.argmax((whole - x * end)[100:] <= math.log(delta) + 15))
    # Outside of these losses the tilted law has a mass below 1e-15.
    ends = np.delete(whole - whole[best] + 35, best) / np.delete(x - x[best], best)
    most = h * float(counts @ [k[-1] for k in places])
    low, high = np.max(ends[:best], initial=-most), np.min(ends[best:], initial=most)
    first, size = math.floor(low / h), 2 ** math.ceil(math.log2((high - low) / h + 4))
    demand(size <= 2**24, "a number of releases")
    spectrum = np.ones(size // 2 + 1, dtype=complex)
    for (m, k), n, log in zip(steps, counts, each[:, best], strict=True):
        tilted = np.bincount(k % size, np.exp(m + x[best] * h * k - log), size)
        spectrum *= np.fft.rfft(tilted) ** n
    t = h * (first + np.arange(size))
    found = np.roll(np.fft.irfft(spectrum, size), -(first % size)).clip(0)
    found *= np.exp(np.minimum(whole[best] - x[best] * t, LARGEST))
    small = found * np.exp(-t.clip(-LARGEST, LARGEST))
    upper, lower = (np.append(np.cumsum(y[::-1])[::-1], 0.0) for y in (found, small))
    kept = math.exp(counts @ [math.log1p(-leaf.delta) for leaf in world])
    # Bounded range is epsilon^2 / 8-zCDP (Lemma 7), which is less for many selections.
    has_ranges, y = any(leaf.kind == "bounded_range" for leaf in world), x[100:]
    for row, leaf in zip(each[:, 100:], world, strict=True):
        rho = leaf.epsilon**2 / 8 if leaf.kind == "bounded_range" else math.inf
        np.minimum(row, y * (y + 1) * rho, out=row)
    renyi = y * np.log(y / (1 + y)) - np.log1p(y) + counts @ each[:, 100:]

    def profile(e: Array) -> Array:
        i = np.clip(np.floor(e / h) - first + 1, 0, size).astype(int)
        shown = upper[i] - np.exp(np.minimum(e, LARGEST)) * lower[i]
        if has_ranges:
            shown = np.minimum(shown, np.exp(renyi - np.multiply.outer(e, y)).min(-1))
        shown = np.where(e > LARGEST, 1.0, shown.clip(0, 1))
        return kept * shown + (1 - kept) + 2e-7 * delta

    return profile


def sums(world: World, in_squares: bool = False) -> Array:
    """Epsilon, delta and mu^2 that add up: a charge for all leaves (Lemmas 9, 10).

    With `in_squares` pure events count by the mu of Lemma 8, at which randomised
    response is as hard to tell as noise.
    """
    total = np.zeros(3)
    for leaf in world:
        e, mu = leaf.epsilon if leaf.kind in PURE else math.inf, 0.0
        if leaf.kind == "gaussian":
            e, mu = 0.0, leaf.mu
        elif in_squares and e < LARGEST:
            half = e / 2 if leaf.kind == "bounded_range" else e
            e, mu = 0.0, -2 * NormalDist().inv_cdf(1 / (1 + math.exp(half)))
        total += leaf.count * np.array([e, leaf.delta, mu**2])
    return total


def curve(charge: Array) -> Profile:
    """With probability d all is shown, otherwise the loss is a + that of mu-GDP."""
    a, d, mu_squared = charge
    return lambda e: d + (1 - d) * gaussian(math.sqrt(mu_squared), e - a)


def profile_of(world: World, delta: float) -> Profile:
    """Bound on delta at each epsilon >= 0, in both orders; `delta` is the least."""
    charge = sums(world)
    simple, mu = curve(charge), math.sqrt(charge[2])
    others = [leaf for leaf in world if leaf.kind != "gaussian"]
    if delta == 0 or not others or any(x.kind == "non_private" for x in others):
        return simple
    joined = [*others, LeafEvent(kind="gaussian", mu=mu)] if mu else others
    away = home = in_order(joined, delta, False)
    if any(leaf.sampling_rate < 1 for leaf in others):  # other pairs are symmetric
        home = in_order(joined, delta, True)
    if not divided(others)[0]:
        return lambda e: np.minimum(simple(e), np.maximum(away(e), home(e)))

    def exchange(e: Array) -> Array:  # Lemma 5: to no record, and from it to another
        x = np.outer(e, np.linspace(0, 1, 401))
        found = away(x) + np.exp(np.minimum(x, LARGEST)) * home(e[:, None] - x)
        return found.min(axis=1)

    return exchange


def searched(leaf: LeafEvent, delta: float) -> LeafEvent:
    """The best of K trials as a black box, by Theorem 3.

    Against one trial it has the density w(u) = E[K (1 - u)^(K - 1)], where u is the
    chance of a higher score, and a neighbour's u is at most g(u).
    """
    k, shape, trial = np.arange(1.0, leaf.most + 1), leaf.shape, leaf.trial
    ratios, at_zero = leaf.mean / k[1:], 1 / leaf.mean  # P(K = k) / P(K = k - 1)
    if leaf.family == "negative_binomial":
        shape = shape if abs(shape) > 1e-6 else 1e-6  # the limit at 0
        y = smallest(
            lambda y: y and shape * math.expm1(y) >= leaf.mean * -math.expm1(-shape * y)
        )
        ratios, at_zero = (shape + k[1:] - 1) / k[1:] * -math.expm1(-y), 0.0
    logs = np.append(0.0, np.cumsum(np.log(ratios)))
    chances = np.exp(logs - logs.max())
    chances /= chances.sum() + at_zero * math.exp(-logs.max())
    w = (k * chances)[::-1]
    if trial.kind == "pure":
        e = trial.epsilon * trial.count
        u = np.append(np.geomspace(1e-18, 1, 20001), 1 / (1 + math.exp(e)))
        below = np.maximum((1 - u) * math.exp(-e), 1 - math.exp(e) * u)
        most = np.max(np.polyval(w, 1 - u) / np.polyval(w, below))
        return LeafEvent(kind="epsilon_delta", epsilon=e + math.log(most))
    mu = trial.mu * math.sqrt(trial.count)
    z, x = np.linspace(-9 - mu, 9, 2001), np.linspace(-9 - mu, 9 + mu, 1001)
    here, there = np.polyval(w, above(z)), np.polyval(w, above(z + mu))[:, None]
    density = np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    grown = np.outer(here, np.exp(mu * x - mu * mu / 2))

    def profile(e: Array) -> Array:
        gap = (grown - np.exp(np.minimum(e, LARGEST)) * there).max(axis=0)
        return np.array([density @ np.maximum(gap, 0.0)])

    epsilon = least_epsilon(profile, delta) if delta else math.inf
    return LeafEvent(kind="epsilon_delta", epsilon=epsilon, delta=delta)


def boxed(world: World, delta: float) -> World:
    """Leaves with a black box for each search, which costs a share of delta."""
    searches = [leaf for leaf in world if leaf.kind == "selection"]
    rest = [leaf for leaf in world if leaf.kind != "selection"]
    share = delta / (len(searches) + bool(rest) or 1)
    found = {str(leaf): leaf for leaf in searches}
    boxes = {text: searched(leaf, share) for text, leaf in found.items()}
    return rest + [boxes[str(leaf)] for leaf in searches]


def divided(world: World) -> tuple[World, World]:
    """Samples that are charged for an exchange, and other leaves."""
    samples = [leaf for leaf in world if leaf.adjacency == "replace_one"]
    return samples, [leaf for leaf in world if leaf.adjacency != "replace_one"]


def cost(world: World, delta: float) -> tuple[float, bool]:
    """Epsilon at a delta, and whether it is exact."""
    leaves = boxed(world, delta)
    samples, rest = divided(leaves)
    if samples and rest:
        epsilon = cost(samples, delta / 2)[0]
        box = LeafEvent(kind="epsilon_delta", epsilon=epsilon, delta=delta / 2)
        leaves = [*rest, box]
    is_pure = all(leaf.kind in PURE for leaf in leaves)
    is_endless = not is_pure and sums(leaves)[1] >= delta * (1 - SMALL)
    if is_endless or any(leaf.kind == "non_private" for leaf in leaves):
        return math.inf, True  # no loss of noise is the largest
    is_exact = delta == 0 or all(leaf.kind == "gaussian" for leaf in leaves)
    found = least_epsilon(profile_of(leaves, delta), delta * (1 + SMALL))
    return found, is_exact and leaves == world


def covers(world: World, charge: Array) -> bool:
    """Whether epsilon, delta and mu^2 are a valid charge for one release."""
    leaves = boxed(world, charge[1])
    samples, rest = divided(leaves)
    for in_squares in (False, True):
        left = charge * (1 + SMALL) - sums(rest, in_squares)
        if np.all(left >= 0) and (not samples or is_below(samples, left)):
            return True
    return not samples and is_below(rest, charge)


def is_below(world: World, charge: Array) -> bool:
    """Whether the cost at each epsilon >= 0 is below that of a charge (Lemma 11)."""
    least = max(float(charge[1]), 1e-12)
    profile = profile_of(world, least)
    end = least_epsilon(profile, least * (1 + COARSE / 2))  # from there on d is enough
    e = np.linspace(0, min(end, 1e9), 1000)
    most = curve(charge * (1 + 2 * COARSE))(e) * (1 + COARSE) + 1e-12
    return bool(np.all(profile(e) <= most))


# -------------------------------------------------------------------------- Statements


def check_record(values: dict[str, Any]) -> tuple[bool, list[str]]:
    """Whether a record's epsilon is the cost of its event, and lines that say so."""
    stated, delta, is_private, relation, unit = (
        values[name] for name in ("epsilon", "delta", "is_private", "adjacency", "unit")
    )
    demand(values.get("schema", 1) == 1, "the schema")
    demand(relation in RELATIONS, "the adjacency")
    demand(is_allowed("delta", delta), "delta")
    demand(type(is_private) is bool, "is_private")
    # An infinite epsilon is a text, since JSON has no such number.
    stated = math.inf if stated == "inf" else stated
    demand(type(stated) in (int, float) and stated >= 0, "epsilon")
    costs = [cost(world, delta) for world in worlds(values["event"], relation)]
    found, is_exact = max(costs, key=lambda one: one[0])
    verdict, how = "holds", "exact" if is_exact else "an upper bound"
    if not found <= stated * (1 + (SMALL if is_exact else COARSE)):
        verdict = "DOES NOT HOLD: the events cost more"
        if not is_exact:
            verdict = "DOES NOT FOLLOW: the bound is larger, so it is not confirmed"
    elif not found >= stated * (1 - SPARE) - TINY:
        verdict = "DOES NOT MATCH: the events cost less, so one may be missing"
    if is_private == math.isinf(stated):
        verdict = "DOES NOT MATCH: a private release has a finite epsilon, others not"
    elif not is_private:
        verdict = "no privacy is stated"
    return not verdict.startswith("DOES"), [
        f"{values['estimator']!r}, one {unit!r}, {relation!r}",
        f"  stated       epsilon {stated:.6g} at delta {delta:.4g}",
        f"  recomputed   epsilon {found:.6g}, {how}",
        f"  {verdict}",
    ]


def check_ledger(path: str) -> tuple[bool, list[str]]:
    """The chain of digests, the charge of each release, and the cap."""
    uri = f"{Path(path).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        (terms,) = connection.execute("SELECT * FROM books").fetchall()
        rows = connection.execute("SELECT * FROM spends ORDER BY id").fetchall()
    cap, cap_delta, relation, unit = terms[:4]
    demand(is_allowed("epsilon", cap) and is_allowed("delta", cap_delta), "the cap")
    demand(relation in RELATIONS, "the adjacency")
    link = hashlib.sha256(repr((*terms[:6], *terms[8:])).encode()).hexdigest()
    for row in rows:
        link = hashlib.sha256((link + repr(row)).encode()).hexdigest()
    wrong = []
    if (len(rows), link) != terms[6:8]:
        wrong.append("the chain of digests is broken: a release was changed or removed")
    spent, (c, d) = np.zeros(3), terms[8:]  # epsilon, delta, mu^2; the reserve
    for number, _, _, _, _, event, text in rows:
        charged, leaves = read_json(text), worlds(read_json(event), relation)
        if "is_void" in charged:
            wrong.append(f"release {number} is not private, so no limit holds")
            break
        charge = [charged[name] for name in ("epsilon", "delta", "mu_squared")]
        is_right = all(
            type(x) in (int, float) and 0 <= x < math.inf for x in charged.values()
        )
        demand(is_right and len(charged) == 3, f"the charge of release {number}")
        if not all(covers(world, np.array(charge)) for world in leaves):
            wrong.append(f"release {number} is charged too little")
        if spent[2] == 0 < charge[2]:
            c, d = max(c, spent[0] + charge[0]), max(d, spent[1] + charge[1])
        spent += charge
    a, lost, mu_squared = spent
    limits = (c, d) if mu_squared else (cap, cap_delta)
    if a > limits[0] * (1 + SMALL) or lost > limits[1] * (1 + SMALL):
        wrong.append("the charges exceed the reserve for them")
    left, at_cap = cap_delta - d, gaussian(math.sqrt(mu_squared), cap - c)
    if mu_squared and not (left > 0 and at_cap <= left * (1 + SMALL)):
        wrong.append("the charges exceed the cap")
    total = least_epsilon(
        curve(np.array([a, 0, mu_squared])), max(cap_delta - lost, 0.0)
    )
    return not wrong, [
        f"ledger, one {unit!r}, {relation!r}",
        f"  stated       cap epsilon {cap:g} at delta {cap_delta:g}",
        f"  recomputed   {len(rows)} releases: epsilon {total:.6g} in all if they were "
        "planned in advance, else the cap; each charge by its exact curve or a bound",
        f"  head         {link}",
        *([f"  DOES NOT HOLD: {x}" for x in wrong] or ["  holds"]),
    ]


def read_json(text: str | bytes) -> Any:
    """JSON in which no name is twice in an object."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        demand(len(dict(pairs)) == len(pairs), "a name that is twice in an object")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=unique)


def main(paths: list[str]) -> int:
    """Check files, print what was found, and return the exit status."""
    status = 0 if paths else 2
    if not paths:
        print(__doc__)
    for path in paths:
        try:
            data = Path(path).read_bytes()
            is_ledger = data.startswith(b"SQLite format 3")
            found = check_ledger(path) if is_ledger else check_record(read_json(data))
            status = max(status, 0 if found[0] else 1)
            print(f"{path}: " + "\n".join(found[1]), flush=True)
        except json.JSONDecodeError:
            print(f"{path}: cannot be checked: no ledger, and no JSON of a privacy_")
            status = 2
        except Exception as error:  # files may hold anything
            print(f"{path}: cannot be checked: {type(error).__name__}: {error}")
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
