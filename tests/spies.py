"""Stand-ins that write down what happens to them, in one shared diary."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from skdp.privacy import BudgetLedger
from skdp.privacy.noise._noise import (
    NoiseSource,
    gaussian_scale,
    laplace_scale,
    spherical_scale,
)
from skdp.tables._source import Source


class SpySource(Source):
    """A source that notes every read."""

    def __init__(self, source, diary):
        self._source, self._diary = source, diary
        self.facts = replace(source.facts, is_stable=False)

    def blocks(self):
        self._diary.append("read")
        yield from self._source.blocks()


class SpyLedger(BudgetLedger):
    """A ledger that notes commits; the diary is no part of its values."""

    diary: list = []  # noqa: RUF012 - shared on purpose

    def commit(self, event, **facts):
        super().commit(event, **facts)
        type(self).diary.append("commit")


@dataclass
class Draw:
    """One noisy query."""

    query: np.ndarray
    released: np.ndarray
    sensitivity: float
    noise_multiplier: float
    law: str = "gaussian"
    fine: bool = False

    @property
    def epsilon(self):
        """Of spherical or Laplace noise."""
        return 1 / self.noise_multiplier

    @property
    def sigma(self):
        if self.law == "laplace":
            return laplace_scale(
                sensitivity=self.sensitivity,
                epsilon=1 / self.noise_multiplier,
                size=self.query.size,
            ).sigma
        if self.law == "spherical":
            return spherical_scale(
                sensitivity=self.sensitivity,
                epsilon=1 / self.noise_multiplier,
                size=self.query.size,
                fine=self.fine,
            ).sigma
        return gaussian_scale(
            sensitivity=self.sensitivity,
            noise_multiplier=self.noise_multiplier,
            size=self.query.size,
            fine=self.fine,
        ).sigma


@dataclass
class Choice:
    """One private selection."""

    scores: np.ndarray
    chosen: int
    sensitivity: float
    epsilon: float
    law: str


@dataclass
class SpyNoise:
    """A noise source that keeps query and release; `shrink` plants a bug."""

    seed: int | None = None
    shrink: float = 1.0
    draws: list = field(default_factory=list)
    choices: list = field(default_factory=list)

    def __post_init__(self):
        self._noise = NoiseSource(self.seed)
        self.is_private = self._noise.is_private

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        released = self._noise.gaussian(
            query,
            sensitivity=sensitivity,
            noise_multiplier=noise_multiplier * self.shrink,
            fine=fine,
        )
        draw = Draw(query, released, sensitivity, noise_multiplier, fine=fine)
        self.draws.append(draw)
        return released

    def spherical(self, query, *, sensitivity, epsilon, fine=False):
        released = self._noise.spherical(
            query, sensitivity=sensitivity, epsilon=epsilon / self.shrink, fine=fine
        )
        draw = Draw(query, released, sensitivity, 1 / epsilon, "spherical", fine)
        self.draws.append(draw)
        return released

    def laplace(self, query, *, sensitivity, epsilon):
        released = self._noise.laplace(
            query, sensitivity=sensitivity, epsilon=epsilon / self.shrink
        )
        self.draws.append(Draw(query, released, sensitivity, 1 / epsilon, "laplace"))
        return released

    def _choose(self, law, scores, sensitivity, epsilon):
        chosen = getattr(self._noise, law)(
            scores, sensitivity=sensitivity, epsilon=epsilon / self.shrink
        )
        self.choices.append(Choice(scores, chosen, sensitivity, epsilon, law))
        return chosen

    def permute_and_flip(self, scores, *, sensitivity, epsilon):
        return self._choose("permute_and_flip", scores, sensitivity, epsilon)

    def exponential_mechanism(self, scores, *, sensitivity, epsilon):
        return self._choose("exponential_mechanism", scores, sensitivity, epsilon)

    def top_k(self, scores, k, *, sensitivity, epsilon):
        chosen = self._noise.top_k(
            scores, k, sensitivity=sensitivity, epsilon=epsilon / self.shrink
        )
        self.choices.append(Choice(scores, chosen, sensitivity, epsilon, "top_k"))
        return chosen

    def signed_choice(self, ranking, *, sensitivity, epsilon):
        chosen = self._noise.signed_choice(
            ranking, sensitivity=sensitivity, epsilon=epsilon / self.shrink
        )
        scores = ranking.scores.copy()
        choice = Choice(scores, chosen, sensitivity, epsilon, "signed_choice")
        self.choices.append(choice)
        return chosen

    def permutation(self, n):
        return self._noise.permutation(n)

    def subset(self, n, size):
        return self._noise.subset(n, size)

    def poisson_sample(self, n, rate):
        return self._noise.poisson_sample(n, rate)

    def integers(self, n, size):
        return self._noise.integers(n, size)

    def weighted_index(self, weights):
        return self._noise.weighted_index(weights)


class Transcript:
    """Draws noise and notes everything, or repeats the releases of another."""

    is_private = True

    def __init__(self, seed, heard=None):
        self._noise, self._heard = NoiseSource(seed), heard
        # Secret draws that both runs make alike.
        self._secret = NoiseSource(seed)
        self.queries, self.facts, self.releases = [], [], []

    def _next(self, law, query, **facts):
        place = len(self.releases)
        if self._heard is None:
            released = getattr(self._noise, law)(query, **facts)
        else:
            released = self._heard.releases[place]
        self.queries.append(np.array(query))
        self.facts.append((law, facts))
        self.releases.append(released)
        return released

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        facts = {"sensitivity": sensitivity, "noise_multiplier": noise_multiplier}
        return self._next("gaussian", query, **facts)

    def spherical(self, query, *, sensitivity, epsilon, fine=False):
        facts = {"sensitivity": sensitivity, "epsilon": epsilon}
        return self._next("spherical", query, **facts)

    def top_k(self, scores, k, *, sensitivity, epsilon):
        facts = {"k": k, "sensitivity": sensitivity, "epsilon": epsilon}
        return self._next("top_k", scores, **facts)

    def permutation(self, n):
        return self._secret.permutation(n)

    def poisson_sample(self, n, rate):
        return self._secret.poisson_sample(n, rate)


class NoNoise:
    """The noiseless limit: what a solver would do with sigma = 0."""

    is_private = True

    def gaussian(self, query, *, sensitivity, noise_multiplier, fine=False):
        return query

    def spherical(self, query, *, sensitivity, epsilon, fine=False):
        return query

    def laplace(self, query, *, sensitivity, epsilon):
        return query

    def permute_and_flip(self, scores, *, sensitivity, epsilon):
        return int(np.argmax(scores))

    exponential_mechanism = permute_and_flip

    def top_k(self, scores, k, *, sensitivity, epsilon):
        return np.argsort(-scores, kind="stable")[:k]

    def signed_choice(self, ranking, *, sensitivity, epsilon):
        best = int(np.argmax(np.abs(ranking.scores)))
        return best, 1 if ranking.scores[best] >= 0 else -1

    def permutation(self, n):
        return np.arange(n)

    def subset(self, n, size):
        return NoiseSource(0).subset(n, size)

    def poisson_sample(self, n, rate):
        return NoiseSource(0).poisson_sample(n, rate)


class SpyArray:
    """Data that note every conversion to an array."""

    def __init__(self, array, name, diary):
        self._array, self._name, self._diary = array, name, diary
        self.shape = array.shape

    def __len__(self):
        return len(self._array)

    def __array__(self, dtype=None, copy=None):
        self._diary.append(f"convert {self._name}")
        return np.array(self._array, dtype=dtype)
