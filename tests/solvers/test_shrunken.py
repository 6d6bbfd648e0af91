"""Weights shrunk to what they are worth: what is made of the answers.

Exact audits are in tests/audit/test_shrunken.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdp.losses import LogisticLoss
from skdp.objectives import LinearObjective
from skdp.privacy._answers import Released
from skdp.solvers._margins import target_scale
from skdp.solvers._shrunken import Candidates, best_share, known
from skdp.solvers._strength import share_of_gains


def released(*values, deviation):
    return Released(np.array(values), deviation, deviation)


def test_the_share_falls_with_what_is_known():
    shares = [share_of_gains(s) for s in (14.9, 15, 100, 300, 1000, 1e5)]
    assert shares[0] == 0
    assert shares[1] == 0.15
    assert shares[1:] == sorted(shares[1:], reverse=True)
    assert shares[-1] == 0.005


def test_the_share_that_is_worth_most():
    assert best_share(released(10.0, 7.0, 4.0, deviation=1.0)) == 1.0
    assert best_share(released(-10.0, 7.0, 4.0, deviation=1.0)) == 0.5
    assert best_share(released(-10.0, -7.0, 4.0, deviation=1.0)) == 0.25
    assert best_share(released(-10.0, -7.0, -4.0, deviation=1.0)) == 0.0


def test_noise_is_no_gain_and_no_difference():
    assert best_share(released(0.9, -9.0, -9.0, deviation=1.0)) == 0.0
    assert best_share(released(6.6, 7.0, 4.0, deviation=1.0)) == 1.0
    assert best_share(released(6.4, 7.0, 4.0, deviation=1.0)) == 0.5


def test_a_mean_within_its_noise_is_not_known():
    assert known(released(1.9, deviation=1.0), 10) == 0
    assert known(released(0.0, deviation=1.0), 10) == 0
    assert known(released(0.0, deviation=0.0), 10) == 0
    assert known(released(4.0, deviation=1.0), 10) == pytest.approx(0.3)
    assert known(released(4.0, deviation=0.0), 10) == pytest.approx(0.4)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_intercepts_keep_the_mean_of_the_raw_predictions(share):
    asked = LinearObjective(
        loss=LogisticLoss(),
        n_samples=10,
        n_features=5,
        data_norm=1.0,
        adjacency="zero_out",
    )
    answer = Released(np.array([3.0]), 0.0, 0.0)
    found = Candidates.of(np.ones((1, 5)), np.array([0.7]), answer, asked)
    assert found.at(share) + share * 0.3 == pytest.approx(0.7 + 0.3)


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
def test_the_scale_is_that_of_the_targets(noise):
    rng = np.random.default_rng(0)
    knots = np.linspace(-1, 1, 33)
    shares = np.exp(-(((knots + 0.9) / 0.1) ** 2))
    shares /= shares.sum()
    halves = [
        target_scale(shares + noise * rng.normal(size=33), noise).half
        for _ in range(200)
    ]
    assert 0.15 < np.median(halves) < 0.4
    far = 0.9 * shares + 0.1 * (knots == 0.75)
    found = target_scale(far + noise * rng.normal(size=33), noise)
    assert found.middle + found.half > 0.4
