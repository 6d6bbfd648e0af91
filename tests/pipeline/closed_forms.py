"""Totals by the textbook's formulas, written without the library's functions."""

import math

from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.base import BaseEstimator

from skdp.privacy.release._record import StepPrivacy


def exact_delta(mu, epsilon):
    """Corollary 2.13 of Dong, Roth and Su."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
        -mu / 2 - epsilon / mu
    )


def exact_epsilon(mu, delta):
    return brentq(lambda e: exact_delta(mu, e) - delta, 0, 100, xtol=1e-13, rtol=1e-14)


def exact_mu(epsilon, delta):
    return brentq(
        lambda mu: exact_delta(mu, epsilon) - delta, 1e-4, 60, xtol=1e-14, rtol=1e-14
    )


class SpyStep(BaseEstimator):
    """A private step that must never be fitted, with whatever privacy it is told."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-6,
        adjacency="replace_one",
        event=None,
        adds=True,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.event = event
        self.adds = adds
        self.random_state = random_state
        self.ledger = None

    def fit(self, X, y=None):
        raise AssertionError("nothing may be fitted")

    transform = fit_transform = predict = fit

    def step_privacy(self):
        return StepPrivacy(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            event=self.event,
            adds_in_squares=self.adds and self.delta > 0,
        )

    def _use_composable_noise(self):
        pass
