"""Exact laws where one transcript does not tell all: samples, hidden lines.

All are in one dimension, of what a real run handed to the noise source.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.optimize import brentq

from skdp._fit import Progress
from skdp.audit._exact import Replay, marked
from skdp.losses import HuberHingeLoss, LogisticLoss, SquaredLoss
from skdp.losses._classification import WeightedLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy import calibrate, epsilon_of
from skdp.solvers import SOLVERS
from skdp.tables._memory import MemorySource
from tests.audit.linear import BUDGETS
from tests.door import planned
from tests.line import Line

HINGE = HuberHingeLoss(h=0.5)


def hockey_stick(p, q, epsilon):
    """The larger delta of both orders, of densities times the width of cells."""
    return max(
        float(np.sum(np.maximum(0.0, a - math.exp(epsilon) * b)))
        for a, b in ((p, q), (q, p))
    )


def exact_epsilon(p, q, delta):
    """Epsilon at `delta` of two densities times the width of cells."""
    if delta == 0:
        seen = (p > 1e-280) & (q > 1e-280)
        return float(np.abs(np.log(p[seen] / q[seen])).max())
    if hockey_stick(p, q, 0.0) <= delta:
        return 0.0
    return brentq(lambda e: hockey_stick(p, q, e) - delta, 0.0, 60.0, xtol=1e-9)


@dataclass(frozen=True)
class OneFeature:
    """One solver on records of one column, of which the first is exchanged.

    Parameters
    ----------
    key, adjacency, law : str
    params : tuple of pairs
    others : tuple of float
        The column of the other records, which are alike in both data sets; null ones
        make up the number.
    """

    key: str
    adjacency: str
    law: str
    params: tuple
    others: tuple = ()
    alpha: float = 0.0
    n_samples: int = 4

    @property
    def budget(self):
        return BUDGETS[self.law]

    @cached_property
    def objective(self):
        return LinearObjective(
            loss=HINGE,
            n_samples=self.n_samples,
            n_features=1,
            data_norm=1.0,
            adjacency=self.adjacency,
            alpha=self.alpha,
            fit_intercept=False,
        )

    @cached_property
    def solver(self):
        kind = SOLVERS[self.key]
        return planned(kind, self.objective, self.budget, **dict(self.params))

    @cached_property
    def plan(self):
        return self.solver.plan(self.objective)

    @cached_property
    def multiplier(self):
        declare = partial(self.plan.event, relation=self.adjacency)
        return calibrate(declare, self.budget)

    @property
    def sources(self):
        """The first record is there, and in its place another or the null record."""
        X = np.zeros((self.n_samples, 1))
        X[0], X[1 : 1 + len(self.others), 0] = 1.0, self.others
        there = np.arange(self.n_samples) <= len(self.others)
        y, without, other = np.ones(self.n_samples), there.copy(), X.copy()
        without[0] = self.adjacency == "replace_one"
        other[0] = -1.0
        return MemorySource(X, y, there), MemorySource(other, y, without)

    def run(self, source, noise):
        answers = marked(self.plan, source, self.multiplier, self.adjacency, noise)
        with np.errstate(all="ignore"):
            return self.solver.run(answers, self.objective, Progress())


class Drew(Replay):
    """Every sample is the one that it is told."""

    rows = np.empty(0, dtype=np.int64)

    def poisson_sample(self, n, rate):
        return self.rows

    def subset(self, n, size):
        return self.rows


# Secret samples: the mixture over all of them ----------------------------------------


def sampled(case, shrink=1.0):
    """Exact epsilon over the claim of one answer about a secret sample."""
    n, sample = case.n_samples, case.plan.lines[0].sample
    size = getattr(sample, "size", None)
    masks = list(itertools.product((0, 1), repeat=n))
    if size is not None:
        chances = {m: 1 / math.comb(n, size) for m in masks if sum(m) == size}
    else:
        rate = sample.rate
        chances = {m: rate ** sum(m) * (1 - rate) ** (n - sum(m)) for m in masks}
    sides = [
        [_asked(case, source, mask, shrink) for mask in chances]
        for source in case.sources
    ]
    (sigma,) = {asked.sigma for side in sides for asked in side}
    far = sigma * (60 if case.law == "pure" else 12) + n
    x = np.linspace(-far, far, 40_001)
    densities = []
    for side in sides:
        density = np.zeros_like(x)
        for asked, chance in zip(side, chances.values(), strict=True):
            away = np.abs(x - asked.query.item()) / sigma
            kernel = np.exp(-away) if case.law == "pure" else np.exp(-(away**2) / 2)
            density += chance * kernel
        densities.append(density / density.sum())
    return exact_epsilon(*densities, case.budget.delta) / case.budget.epsilon


def _asked(case, source, mask, shrink):
    noise = Drew(0, shrink=shrink)
    noise.rows = np.flatnonzero(mask)
    case.run(source, noise)
    (asked,) = noise.asked
    return asked


# The last iterate of a hidden path ---------------------------------------------------


class SameNoise(Replay):
    """Adds the noise that another run added, wherever this one is."""

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        if self.heard is None:
            return super().gaussian(
                query,
                sensitivity=sensitivity,
                noise_multiplier=noise_multiplier,
                fine=fine,
            )
        other = self.heard.asked[len(self.asked)]
        released = query + (other.released - other.query)
        self.asked.append(replace(other, query=query.copy(), released=released))
        return released


def last_iterate(case, shrink=1.0):
    """Exact mu over the claim of the last iterate, where residuals are constant.

    Then a step multiplies what there is by ``c = 1 - step_size * alpha``, whatever the
    records are: both laws are Gaussian with the same variance.
    """
    first = SameNoise(0, shrink=shrink)
    second = SameNoise(0, heard=first)
    ends = [
        case.run(source, noise).weights.item()
        for source, noise in zip(case.sources, (first, second), strict=True)
    ]
    for asked in (*first.asked, *second.asked):  # the hinge is straight so far
        assert abs(asked.released.item()) < 1 - HINGE.h
    c = 1 - case.solver.step_size * case.alpha
    steps = np.arange(len(first.asked))[::-1]
    sigmas = np.array([asked.sigma for asked in first.asked])
    mu = abs(ends[0] - ends[1]) / math.sqrt(np.sum((c**steps * sigmas) ** 2))
    event = case.plan.event(case.multiplier, case.adjacency)
    return mu / math.sqrt(event.gdp_mu_squared)


# Objective perturbation --------------------------------------------------------------

LINE_LOSSES = {
    "hinge": (HINGE, 300.0),
    "logistic": (LogisticLoss(), 3.0),
    "squared": (SquaredLoss(residual_bound=1.0, target_bound=1.0), 300.0),
    "weighted": (WeightedLoss(LogisticLoss(), (0.2, 1.0)), 3.0),
}


@dataclass(frozen=True)
class Tilted:
    """Objective perturbation of three records in one dimension (`tests.line`)."""

    loss_name: str
    adjacency: str
    law: str

    @property
    def budget(self):
        return BUDGETS[self.law]

    @cached_property
    def line(self):
        loss, ratio = LINE_LOSSES[self.loss_name]
        return Line(loss, self.adjacency, ratio, 1.0)

    @cached_property
    def solver(self):
        law = "spherical" if self.law == "pure" else "gaussian"
        return replace(self.line.solver, law=law)

    @cached_property
    def plan(self):
        return self.solver.plan(self.line.objective)

    @cached_property
    def multiplier(self):
        declare = partial(self.plan.event, relation=self.adjacency)
        return calibrate(declare, self.budget)

    @property
    def records(self):
        """Both data sets as (x, y); the first record is the one that differs."""
        low = -1.0 if self.loss_name == "squared" else 0.0
        rest = [(0.5, low)]
        if self.adjacency == "zero_out":
            return [(1.0, 1.0), *rest], rest
        return [(1.0, 1.0), *rest], [(1.0, low), *rest]

    def run(self, records, noise):
        X, y = np.zeros((3, 1)), np.zeros(3)
        for i, (x, label) in enumerate(records):
            X[i], y[i] = x, label
        source = MemorySource(X, y, np.arange(3) < len(records))
        answers = marked(self.plan, source, self.multiplier, self.adjacency, noise)
        return self.solver.run(answers, self.line.objective, Progress())


def tilt(case, shrink=1.0):
    """Exact epsilon over the claim of the exact minimiser."""
    noise = Replay(0, shrink=shrink)
    case.run(case.records[0], noise)
    scale, line = noise.asked[0].sigma, case.line
    event = case.plan.event(case.multiplier, case.adjacency).parts[0]
    claim = epsilon_of(event, case.budget.delta)
    line = replace(line, mu=case.solver.sensitivity(line.objective) / scale)
    w = line.weights(case.records[0])
    logs = []
    for records in case.records:
        b, hessian = line.tilt_and_hessian(records, w)
        far = np.abs(b) / scale
        law = -far if case.law == "pure" else -(far**2) / 2
        logs.append(np.log(hessian) + law)
    if case.law == "pure":
        return float(np.abs(logs[0] - logs[1]).max()) / claim
    cells = np.gradient(w)
    p, q = (cells * np.exp(log) for log in logs)
    # Both tilts are the same variable, so both have the same total mass.
    p, q = p / p.sum(), q / q.sum()
    return exact_epsilon(p, q, case.budget.delta) / claim


def output(case, shrink=1.0, seeds=range(3)):
    """Change of the computed minimiser where the exact one is the same, over its share.

    The tilt of the second run is the one for which its exact minimiser is that of the
    first.
    """
    worst = 0.0
    for seed in seeds:
        first = Replay(seed, shrink=shrink)
        case.run(case.records[0], first)
        mine, other = (partial(_tilt_of, case.line, r) for r in case.records)
        wanted = first.asked[0].released.item()
        reach = 1e3
        exact = brentq(lambda w, b=wanted, f=mine: f(w) - b, -reach, reach, xtol=1e-15)
        moved = Replay(seed)
        released = np.full((1, 1), other(exact))
        moved.asked = [
            replace(first.asked[0], released=released),
            first.asked[1],
        ]
        second = Replay(seed, heard=moved, shrink=shrink)
        case.run(case.records[1], second)
        a, b = first.asked[1], second.asked[1]
        assert a.facts == b.facts
        change = np.abs(a.query - b.query).item() / a.sigma
        worst = max(worst, change * a.share.multiplier)
    return worst


def _tilt_of(line, records, w):
    return line.tilt_and_hessian(records, np.array([w]))[0].item()


# Audits with the signature of the others ---------------------------------------------

ONE_STEP = (("n_steps", 1), ("step_size", 1e-3))


def of_samples(case, seeds, **bugs):
    """Of one answer about a secret sample, whatever the seed."""
    found = sampled(case, **bugs)
    return found, found


def of_the_last(case, seeds, **bugs):
    """Of a last iterate."""
    found = last_iterate(case, **bugs)
    return found, found


def of_a_tilt(case, seeds, **bugs):
    """Of a minimiser: the tilt attains it, the output stays within its share."""
    found = tilt(case, **bugs)
    return found, max(found, output(case, seeds=seeds, **bugs))


def poisson_samples(adjacency, key="noisy_sgd"):
    """Samples of one, two and three of four records, beside null ones and others."""
    return [
        OneFeature(key, adjacency, "gaussian", params, others)
        for size in (1, 2, 3)
        for params in [(*ONE_STEP, ("batch_size", size))]
        for others in [(), (1.0, -1.0)]
    ]


def batches(key, adjacency):
    """Batches of one and of three of four records; the others are opposite."""
    return [
        OneFeature(key, adjacency, "pure", params, (-1.0, -1.0, -1.0))
        for size in (1, 3)
        for params in [(*ONE_STEP, ("batch_size", size), ("strong_convexity", 0.1))]
    ]


def hidden_paths(adjacency):
    """One step, some, and many."""
    return [
        OneFeature(
            "noisy_gd",
            adjacency,
            "gaussian",
            (("n_steps", n_steps), ("release", "last"), ("step_size", 0.5)),
            alpha=0.05,
            n_samples=4000,
        )
        for n_steps in (1, 5, 50)
    ]
