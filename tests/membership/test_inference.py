"""Attacks on fitted models: those that memorise, those that say nothing, private ones.

Seeds are fixed. Bounds are six standard deviations off: with fresh seeds a test would
fail with probability below 1e-8.
"""

from __future__ import annotations

import json
import math

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skdp import BudgetLedger, DPLogisticRegression
from skdp.audit import membership_inference
from skdp.audit._inference import Shadows, fitted_shadows, infer_attribute, margins
from skdp.columns import Boolean, Categories, Range

N = 300
RNG = np.random.default_rng(3)
X = RNG.normal(size=(2 * N, 6)) / 3
NOISE = RNG.normal(size=2 * N)
MANY = RNG.integers(20, size=2 * N)
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=2 * N) > 0).astype(int)
# Of an area under the curve, if members look like others.
DEVIATION = math.sqrt((2 * N + 1) / (12 * N * N))


def attacked(model, y, X=X, **params):
    """Fit the first half, attack with both."""
    fitted = model.fit(X[:N], y[:N])
    params = {"random_state": 0, "n_shadows": 8, **params}
    return membership_inference(fitted, (X[:N], y[:N]), (X[N:], y[N:]), **params)


class Deaf(RegressorMixin, BaseEstimator):
    """Predicts noise, whatever it is fitted to."""

    def __init__(self, random_state=0):
        self.random_state = random_state

    def fit(self, X, y):
        self.draws_ = np.random.default_rng(self.random_state)
        return self

    def predict(self, X):
        return self.draws_.normal(size=len(X))


def test_a_model_that_memorises_is_read():
    found = attacked(KNeighborsRegressor(1), NOISE)
    assert found.auc > 0.999
    assert found.true_positive_rate(0.001) > 0.99
    assert found.advantage > 0.98
    in_rows = attacked(KNeighborsRegressor(1), NOISE, X=csr_matrix(X))
    assert in_rows.auc == pytest.approx(found.auc, abs=1e-3)
    assert found.auc_p_value < 1e-9
    labels = attacked(KNeighborsClassifier(1), MANY)
    assert labels.auc > 0.95
    assert attacked(DecisionTreeClassifier(random_state=0), LABELS).auc > 0.55


def test_a_model_of_noise_is_not():
    found = attacked(Deaf(), NOISE)
    assert abs(found.auc - 0.5) < 6 * DEVIATION
    assert abs(found.advantage) < 6 / math.sqrt(2 * N)
    assert found.true_positive_rate(0.0) < 0.1


def test_broken_twins_of_the_attack_are_found():
    model = KNeighborsRegressor(1).fit(X[:N], NOISE[:N])
    draws = np.random.RandomState(0)
    shadows = fitted_shadows(model, X, NOISE, 8, draws, None)
    seen = NOISE - model.predict(X)
    is_member = np.arange(2 * N) < N

    def separation(shadows):
        ratios = shadows.log_ratio(seen)
        return np.mean(ratios[is_member][:, None] > ratios[~is_member][None, :])

    assert separation(shadows) > 0.999
    swapped = Shadows(shadows.seen, ~shadows.is_in)
    assert separation(swapped) < 0.001
    blind = Shadows(draws.normal(size=shadows.seen.shape), shadows.is_in)
    assert separation(blind) < 0.9


def test_every_record_is_in_half_of_the_shadows():
    shadows = fitted_shadows(Deaf(), X, NOISE, 6, np.random.RandomState(0), None)
    assert (shadows.is_in.sum(axis=0) == 3).all()
    assert (shadows.is_in.sum(axis=1) == N).all()
    # Seeds are drawn anew: with one seed for all, shadows of noise would be equal.
    assert len(np.unique(shadows.seen[:, 0])) == 6


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_private_models_stay_below_their_guarantee(adjacency, tmp_path):
    facts = {"epsilon": 5, "delta": 1e-5, "adjacency": adjacency}
    books = BudgetLedger(tmp_path / "books.db", **facts)
    facts = {"classes": [0, 1], "adjacency": adjacency, "ledger": books}
    found = attacked(DPLogisticRegression(1.0, **facts), LABELS)
    assert found.bound.n_records == (1 if adjacency == "replace_one" else 2)
    assert found.advantage < found.bound.advantage + 6 / math.sqrt(2 * N)
    assert "guarantee" in repr(found)
    assert json.loads(found.to_json())["bound"]["adjacency"] == adjacency
    assert len(books.spends()) == 1
    matplotlib.use("Agg")
    shown = found.plot(log=False)
    assert "guarantee, on average" in shown.ax_.get_legend_handles_labels()[1]


def test_it_says_that_it_is_not_private():
    found = attacked(KNeighborsRegressor(1), NOISE)
    for text in (repr(found), found._repr_html_(), found.to_json()):
        assert "not private, and no ledger" in text
    told = json.loads(found.to_json())
    assert told["is_private"] is False
    assert told["schema_version"] == 1
    assert told["bound"] is None
    assert told["attribute_inference"] is None
    instance = told["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
    assert set(instance) == {
        "AUC", "P_HIGHER_AUC", "TPR", "FPR", "Advantage", "n_pos_test_examples",
        "n_neg_test_examples", "fpr", "tpr", "TPR@0.5", "TPR@0.2", "TPR@0.1",
        "TPR@0.01", "TPR@0.001", "TPR@1e-05",
    }  # fmt: skip
    assert instance["AUC"] == found.auc
    assert instance["n_pos_test_examples"] == N


def test_rates_are_those_of_the_curve():
    found = attacked(DecisionTreeClassifier(random_state=0), LABELS)
    false, true = found.roc
    others, members = found.scores[N:], found.scores[:N]
    for rate in (0.0, 0.01, 0.1, 1.0):
        # Brute force: the lowest threshold with no more false alarms.
        best = max(
            (members >= t).mean()
            for t in [*found.scores, math.inf]
            if (others >= t).mean() <= rate
        )
        assert found.true_positive_rate(rate) == best
    assert (np.diff(false) >= 0).all()
    assert (np.diff(true) >= 0).all()


def test_margins_of_all_kinds_of_classifiers():
    three = MANY % 3
    linear = LogisticRegression().fit(X, LABELS)
    chances = linear.predict_proba(X)[np.arange(2 * N), LABELS]
    np.testing.assert_allclose(
        margins(linear, X, LABELS), np.log(chances / (1 - chances)), rtol=1e-6
    )
    several = LinearSVC().fit(X, three)
    right = several.predict(X) == three
    assert ((margins(several, X, three) > 0) == right).all()
    trees = DecisionTreeClassifier(max_depth=2).fit(X, three)
    own = trees.predict_proba(X)[np.arange(2 * N), three]
    np.testing.assert_allclose(
        np.exp(margins(trees, X, three)), (own + 1e-3) / (1 - own + 1e-3), rtol=1e-6
    )
    # A label that was never seen.
    assert (margins(several, X, np.full(2 * N, 9)) <= 0).all()

    class Silent(ClassifierMixin, BaseEstimator):
        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    assert set(margins(Silent(), X, LABELS)) == {-1.0, 1.0}


# ---------------------------------------------------------------- attribute inference


def of_a_secret(n=2 * N):
    """A table with a coin that nothing follows from, and labels that repeat it."""
    rng = np.random.default_rng(8)
    secret = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "sex": secret * 3.0}
    )
    return frame, rng.normal(size=n)


def test_what_is_memorised_of_a_column_is_guessed():
    frame, y = of_a_secret()
    model = KNeighborsRegressor(1).fit(frame[:N], y[:N])
    found = membership_inference(
        model,
        (frame[:N], y[:N]),
        (frame[N:], y[N:]),
        n_shadows=4,
        attribute={"sex": Categories([0, 3])},
        random_state=0,
    )
    told = found.attribute
    assert told.members > 0.95
    assert abs(told.non_members - 0.5) < 6 * 0.5 / math.sqrt(N)
    assert told.advantage > 0.3
    assert "guessing 'sex'" in repr(found)
    listed = json.loads(found.to_json())["attribute_inference"]
    assert listed["accuracy_members"] == told.members
    assert listed["values"] == [0, 3]


def test_what_is_said_of_everybody_is_no_advantage():
    frame, y = of_a_secret()
    y = y / 10 + frame["sex"].to_numpy()
    deaf = Deaf().fit(frame, y)
    is_member = np.arange(2 * N) < N
    values = {"sex": Categories([0, 3])}
    nothing = infer_attribute(deaf, frame, y, is_member, values)
    assert abs(nothing.members - 0.5) < 6 * 0.5 / math.sqrt(N)

    class Twice(Deaf):
        def predict(self, X):
            return np.asarray(X["sex"])

    everybody = infer_attribute(Twice(), frame, y, is_member, values)
    assert min(everybody.members, everybody.non_members) == 1.0
    assert everybody.advantage == 0.0


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_shadows": 5}, "even"),
        ({"n_shadows": 2}, "n_shadows"),
        ({"attribute": "sex"}, "declare one column"),
        ({"attribute": {0: Categories([0, 1]), 1: Boolean()}}, "one by one"),
        ({"attribute": {0: Range(0, 1)}}, "Divide the column"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_what_is_refused(params, message):
    model = Deaf()
    model.fit = None  # nothing is fitted before
    model.draws_ = np.random.default_rng(0)
    sides = (X[:N], NOISE[:N]), (X[N:], NOISE[N:])
    with pytest.raises((ValueError, TypeError), match=message):
        membership_inference(model, *sides, **params)


def test_too_few_records_and_models_that_are_not_fitted():
    with pytest.raises(NotFittedError):
        membership_inference(Deaf(), (X, NOISE), (X, NOISE))
    with pytest.raises(ValueError, match="two records"):
        membership_inference(Deaf().fit(X, NOISE), (X, NOISE), (X[:1], NOISE[:1]))


def test_columns_of_arrays_and_booleans():
    rows = X.copy()
    rows[:, 2] = MANY % 2
    model = DecisionTreeClassifier(random_state=0)
    found = attacked(model, LABELS, X=rows, attribute={2: Categories([0, 1])})
    assert 0.3 < found.attribute.non_members < 0.8
    frame = pd.DataFrame(rows).astype({2: bool})
    is_member = np.arange(2 * N) < N
    model.fit(frame, LABELS)
    told = infer_attribute(model, frame, LABELS, is_member, {2: Boolean()})
    assert told.values == (False, True)
    with pytest.raises(ValueError, match="sparse matrix cannot be guessed"):
        infer_attribute(model, csr_matrix(rows), LABELS, is_member, {2: Boolean()})


def test_a_picture_has_both_axes_in_logarithms():
    shown = attacked(KNeighborsRegressor(1), NOISE).plot()
    assert (shown.ax_.get_xscale(), shown.ax_.get_yscale()) == ("log", "log")
    np.testing.assert_array_equal(shown.line_.get_ydata()[[0, -1]], [0, 1])
    assert "not private" in shown.ax_.get_title()
