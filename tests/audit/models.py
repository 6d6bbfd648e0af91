"""Whole estimators on tables that differ in one record, or in all rows of one user."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPCategoricalNB,
    DPDiscreteTimeSurvival,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPKMeans,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
)
from skdp.audit._exact import Replay, replayed, verdict
from skdp.audit._models import fitted
from skdp.audit._neighbours import chosen_neighbours, chosen_users
from skdp.audit._runs import outputs_of
from skdp.columns import Range
from skdp.neural_network import Convolution
from skdp.privacy.accounting._relations import UNIT_OF, adjacency_of, is_of_users

# Pairs of more rows take long and tell the same.
MOST_ROWS = 1000
LABELS, BOUNDS = {"classes": [0, 1]}, {"target_bounds": (0, 1)}
# Rules would take trees of this table for hopeless, and make one of them.
TREES = {"columns": Range(-1, 1), "solver": "newton_boosting", "n_estimators": 4}
TREES |= {"max_depth": 2, "learning_rate": 0.3}
LINEAR = {"linear_share": 0.2, "counts_share": 0.2, "gains_share": 0.1}
# One tree of four is on trial; its gains decide between three more and more steps.
LINEAR |= {"trial_share": 0.1}
# Residuals and curvatures of labels are as large as they may be at first.
LINEAR |= {"residual_clip": 0.5, "curvature_weight": math.sqrt(8)}
SHRUNK = {"gains_share": 0.1}
TARGETS = {"targets_share": 0.2} | SHRUNK
FEW = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}}
# Short enough that every gradient is clipped.
NETWORK = {"solver": "noisy_gd", "hidden_layer_sizes": 4}
NETWORK |= {"solver_params": {"n_steps": 3, "gradient_clip": 0.03}}
NUMBERS = {"bounds": (-1, 1)}


class Survival(DPDiscreteTimeSurvival):
    """Of labels, for neighbours in them: 1 has the event, and 0 never has it."""

    def fit(self, X, y=None, groups=None):
        return super().fit(X, np.column_stack([y == 1, 2.0 - 1.5 * y]), groups)


MODELS = {
    "centred numbers": DPLogisticRegression(20.0, **LABELS),
    # With this epsilon 120 records have as little noise as millions at epsilon 1.
    "centred numbers and moments": DPLogisticRegression(100_000.0, **LABELS),
    "constant": DPLogisticRegression(0.1, **LABELS),
    "named solver": DPLogisticRegression(1.0, **LABELS, **FEW, C=1.0),
    "clip of users": DPLogisticRegression(
        1.0,
        **LABELS,
        solver="noisy_gd",
        solver_params={"n_steps": 3, "user_clip": 0.5},
    ),
    "three labels of columns": DPLogisticRegression(
        20.0, classes=[0, 1, 2], columns=Range(-1, 1)
    ),
    "weighted labels": DPLogisticRegression(20.0, **LABELS, class_weight={1: 9}),
    "svc": DPLinearSVC(20.0, **LABELS, columns=Range(-1, 1)),
    "squares": DPLinearRegression(20.0, **BOUNDS),
    "robust": DPRobustClassifier(1.0, **LABELS),
    "counts": DPPoissonRegressor(20.0, **BOUNDS),
    "amounts": DPGammaRegressor(50.0, target_bounds=(0.1, 1)),
    "quantiles": DPQuantileRegressor(20.0, **BOUNDS, quantile=0.8),
    "hazards": Survival(20.0, columns=Range(-1, 1), horizon=1.0, n_intervals=2),
    "few features": DPSparseLogisticRegression(20.0, **LABELS, n_nonzero_coefs=2),
    "few features of numbers": DPSparseLinearRegression(
        20.0, **BOUNDS, n_nonzero_coefs=2
    ),
    "trees": DPGradientBoostingClassifier(**LABELS, **TREES, solver_params=LINEAR),
    "trees of weighted labels": DPGradientBoostingClassifier(
        classes=[0, 1, 2],
        class_weight={0: 1, 1: 30, 2: 3},
        **TREES,
        solver_params=LINEAR,
    ),
    "trees of numbers": DPGradientBoostingRegressor(
        **BOUNDS, **TREES, solver_params=LINEAR | TARGETS
    ),
    "trees of counts": DPGradientBoostingRegressor(
        **BOUNDS, loss="poisson", **TREES, solver_params=LINEAR | TARGETS
    ),
    "trees of amounts": DPGradientBoostingRegressor(
        loss="gamma", target_bounds=(0.1, 1), **TREES, solver_params=SHRUNK
    ),
    "trees of quantiles": DPGradientBoostingRegressor(
        **BOUNDS, loss="quantile", quantile=0.7, **TREES, solver_params=SHRUNK
    ),
    "naive Bayes": DPCategoricalNB(classes=[0, 1, 2], columns=Range(-1, 1)),
    "network": DPMLPClassifier(**LABELS, **NETWORK),
    "network of all records": DPMLPClassifier(
        **LABELS, **NETWORK | {"solver": "noisy_adam"}, loss="cauchy"
    ),
    "network of columns": DPMLPClassifier(
        classes=[0, 1, 2], columns=Range(-1, 1), **NETWORK
    ),
    "network of numbers": DPMLPRegressor(**BOUNDS, **NETWORK),
    "filters": DPMLPClassifier(
        **LABELS,
        **NETWORK | {"hidden_layer_sizes": ()},
        image_shape=(1, 3),
        convolutions=[Convolution(2, 1)],
    ),
    "DPStandardScaler": DPStandardScaler(**NUMBERS),
    "DPQuantileClipper": DPQuantileClipper(**NUMBERS, n_steps=3),
    "DPSimpleImputer": DPSimpleImputer(**NUMBERS),
    "DPPCA": DPPCA(data_norm=1.0, n_components=2),
    "DPKMeans": DPKMeans(n_clusters=2, **NUMBERS, n_iter=2),
}


def table():
    """Rows within [-1, 1], labels that follow from them, and ids of users."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (120, 3))
    # The longest row that there may be: neighbours are as long.
    X[-1] = 1.0
    ids = np.append(np.arange(60), rng.integers(0, 60, 60))
    return X, (X[:, 0] > 0.2).astype(int), pd.Categorical(ids)


def continuing(name):
    """A model that continues one of these, which was fitted to the same table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = clone(MODELS[name]).set_params(random_state=1).fit(*table()[:2])
    return clone(MODELS[name]).set_params(init=given)


CONTINUED = "centred numbers", "svc", "squares", "counts", "trees", "network of columns"
MODELS |= {f"{name}, continued": continuing(name) for name in CONTINUED}
# Of records that are drawn: no one transcript tells what an answer costs.
SAMPLED = {
    "sampled network": DPMLPClassifier(
        **LABELS,
        hidden_layer_sizes=4,
        solver="noisy_sgd",
        solver_params={"n_steps": 20, "batch_size": 20, "gradient_clip": 0.03},
    )
}
TRANSFORMERS = ("DPStandardScaler", "DPQuantileClipper", "DPSimpleImputer", "DPPCA")
TRANSFORMERS += ("DPKMeans",)
# With pure noise too.
PURE = (*TRANSFORMERS, "naive Bayes")
OF_USERS_ALONE = ("clip of users",)
RELATIONS = ("replace_one", "zero_out", "replace_user", "zero_out_user")


@dataclass(frozen=True)
class Fit:
    """Fits of one estimator under one relation, with a delta or without."""

    name: str
    relation: str
    law: str = "gaussian"

    @cached_property
    def model(self):
        facts = {"adjacency": adjacency_of(self.relation)}
        if self.law == "pure":
            facts["delta"] = 0.0
        if is_of_users(self.relation):
            facts["privacy_unit"] = "user"
        return clone((MODELS | SAMPLED)[self.name]).set_params(**facts)

    @cached_property
    def pairs(self):
        """Neighbours that audits try, in which the first record differs, or user."""
        X, y, ids = table()
        y = None if self.name in TRANSFORMERS else y
        adjacency = adjacency_of(self.relation)
        if is_of_users(self.relation):
            pairs = chosen_users(self.model, X, y, ids, adjacency)
        else:
            pairs = chosen_neighbours(self.model, X, y, adjacency, is_own=True)
        return [pair for pair in pairs if len(pair.X) < MOST_ROWS]

    def told(self, side, noise):
        """All that a fit shows, and the event on its record."""
        X, y, noise.absent, ids = side
        said = io.StringIO()
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(said),
        ):
            warnings.simplefilter("always")
            model = clone(self.model)
            if "verbose" in model.get_params():
                model.set_params(verbose=True)
            model = fitted(model, X, y, noise, ids)
        record = model.privacy_
        assert (record.adjacency, record.unit) == (
            self.relation,
            UNIT_OF[self.relation],
        )
        shown = outputs_of(model, table()[0][:5])
        numbers = {name: each.tobytes() for name, each in shown.numbers.items()}
        messages = [str(each.message) for each in caught]
        told = (numbers, shown.texts, record.to_json(), messages, said.getvalue())
        return told, record.event

    def bounds(self, pair, seeds, **bugs):
        """Smallest and largest found over charged; what is shown is compared."""
        low, high = math.inf, 0.0
        for seed in seeds:
            first, second, results = replayed(self.told, pair.sides, seed, **bugs)
            (one, event), (other, _) = results
            assert one == other, "what is shown does not follow from releases"
            found = verdict(first, second, event)
            low, high = min(low, found.total), max(high, found.largest)
        return low, high

    def spent(self):
        """What the noise that was drawn costs, over the event on the record.

        As mu, or as epsilon if all noise is pure.
        """
        noise = Replay(0)
        with np.errstate(all="ignore"):
            _, event = self.told(self.pairs[0].sides[0], noise)
        if event.mu_squared == 0 == event.box_delta:
            return sum(a.times / a.multiplier for a in noise.asked) / event.pure_epsilon
        squares = (
            a.times * a.share.as_mu_squared(a.multiplier ** -(1 + a.share.is_squared))
            for a in noise.asked
        )
        return math.sqrt(sum(squares) / event.gdp_mu_squared)


def candidates(name, relation, law):
    """Audits of one estimator: every pair."""
    if name in OF_USERS_ALONE and not is_of_users(relation):
        return []
    fit = Fit(name, relation, law)
    return [partial(fit.bounds, pair) for pair in fit.pairs]
