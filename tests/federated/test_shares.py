"""Shares of the noise: the law of their sum, and how much of it is there.

Statistical tests raise a false alarm with probability 1e-9 each.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import chi2, norm

from skdp.exceptions import Refused
from skdp.privacy.accounting._events import GaussianEvent
from skdp.privacy.noise._noise import (
    NoiseScale,
    NoiseSource,
    gaussian_scale,
    share_ratio,
)
from skdp.privacy.release._plan import Line, Part, Plan
from skdp.privacy.release._shared import check_shared, statement_of
from tests.federated.owned import federation, model

ALARM = 1e-9
FAR = 60


def rounded_law(s):
    """Probabilities of round(N(0, s^2)) at -FAR..FAR."""
    k = np.arange(-FAR, FAR + 1)
    return norm.cdf((k + 0.5) / s) - norm.cdf((k - 0.5) / s)


def sum_law(s, t):
    """Of the sum of t of them."""
    law = one = rounded_law(s)
    for _ in range(t - 1):
        law = np.convolve(law, one)[FAR:-FAR]
    return law


def kernel_law(s, t, fine=400):
    """Of the proof: a Gaussian of t times the variance, then a box spline of order t.

    By the trapezoid rule on a grid so fine that halving it moves nothing by 1e-12.
    """
    x = np.arange(-FAR * fine, FAR * fine + 1) / fine
    density = norm.pdf(x, scale=s * math.sqrt(t))
    box = np.ones(fine + 1)
    box[[0, -1]] = 0.5
    spline = box / box.sum()
    for _ in range(t):
        density = np.convolve(density, spline, mode="same")
    return density[::fine]


@pytest.mark.parametrize(("t", "s"), [(1, 0.4), (2, 0.9), (3, 0.4), (5, 0.6)])
def test_the_law_of_a_sum_is_that_of_the_proof_up_to_aliasing(s, t):
    error = np.abs(sum_law(s, t) - kernel_law(s, t)).max()
    assert error <= 2**t * math.exp(-(math.pi**2) * s * s * (t - 1) / t) + 1e-6
    # The leading term, of one draw of t that is a wave ahead.
    leading = math.exp(-2 * math.pi**2 * s * s * (t - 1) / t)
    assert error < 2 * t * leading + 1e-6


def test_the_bound_of_the_proof_is_nothing_at_the_fewest_steps_allowed():
    from skdp.privacy.release._shared import _FEWEST_STEPS

    log2_error = 511 - (math.pi * _FEWEST_STEPS) ** 2 * (1 / 2) / math.log(2)
    assert log2_error + 65 < -20_000  # over 2^64 numbers, two owners or more


@pytest.mark.parametrize("t", [1, 2, 3, 7, 511])
def test_shares_have_the_whole_variance_and_no_less(t):
    scale = gaussian_scale(sensitivity=0.7, noise_multiplier=3.0, size=50)
    assert t * (share_ratio(scale, t) * scale.grid) ** 2 >= scale.sigma**2
    assert t * (share_ratio(scale, t) * scale.grid) ** 2 < scale.sigma**2 * (1 + 1e-12)


def variance_is(draws, sigma):
    """Two-sided chi-square test of a variance at the stated rate."""
    statistic = float((draws**2).sum()) / sigma**2
    low, high = chi2.ppf(ALARM / 2, draws.size), chi2.isf(ALARM / 2, draws.size)
    return low < statistic < high


def drawn(t, parties, size=20_000):
    """Sum of so many parties' shares of an answer of zero, in units of the query."""
    scale = gaussian_scale(sensitivity=1.0, noise_multiplier=2.0, size=size)
    zeros = np.zeros(size)
    shares = [NoiseSource().gaussian_share(zeros, scale, t) for _ in range(parties)]
    return sum(shares) * scale.grid, scale.sigma


def test_what_is_drawn_has_the_declared_variance():
    for parties in (4, 5, 3):
        noise, sigma = drawn(4, parties)
        assert variance_is(noise, sigma * math.sqrt(parties / 4))
    assert not variance_is(noise, sigma)  # the twin: one of four draws nothing


def test_each_owner_draws_its_part_of_what_the_trusted_need(monkeypatch):
    parts, honest = [], NoiseSource.gaussian_share

    def noted(self, numbers, scale, t):
        parts.append(t)
        return honest(self, numbers, scale, t)

    monkeypatch.setattr(NoiseSource, "gaussian_share", noted)
    for n_honest in (1, 2):
        parts.clear()
        source = federation(n_honest=n_honest)
        record = model().fit(source).privacy_
        assert parts == [n_honest] * 3 * source.traffic.n_rounds
        assert any(f"{n_honest} of 3 owners" in fact for fact in record.assumed_public)


def test_a_share_is_clamped_so_that_512_of_them_do_not_overflow():
    scale = NoiseScale(2.0**-20, 1.0)
    huge = np.array([1e300, -1e300, np.nan, np.inf, -np.inf, 0.0])
    share = NoiseSource(0).gaussian_share(huge, scale, 2)
    assert share.dtype == np.int64
    assert np.abs(share).max() <= 2**51 + 2**53
    assert 512 * (2**51 + 2**53) < 2**63


def test_noise_of_few_steps_is_refused(monkeypatch):
    from skdp.exceptions import Refused

    monkeypatch.setattr("skdp.privacy.release._shared._FEWEST_STEPS", 2.0**40)
    with pytest.raises(Refused, match="wide compared with the grid"):
        model().fit(federation())


# ------------------------------------------------------------------------ statements


def test_statements_tell_weights_scales_and_kinds_apart():
    w = np.array([1.0, 2.0])
    said = [
        statement_of(w, 1.0),
        statement_of(w, 2.0),
        statement_of(w + np.array([0.0, 1e-15]), 1.0),
        statement_of(w.astype(np.float32), 1.0),
        statement_of(w.reshape(1, 2), 1.0),
        statement_of((w,), 1.0),
        statement_of(1.0, w),
        statement_of("1.0", w),
        statement_of(None, w),
        statement_of(np.int64(3), w),
        statement_of(np.int64(4), w),
        statement_of([], w),
    ]
    assert len(set(said)) == len(said)
    assert statement_of(w.copy(), 1.0) == said[0]


def closed_over(value):
    return lambda: value


@pytest.mark.parametrize(
    "unknown",
    [
        object(),
        {"a": object()},
        closed_over(1),
        [object()],
        partial(closed_over(1)),
        partial(closed_over, object()),
        partial(closed_over, value=object()),
    ],
)
def test_what_cannot_be_told_is_no_question(unknown):
    """By its type alone an object is the same at other weights."""
    with pytest.raises(Refused, match="compare their queries"):
        statement_of(unknown)
    assert statement_of(closed_over) != statement_of(statement_of)


def test_a_part_that_pays_for_fewer_answers_is_refused_too():
    """Its owners would see a path that the event counts as hidden."""
    source = federation()
    hidden = Plan((Line(8),), lambda z: GaussianEvent(z))
    honest = Plan((Part(Plan((Line(8),))),))
    check_shared(honest, source, source.owners)
    for plan in (hidden, Plan((Part(hidden),)), Plan((Part(Plan((Part(hidden),))),))):
        with pytest.raises(Refused, match="pays for fewer"):
            check_shared(plan, source, source.owners)
