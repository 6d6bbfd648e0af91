"""What one record does to scores, against what is charged; and the rule of choice."""

from __future__ import annotations

import math

import numpy as np

from skdp._arrays import clip_entries
from skdp.losses import LogisticLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.privacy.noise._laws import Choices
from skdp.privacy.release._plan import Line, Plan
from skdp.sums._features import FeatureScore
from skdp.sums._gradient import ClippedGradient
from skdp.tables._memory import MemorySource
from tests.door import answers_for
from tests.spies import SpyNoise

D, BOUND, NORM = 6, 0.5, 1.0


def problem_of(adjacency, n_samples=1, **facts):
    facts = {"data_norm": NORM, "feature_bound": BOUND, "n_nonzero": 2} | facts
    facts = {"loss": LogisticLoss()} | facts
    return LinearObjective(
        n_samples=n_samples, n_features=D, adjacency=adjacency, **facts
    )


def sums(objective, *clip, **facts):
    """Gradients whose rows are scores."""
    return ClippedGradient(objective, *clip, **facts, uses_entry_bound=True)


def feature_bound(objective, *clip, radius=math.inf, **facts):
    """Of any score, before rounding of norms."""
    scored = sums(objective, *clip, **facts)
    return scored.bound(radius, "features", scored.entry_bound)


def select(source, query, k, noise, epsilon=1.0):
    """Features chosen through the door, each with the same epsilon."""
    plan = Plan((Line(k, law=Choices(epsilon)),))
    relation = query.family.objective.adjacency
    answers = answers_for(plan, source, 1.0, relation, noise)
    return query.features(answers.choose(query, k, line=0))


def test_entries_in_single_precision_are_within_their_bound(monkeypatch):
    """The nearest single to 0.1 is larger; a twin that clips to it is found out."""
    for bound in (1e-100, 0.1, 0.7, 1e100):
        for dtype in (np.float32, np.float64):
            ends = clip_entries(np.array([[-1e38, 1e38]], dtype=dtype), bound)
            assert ends.dtype == dtype
            assert abs(ends.astype(float)).max() <= bound
    monkeypatch.setattr("skdp._arrays._within", lambda bound, dtype: bound)
    ends = clip_entries(np.ones((1, 1), dtype=np.float32), np.float32(0.1))
    assert float(ends[0, 0]) > 0.1


def test_selection_is_among_the_candidates_and_in_order():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.4, 0.4, size=(4000, D))
    y = np.clip(2 * X[:, 4] + X[:, 1] - X[:, 0], -1, 1)
    loss = SquaredLoss(residual_bound=2.0, target_bound=1.0)
    objective = problem_of("zero_out", loss=loss, n_samples=4000)
    source, noise = MemorySource(X, y), SpyNoise(seed=1)

    def chosen(k, **facts):
        query = FeatureScore.of(sums(objective), np.zeros((D + 1, 1)), **facts)
        return select(source, query, k, noise, epsilon=5.0).tolist()

    assert chosen(3) == [0, 1, 4]
    assert 1 in chosen(2, among=np.array([1, 2, 3, 5]))
    far = np.zeros((D, 1))
    far[3] = 1e30  # kept at a distance that floating point can tell apart from others
    assert 3 in chosen(1, place=far)
