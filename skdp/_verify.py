"""Recompute what a privacy record or a ledger of skdp states, without skdp.

Usage: ``python verify.py FILE ...`` or ``skdp verify FILE ...``; a file is the JSON of
``privacy_.to_json()``, or a ledger. The file needs NumPy and nothing of skdp, so that
an error in skdp's accounting is not repeated here. It checks numbers: it cannot know
whether a program added the noise that its record describes.

Gaussian noise alone and sums of pure epsilons are recomputed exactly, other events by
an upper bound: losses are rounded to a grid on the private side (Doroshenko et al.
2022, https://arxiv.org/abs/2207.04380), and added up by a Fourier transform that is
tilted towards large losses. Exit status: 0 if every statement holds, 1 if one does not
or is not confirmed by the bound, 2 if a file cannot be read or checked.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Event = dict[str, Any]
Profile = Callable[[Array], Array]  # delta at each epsilon
# Relative tolerances: of formulas, and of grids (skdp stops within 0.06 % of a budget).
SMALL, COARSE = 1e-6, 1.5e-3
# A record may state so much more than its events cost: calibration stops earlier, but
# skdp rounds the least budgets up to 1e-6.
SPARE, TINY = 0.01, 1e-6
PURE = ("pure", "laplace", "bounded_range", "epsilon_delta")
# The fields of each event, with the least and the largest value or the allowed texts.
SIZE, TIMES, UP = (1e-100, 1e100), (1, 2**53), (0.0, 1e8)
NOISE = {"noise_multiplier": SIZE, "count": TIMES}
LOSS = {"epsilon": SIZE, "count": TIMES}
NAMES = ("zero_out", "replace_one")
FIELDS: dict[str, dict[str, Any]] = {
    "gaussian": NOISE,
    "laplace": NOISE,
    "pure": LOSS,
    "bounded_range": LOSS,
    "epsilon_delta": LOSS | {"delta": (0.0, 1.0)},
    "poisson_gaussian": NOISE | {"sampling_rate": (1e-100, 1.0), "adjacency": NAMES},
    "objective": {
        "noise_multiplier": SIZE,
        "log_determinant": UP,
        "corners": TIMES,
        "half_corners": (0, 2**53),
        "curvature": UP,
        "outputs": (1, 500),
    },
    "selection": {
        "trial": ("gaussian", "pure"),
        "family": ("negative_binomial", "poisson"),
        "mean": (1e-9, 1e6),
        "most": (1, 20_000),
        "shape": (-1.0, 1e6),
    },
    "non_private": {},
}
# Largest numbers of worlds, of places of a grid, and of nested events.
MANY, WIDE, DEEP = 4096, 2**24, 100
_erfc = np.vectorize(math.erfc, otypes=[float])


def above(x: Any) -> Array:
    """P(N(0, 1) > x)."""
    return np.asarray(_erfc(np.asarray(x, dtype=float) / math.sqrt(2)) / 2)


def log_above(x: Array) -> Array:
    """Logarithm of `above`, also where that is too small for a double."""
    far = np.maximum(x, 25.0)  # four terms of the asymptotic series
    series = 1 - far**-2 + 3 * far**-4 - 15 * far**-6
    tail = np.log(series / far / math.sqrt(2 * math.pi)) - far * far / 2
    return np.where(x > 25, tail, np.log(above(np.minimum(x, 25.0))))


def gaussian(mu: float, e: Any) -> Array:
    """Delta at epsilon e, of any sign, of N(0, 1) against N(mu, 1)."""
    if mu == 0:
        return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(e, 0.0))))
    one, two = log_above(e / mu - mu / 2), e + log_above(e / mu + mu / 2)
    return np.asarray(np.exp(one) * -np.expm1(np.minimum(two - one, 0.0)))


def least_epsilon(profile: Profile, delta: float) -> float:
    """Smallest epsilon with profile(epsilon) <= delta, from above; inf at delta 0."""
    low = high = 0.0
    if not delta > 0:  # noise alone never has a delta of 0
        return math.inf
    while float(profile(np.array([high]))[0]) > delta:
        low, high = high, 2 * high + 1
        if high > 1e9:
            return math.inf
    for _ in range(60 if high else 0):
        middle = (low + high) / 2
        is_enough = float(profile(np.array([middle]))[0]) <= delta
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def spread(leaf: Event) -> float:
    """mu^2 of Gaussian noise; of others the variance of the loss, which sets a grid."""
    if leaf["event"] in PURE:
        e = leaf["epsilon"]
        one = e * min(1.0, e / 3 if leaf["event"] == "bounded_range" else e)
    else:
        rate, one = leaf["sampling_rate"], leaf["mu"] ** 2
        one = rate**2 * math.expm1(min(one, 4.0)) if rate < 1 else one
    return float(leaf["count"] * one)


def tails(leaf: Event, t: Array, back: bool) -> tuple[Array, Array]:
    """P(L > t) and Q(L > t) of one step, L = log P/Q; `back` exchanges P and Q."""
    if leaf["event"] not in PURE:  # (1 - rate) N(0, 1) + rate N(mu, 1), and N(0, 1)
        mu, rate = leaf["mu"], leaf["sampling_rate"]
        side, t = (-1, -t) if back else (1, t)
        with np.errstate(divide="ignore"):
            near = np.log(np.maximum(np.expm1(np.minimum(t, 1.0)) + rate, 0) / rate)
        far = t - math.log(rate) + np.log1p((rate - 1) * np.exp(-np.maximum(t, 1.0)))
        x = side * (np.where(t > 1, far, near) / mu + mu / 2)
        p, q = (1 - rate) * above(x) + rate * above(x - side * mu), above(x)
        return (q, p) if back else (p, q)
    e = leaf["epsilon"]
    ends, inner = [t < -e, t >= e], np.clip(t, -e, e)
    if leaf["event"] == "laplace":
        p, q = 1 - np.exp((inner - e) / 2) / 2, np.exp((-inner - e) / 2) / 2
    elif leaf["event"] == "bounded_range":  # two logistic laws at distance e
        q = np.expm1((e - inner) / 2) / math.expm1(e)
        p = q * np.exp((e + inner) / 2)
    else:  # randomised response
        p, q = (np.full(t.shape, 1 / (1 + math.exp(s))) for s in (-e, e))
    return np.select(ends, [1.0, 0.0], p), np.select(ends, [1.0, 0.0], q)


def objective_above(leaf: Event, t: Array) -> Array:
    """P(L > t) of objective perturbation, bounded by Theorems 4 and 5 of its proof."""
    mu, n = leaf["mu"], leaf["outputs"]
    left, halves = t - leaf["log_determinant"], leaf["half_corners"]
    weights = {4: float(leaf["corners"]), 1: float(halves)}  # by 4 n (m / mu)^2
    if n > 1:
        weights = dict.fromkeys(range(1, 4 * n + 1), 0.0)
        for i, j in itertools.product(range(n + 1), range(n + 1 if halves else 1)):
            if 0 < i + j <= n:
                ways = math.comb(n, i) * math.comb(n - i, j)
                weights[4 * i + j] += ways * 2 ** (i + 2 * j) / 2**n
    bound = np.zeros(t.shape)
    for quarters, weight in weights.items():
        m = mu * math.sqrt(quarters / (4 * n))
        bound += weight * above(left / m - m / 2) if weight else 0.0
    best, kappa = np.where(left < 0, 1.0, np.minimum(bound, 1.0)), leaf["curvature"]
    for r in [] if kappa is None else np.linspace(0.5, 1.0, 101):  # one of the tangents
        end, middle = t - kappa * r**2, t - kappa * (1 - r) ** 2
        bound = above(middle / mu - mu / 2)
        if halves:
            bound += above(2 * middle / mu - mu / 4) + above(2 * end / mu - mu / 4)
        best = np.minimum(best, np.where(end < 0, 1.0, bound))
    return best


def masses_of(leaf: Event, h: float, least: float, back: bool) -> tuple[int, Array]:
    """k, and masses of P at h k, h (k + 1), ...: those of a cell move to its ends."""
    high, low = h, -h
    if leaf["event"] == "objective":
        while objective_above(leaf, np.array([high]))[0] > least:
            high *= 1.3
        if high / h > WIDE:
            raise ValueError("the losses need a finer grid than this file has")
        found = objective_above(leaf, np.arange(math.ceil(high / h) + 1) * h)
        return 0, -np.diff(np.minimum.accumulate(found), prepend=1.0)
    while tails(leaf, np.array([high]), back)[0][0] > least:
        high *= 1.3
    while tails(leaf, np.array([low]), back)[0][0] < 1 - 1e-13:
        low *= 1.3
    k = math.floor(low / h)
    if high / h - k > WIDE:
        raise ValueError("the losses need a finer grid than this file has")
    t = np.arange(k, math.ceil(high / h) + 1) * h
    p, q = (np.maximum(-np.diff(x), 0.0) for x in tails(leaf, t, back))
    up = np.clip((p - np.exp(t[:-1]) * q) / -math.expm1(-h), 0.0, p)
    return k, np.append(p - up, 0.0) + np.append(0.0, up)


def in_order(leaves: list[Event], delta: float, back: bool) -> Profile:
    """Bound on the delta of all leaves together, in one order of the neighbours."""
    counts = [x["count"] for x in leaves]
    sd = math.sqrt(sum(map(spread, leaves)))
    fine = 0.002 if any(x["event"] == "objective" for x in leaves) else 0.01
    h = sd * min(0.05 / math.sqrt(sum(counts)), fine)
    largest = max((x["epsilon"] for x in leaves if x["event"] in PURE), default=0.0)
    if largest:  # put the grid just above the largest loss, which has a mass
        h = largest / math.ceil(largest / h) * (1 + 1e-12)
    steps = [masses_of(x, h, delta * 1e-7 / sum(counts), back) for x in leaves]
    places = [k + np.arange(len(masses)) for k, masses in steps]
    boxes = sum(x["count"] * math.log1p(-x["delta"]) for x in leaves)

    def growth(order: float) -> list[float]:  # log E[exp(order L)] of each step
        with np.errstate(divide="ignore"):
            pairs = zip(steps, places, strict=True)
            logs = [np.log(masses) + order * h * place for (_, masses), place in pairs]
        return [float(x.max() + np.log(np.exp(x - x.max()).sum())) for x in logs]

    def total(order: float) -> float:
        return float(np.dot(counts, growth(order)))

    orders = np.geomspace(min(0.02 / sd, 0.5), 60 / sd, 100)
    tilt = float(min(orders, key=lambda x: (total(x) - math.log(delta)) / x))
    tilted, whole = growth(tilt), total(tilt)
    # Outside of these losses the tilted law has a mass below 1e-15.
    high = min((total(tilt + s) - whole + 35) / s for s in orders)
    low = max((whole - total(tilt - s) - 35) / s for s in orders)
    if not (high - low) / h < WIDE:
        raise ValueError("the losses need a finer grid than this file has")
    size, first = 2 ** math.ceil(math.log2((high - low) / h + 4)), math.floor(low / h)
    spectrum = np.ones(size // 2 + 1, dtype=complex)
    for (_, masses), place, n, log in zip(steps, places, counts, tilted, strict=True):
        weights = masses * np.exp(tilt * h * place - log)
        spectrum *= np.fft.rfft(np.bincount(place % size, weights, size)) ** n
    t = h * (first + np.arange(size))
    found = np.maximum(np.roll(np.fft.irfft(spectrum, size), -(first % size)), 0.0)
    found *= np.exp(np.minimum(whole - tilt * t, 600.0))
    small = found * np.exp(np.clip(-t, -600, 600))
    upper, lower = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (found, small))
    # Bounded range is epsilon^2 / 8-zCDP, which costs less for many selections.
    zcdp = [x["event"] == "bounded_range" and x["epsilon"] ** 2 / 8 for x in leaves]
    renyi = []
    for x in np.geomspace(0.02, 60, 200) / sd if any(zcdp) else []:
        pairs = zip(growth(x), zcdp, strict=True)
        logs = [min(log, x * (x + 1) * z) if z else log for log, z in pairs]
        factor = x * math.log(x / (1 + x)) - math.log1p(x)
        renyi.append((x, float(np.dot(counts, logs)) + factor))

    def profile(e: Array) -> Array:
        i = np.clip(np.floor(e / h) - first + 1, 0, size).astype(int)
        shown = np.maximum(upper[i] - np.exp(np.minimum(e, 600.0)) * lower[i], 0.0)
        for order, log in renyi:
            shown = np.minimum(shown, np.exp(np.minimum(log - order * e, 0.0)))
        shown = shown * math.exp(boxes) - math.expm1(boxes) + delta * 1e-7
        return np.asarray(np.minimum(1.0, shown))

    return profile


def profile_of(leaves: list[Event], delta: float) -> Profile:
    """Bound on delta at every epsilon >= 0, in both orders; `delta` is the least."""
    if all(x["event"] == "gaussian" for x in leaves):
        mu = math.sqrt(sum(map(spread, leaves)))
        return lambda e: gaussian(mu, e)
    away = in_order(leaves, delta, False)
    if not any(x["sampling_rate"] < 1 for x in leaves):
        return away  # each pair is its reverse
    home = in_order(leaves, delta, True)
    if not any(x["adjacency"] == "replace_one" for x in leaves):
        return lambda e: np.maximum(away(e), home(e))

    def exchange(e: Array) -> Array:  # to the null record, and from there to another
        x = np.outer(e, np.linspace(0, 1, 401))
        return np.asarray((away(x) + np.exp(x) * home(e[:, None] - x)).min(axis=1))

    return exchange


def selected(leaf: Event, delta: float) -> Event:
    """A black box for the best of K trials.

    Against one trial it has the density w(u) = E[K (1 - u)^(K - 1)], where u is the
    chance of a higher score, and a neighbour's u is at most g(u).
    """
    k, shape = np.arange(leaf["most"] + 1.0), leaf["shape"]
    logs = np.append(0.0, np.cumsum(math.log(leaf["mean"]) - np.log(k[1:])))
    if leaf["family"] == "negative_binomial":
        low, high = 1e-12, 1 - 1e-9  # ends of gamma, which has this mean
        for _ in range(200):
            gamma = math.sqrt(low * high)
            mean = (1 / gamma - 1) / -math.log(gamma)
            if abs(shape) > 1e-6:
                mean = shape * (1 / gamma - 1) / -math.expm1(shape * math.log(gamma))
            low, high = (gamma, high) if mean > leaf["mean"] else (low, gamma)
        ratios = np.log((shape + k[1:-1]) / k[2:]) + math.log1p(-high)
        logs = np.append([-np.inf, 0.0], np.cumsum(ratios))
    w = np.exp(logs - logs.max())
    w = (k * w / w.sum())[:0:-1]
    ((trial,),) = worlds(leaf["trial"])
    if trial["event"] == "pure":
        e = trial["epsilon"] * trial["count"]
        u = np.append(np.geomspace(1e-18, 1, 20001), 1 / (1 + math.exp(e)))
        below = np.maximum((1 - u) * math.exp(-e), 1 - math.exp(e) * u)
        most = float(np.max(np.polyval(w, 1 - u) / np.polyval(w, below)))
        return box(e + math.log(most), 0.0)
    mu = math.sqrt(spread(trial))
    z, x = np.linspace(-9 - mu, 9, 2001), np.linspace(-9 - mu, 9 + mu, 1001)
    here, there = np.polyval(w, above(z)), np.polyval(w, above(z + mu))
    density = np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)

    def profile(e: Array) -> Array:
        ratios = np.outer(here, np.exp(mu * x - mu * mu / 2 - e[0])) - there[:, None]
        return np.asarray(np.exp(e) * (density @ np.maximum(ratios.max(axis=0), 0.0)))

    return box(least_epsilon(profile, delta) if delta else math.inf, delta)


# ----------------------------------------------------------------- Events, statements


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, and not a Boolean."""
    return type(value) in (int, float) and math.isfinite(value)


def check_event(event: Any, relation: str, depth: int = 0) -> None:
    """Raise ValueError unless an event has exactly its fields, with values in range."""
    if not isinstance(event, dict) or depth > DEEP:
        raise ValueError("an event must be an object, and not nested too deeply")
    kind, fields = event.get("event"), {k: v for k, v in event.items() if k != "event"}
    if kind in ("composed", "parallel"):
        parts = fields.get("parts")
        if list(fields) != ["parts"] or not isinstance(parts, list):
            raise ValueError(f"an event of the kind {kind!r} must have a list of parts")
        if kind == "parallel" and not parts:
            raise ValueError("an event of the kind 'parallel' must have a part")
        for part in parts:
            check_event(part, relation, depth + 1)
        return
    if not isinstance(kind, str) or kind not in FIELDS:
        raise ValueError(f"an event of the kind {kind!r} is unknown here")
    if kind == "objective":
        fields = {"outputs": 1} | fields
    if set(fields) != set(FIELDS[kind]):
        raise ValueError(f"an event of the kind {kind!r} has other fields")
    for name, allowed in FIELDS[kind].items():
        value = fields[name]
        if name == "trial":
            check_event(value, relation, depth + 1)
            is_right = value["event"] in allowed
        elif isinstance(allowed[0], str):
            # Noise that hides a record's absence may not hide its exchange.
            is_weak = value == "zero_out" and relation.startswith("replace")
            is_right = value in allowed and not is_weak
        else:
            is_right = is_number(value) and allowed[0] <= value <= allowed[1]
            is_right &= isinstance(allowed[0], float) or isinstance(value, int)
            is_right |= name == "curvature" and value is None
        if not is_right or (name == "delta" and not is_delta(value)):
            raise ValueError(f"{name} of an event of the kind {kind!r} is out of range")


def is_delta(value: Any) -> bool:
    """Whether a value is 0, or from 1e-50 on and below 1."""
    return is_number(value) and (value == 0 or 1e-50 <= value < 1)


def worlds(event: Event) -> list[list[Event]]:
    """Lists of leaves, of which the one that costs most is charged.

    A record is in one of the disjoint sets of a parallel event.
    """
    if event["event"] == "composed":
        each = [worlds(part) for part in event["parts"]]
        if math.prod(map(len, each)) > MANY:
            raise ValueError(f"disjoint sets make more than {MANY} combinations")
        choices = itertools.product(*each)
        return [merged(itertools.chain(*choice)) for choice in choices]
    if event["event"] == "parallel":
        found = [world for part in event["parts"] for world in worlds(part)]
        return list({json.dumps(world): world for world in found}.values())
    leaf = {
        "count": 1,
        "outputs": 1,
        "sampling_rate": 1.0,
        "adjacency": "",
        "delta": 0.0,
    }
    if "noise_multiplier" in event:
        size = "epsilon" if event["event"] == "laplace" else "mu"
        leaf[size] = 1 / event["noise_multiplier"]
    return [[leaf | event]]


def merged(leaves: Iterable[Event]) -> list[Event]:
    """Gaussian noise as one event, and equal events with the sum of their counts."""
    counts: dict[str, int] = {}
    for leaf in leaves:
        key = json.dumps(leaf | {"count": 0}, sort_keys=True)
        counts[key] = counts.get(key, 0) + leaf["count"]
    found = [json.loads(key) | {"count": n} for key, n in counts.items()]
    noise = [x for x in found if x["event"] == "gaussian"]
    if len(noise) < 2:
        return found
    mu = math.sqrt(math.fsum(map(spread, noise)))
    return [noise[0] | {"count": 1, "mu": mu}, *(x for x in found if x not in noise)]


def box(epsilon: float, delta: float) -> Event:
    """A mechanism of which no more is known."""
    return worlds({"event": "epsilon_delta", "epsilon": epsilon, "delta": delta})[0][0]


def boxed(leaves: list[Event], delta: float) -> tuple[list[Event], bool]:
    """Leaves without searches, each of which costs a share of delta, and if any was."""
    rest = [x for x in leaves if "trial" not in x]
    searches = [x for x in leaves if "trial" in x]
    share = delta / (sum(x["count"] for x in searches) + bool(rest) or 1)
    found = [selected(x, share) | {"count": x["count"]} for x in searches]
    return rest + found, bool(searches)


def cost(leaves: list[Event], delta: float) -> tuple[float, bool]:
    """Epsilon at a delta, and whether it is exact."""
    if any(x["event"] == "non_private" for x in leaves):
        return math.inf, True
    leaves, has_searches = boxed(leaves, delta)
    exchanged = [x for x in leaves if x["adjacency"] == "replace_one"]
    if exchanged and len(exchanged) < len(leaves):
        one = box(cost(exchanged, delta / 2)[0], delta / 2)
        return cost([x for x in leaves if x not in exchanged] + [one], delta)
    pure = [x for x in leaves if x["event"] in PURE]
    noise = [x for x in leaves if x["event"] == "gaussian"]
    simple = math.inf  # the sum of all epsilons
    left = delta - math.fsum(x["count"] * x["delta"] for x in pure)
    if len(pure) + len(noise) == len(leaves) and left >= -SMALL * delta:
        simple = math.fsum(x["count"] * x["epsilon"] for x in pure)
        mu = math.sqrt(math.fsum(map(spread, noise)))
        simple += least_epsilon(lambda e: gaussian(mu, e), left) if noise else 0.0
    if len(pure) < len(leaves) and left <= SMALL * delta:
        return math.inf, True  # no loss is the largest, and no delta is left
    is_endless = any(math.isinf(x["epsilon"]) for x in pure)
    if delta == 0 or len(noise) == len(leaves) or is_endless:
        return simple, not has_searches
    numeric = least_epsilon(profile_of(leaves, delta), delta * (1 + SMALL))
    return min(simple, numeric), False


def covers(leaves: list[Event], a: float, d: float, mu_squared: float) -> bool:
    """Whether a charge is valid: with probability d all is shown, else a + mu-GDP."""
    leaves, least = boxed(leaves, d)[0], max(d, 1e-12)
    pure = [x for x in leaves if x["event"] in PURE]
    rest = math.fsum(spread(x) for x in leaves if x not in pure)
    if all(x["event"] in (*PURE, "gaussian") for x in leaves):
        # By sums: pure parts count in epsilon, or as the mu that is as easy to detect.
        kinks = [x["epsilon"] / (1 + (x["event"] == "bounded_range")) for x in pure]
        mus = [
            -2 * NormalDist().inv_cdf(1 / (1 + math.exp(min(e, 700)))) for e in kinks
        ]
        counts, more = [x["count"] for x in pure], 1 + SMALL
        squares = rest + float(np.dot(counts, np.square(mus)))
        total = sum(x["count"] * x["epsilon"] for x in pure)
        boxes = sum(x["count"] * x["delta"] for x in pure)
        is_simple = total <= a * more and rest <= mu_squared * more
        if boxes <= d * more and (is_simple or squares <= mu_squared * more):
            return True
    profile = profile_of(leaves, least)
    # Where the profile is below d, the charge is enough.
    e = np.linspace(0, least_epsilon(profile, least * (1 + COARSE / 2)), 1000)
    mu, a = math.sqrt(mu_squared) * (1 + COARSE), a * (1 + COARSE)
    most = (d + (1 - d) * gaussian(mu, e - a)) * (1 + COARSE) + 1e-12
    return bool(np.all(profile(e) <= most))


def check_record(values: Event) -> tuple[bool, list[str]]:
    """Whether a record's epsilon is the cost of its event, and lines that say so."""
    delta, is_private, relation = (
        values[name] for name in ("delta", "is_private", "adjacency")
    )
    # An infinite epsilon is a text, since JSON has no such number.
    stated = math.inf if values["epsilon"] == "inf" else values["epsilon"]
    if not (is_number(stated) and stated >= 0) and stated != math.inf:
        raise ValueError("epsilon must be a number of at least 0, or 'inf'")
    if not is_delta(delta) or type(is_private) is not bool:
        raise ValueError("delta and is_private must be as skdp writes them")
    check_event(values["event"], str(relation))
    costs = [cost(world, delta) for world in worlds(values["event"])]
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
        f"{values['estimator']!r}, one {values['unit']!r}, {relation!r}",
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
    cap, cap_delta, adjacency, unit = terms[:4]
    if not (is_number(cap) and cap >= 0 and is_delta(cap_delta)):
        raise ValueError("the cap must be as skdp writes it")
    lines = [f"ledger, one {unit!r}, {adjacency!r}"]
    lines += [f"  stated       cap epsilon {cap:g} at delta {cap_delta:g}"]
    link = hashlib.sha256(repr((*terms[:6], *terms[8:])).encode()).hexdigest()
    for row in rows:
        link = hashlib.sha256((link + repr(row)).encode()).hexdigest()
    wrong = []
    if (len(rows), link) != terms[6:8]:
        wrong.append("the chain of digests is broken: a release was changed or removed")
    spent, (c, d) = np.zeros(3), terms[8:]  # epsilon, delta, mu^2; what is set aside
    for number, _, _, _, _, event, charge in rows:
        booked, release = read_json(charge), read_json(event)
        check_event(release, str(adjacency))
        leaves = worlds(release)
        if "is_void" in booked:
            wrong.append(f"release {number} is not private, so no limit holds")
            break
        one = [booked[name] for name in ("epsilon", "delta", "mu_squared")]
        if not all(is_number(x) and x >= 0 for x in one):
            raise ValueError(f"the charge of release {number} is out of range")
        if not all(covers(world, *one) for world in leaves):
            wrong.append(f"release {number} is charged too little")
        if spent[2] == 0 < one[2]:
            c, d = max(c, spent[0] + one[0]), max(d, spent[1] + one[1])
        spent += one
    a, lost, mu = spent[0], spent[1], math.sqrt(spent[2])
    limits = (c, d) if mu else (cap, cap_delta)
    if a > limits[0] * (1 + SMALL) or lost > limits[1] * (1 + SMALL):
        wrong.append("the charges exceed what is set aside for them")
    left = cap_delta - d
    if mu and not (left > 0 and gaussian(mu, cap - c) <= left * (1 + SMALL)):
        wrong.append("the charges exceed the cap")
    left = cap_delta - lost
    total = a + (least_epsilon(lambda e: gaussian(mu, e), left) if mu else 0.0)
    lines += [
        f"  recomputed   {len(rows)} releases: epsilon {total:.6g} in all if they were "
        "planned in advance, else the cap; each charge by its exact curve or a bound",
        f"  head         {link}",
    ]
    return not wrong, lines + ([f"  DOES NOT HOLD: {x}" for x in wrong] or ["  holds"])


def read_json(text: str | bytes) -> Any:
    """JSON without NaN and infinite numbers."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number")

    return json.loads(text, parse_constant=refuse)


# Files may hold anything; whatever goes wrong, a file is not confirmed.
FAILURES = (
    ArithmeticError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    sqlite3.Error,
)


def main(paths: list[str]) -> int:
    """Check files, print what was found, and return the exit status."""
    status = 0 if paths else 2
    if not paths:
        print(__doc__)
    for path in paths:
        try:
            data = Path(path).read_bytes()
            if data.startswith(b"SQLite format 3"):
                is_true, lines = check_ledger(path)
            else:
                is_true, lines = check_record(read_json(data))
            status = max(status, 0 if is_true else 1)
            print(f"{path}: " + "\n".join(lines), flush=True)
        except FAILURES as error:
            print(f"{path}: cannot be checked: {type(error).__name__}: {error}")
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
