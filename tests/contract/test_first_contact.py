"""Warnings of a first fit: public facts before it, released numbers after it."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    PolynomialFeatures,
    StandardScaler,
)

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPLinearRegression,
    DPLogisticRegression,
    DPMLPClassifier,
    RowNormClipper,
    TableEncoder,
)
from skdp.exceptions import (
    ConstantModelWarning,
    LargeDeltaWarning,
    NoiseDominatesWarning,
    UndeclaredRowsWarning,
)

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-0.5, 0.5, (1_000, 3)), np.arange(1_000) % 2
FRAME = pd.DataFrame(X, columns=list("abc"))
WORDS = ["good", "bad"] * 500
KNOWN = {"classes": [0, 1], "epsilon": 3.0}


@contextmanager
def shown(kind):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        told = []
        yield told
    told += [str(each.message) for each in found if each.category is kind]


def model(**params):
    return DPLogisticRegression(**KNOWN | params)


# ------------------------------------------------------- Rows whose length is not known


def squared(x):
    return x**2


UNDECLARED = {
    "array": (model, X, "BoundedScaler"),
    "lists": (model, X.tolist(), "BoundedScaler"),
    "frame": (model, FRAME, "columns.template"),
    "network": (lambda: DPMLPClassifier(**KNOWN), FRAME, "columns.template"),
    "a step without a norm": (
        lambda: make_pipeline(FunctionTransformer(np.log1p), model()),
        FRAME + 1,
        "BoundedScaler",
    ),
    "the norm is lost": (
        lambda: make_pipeline(
            BoundedScaler((-1, 1)), PolynomialFeatures(), DPMLPClassifier(**KNOWN)
        ),
        X,
        "BoundedScaler",
    ),
}
DECLARED = {
    "columns": (lambda: model(columns=(-1, 1)), FRAME),
    "another norm": (lambda: model(data_norm=2.0), FRAME),
    "no noise": (lambda: model(epsilon=math.inf), FRAME),
    "sparse rows": (model, csr_array(X)),
    "rows from an encoder": (model, TableEncoder((-1, 1)).fit_transform(FRAME)),
    "frame from a scaler": (
        model,
        BoundedScaler((-1, 1)).set_output(transform="pandas").fit_transform(FRAME),
    ),
    "scaler": (lambda: make_pipeline(BoundedScaler((-1, 1)), model()), FRAME),
    "encoder": (lambda: make_pipeline(TableEncoder((-1, 1)), model()), FRAME),
    "clipper": (lambda: make_pipeline(RowNormClipper(1.0), model()), FRAME),
    "pipeline of a pipeline": (
        lambda: make_pipeline(
            make_pipeline(PolynomialFeatures(), RowNormClipper(1.0)),
            make_pipeline(model()),
        ),
        FRAME,
    ),
    "union": (
        lambda: make_pipeline(
            FeatureUnion([("a", BoundedScaler((-1, 1))), ("b", RowNormClipper(1.0))]),
            model(),
        ),
        FRAME,
    ),
    "hashed words": (lambda: make_pipeline(HashingVectorizer(), model()), WORDS),
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_rows_whose_length_nothing_declares_are_pointed_out(name):
    make, rows, remedy = UNDECLARED[name]
    with shown(UndeclaredRowsWarning) as told:
        make().fit(rows, Y)
    assert len(told) == 1
    assert remedy in told[0]


def test_who_scales_rows_without_privacy_is_told_to_ask_for_the_report():
    pipeline = make_pipeline(StandardScaler(), model())
    with shown(UndeclaredRowsWarning) as told:
        pipeline.fit(X, Y)
        model().fit(X, Y)
    in_pipeline, alone = told
    assert "privacy_report(pipeline)" in in_pipeline
    assert "no ledger counts a StandardScaler" in in_pipeline
    assert "privacy_report" not in alone


@pytest.mark.long
@pytest.mark.parametrize("name", DECLARED)
def test_declared_rows_are_not_pointed_out(name):
    make, rows = DECLARED[name]
    with shown(UndeclaredRowsWarning) as told:
        make().fit(rows, Y)
    assert not told


def test_it_is_said_once_for_all_folds_and_looks_at_no_row():
    with shown(UndeclaredRowsWarning) as told:
        cross_val_score(model(), X, Y)
    assert len(told) == 1
    with shown(UndeclaredRowsWarning) as other:
        model().fit(1e6 * X, Y)
        model().fit(1e-6 * X, Y)
    assert set(other) == set(told)


def test_as_an_error_it_stops_the_fit_before_it_is_paid_for(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UndeclaredRowsWarning)
        with pytest.raises(UndeclaredRowsWarning):
            model(ledger=ledger).fit(FRAME, Y)
    assert ledger.spent().epsilon == 0


# ------------------------------------------------------- A constant that was released


def constant(kind=DPLogisticRegression, **params):
    """A fit whose targets have nothing to do with the rows, which the gate refuses."""
    return kind(
        columns=(-1, 1), random_state=3, **{"classes": [0, 1], "epsilon": 1.0} | params
    )


NOTE = "every released weight is 0: the model is a constant"


def test_a_released_constant_says_so():
    with shown(ConstantModelWarning) as told:
        fitted = constant().fit(X, Y)
    assert not np.any(fitted.coef_)
    assert len(told) == 1
    assert "a larger epsilon" in told[0]
    assert NOTE in fitted.privacy_.warnings


def test_a_model_with_weights_does_not():
    with shown(ConstantModelWarning) as told:
        fitted = constant(epsilon=100.0).fit(X, (X[:, 0] > 0) * 1)
    assert np.any(fitted.coef_)
    assert not told
    assert NOTE not in fitted.privacy_.warnings


def test_it_depends_on_released_numbers_only(monkeypatch):
    # The same release from other data: every number of one fit, given to another.
    released = constant().fit(X, Y).coef_, constant(epsilon=100.0).fit(X, X[:, 0] > 0)
    for coef in (released[0], released[1].coef_):
        for targets in (Y, (X[:, 0] > 0) * 1):
            fitted = constant()
            keep = type(fitted)._keep_weights

            def kept(self, *args, coef=coef, keep=keep):
                keep(self, *args)
                self.coef_ = coef

            monkeypatch.setattr(type(fitted), "_keep_weights", kept)
            with shown(ConstantModelWarning) as told:
                fitted.fit(X, targets)
            monkeypatch.undo()
            assert bool(told) == (not np.any(coef))
            assert (NOTE in fitted.privacy_.warnings) == (not np.any(coef))


def test_as_an_error_it_keeps_the_fit_that_was_paid_for():
    fitted = constant()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantModelWarning)
        with pytest.raises(ConstantModelWarning):
            fitted.fit(X, Y)
    assert NOTE in fitted.privacy_.warnings
    assert fitted.predict(X).shape == Y.shape


def test_what_was_said_before_the_fit_is_not_said_again():
    with shown(ConstantModelWarning) as told:
        fitted = constant(epsilon=0.01).fit(X, Y)
    assert fitted.privacy_.solver == "constant"
    assert not told


def test_a_regression_and_trees_and_a_search_say_it():
    with shown(ConstantModelWarning) as told:
        DPLinearRegression(
            1.0, columns=(-1, 1), target_bounds=(0, 1), random_state=0
        ).fit(X, Y)
    assert len(told) == 1
    trees = constant(DPGradientBoostingClassifier, epsilon=1.0)
    with shown(ConstantModelWarning) as told:
        trees.fit(X, Y)
    assert bool(told) == (len(set(trees.predict_proba(X)[:, 0])) == 1)
    search = DPGridSearchCV(
        DPLogisticRegression(columns=(-1, 1), classes=[0, 1]),
        {"C": [1.0, 10.0]},
        epsilon=1.0,
        random_state=0,
    )
    with shown(ConstantModelWarning) as told:
        search.fit(X, Y)
    assert len(told) == (not np.any(search.best_estimator_.coef_)) * search.has_model_


# --------------------------------------------------------- Texts, and a large delta


def test_named_solvers_give_no_false_alarm_for_texts():
    rows = csr_array((np.ones(8_000), (np.arange(8_000), np.arange(8_000) % 50)))
    rows.resize((8_000, 2**16))
    labels = np.arange(8_000) % 50 % 2
    named = model(epsilon=1.0, solver="nesterov")
    with shown(NoiseDominatesWarning) as told:
        fitted = named.fit(rows, labels)
    assert not told
    assert fitted.score(rows, labels) > 0.9
    with shown(NoiseDominatesWarning) as told:
        named.set_params(epsilon=0.01).fit(rows, labels)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("delta", "n", "use"), [(1e-2, 1_000, "0.0001"), (0.1, 50, "0.001")]
)
def test_a_large_delta_is_answered_with_a_smaller_one(delta, n, use):
    with shown(LargeDeltaWarning) as told:
        model(columns=(-1, 1), delta=delta).fit(X[:n], Y[:n])
    assert f"Pass delta={use} or less" in told[0]
    with shown(LargeDeltaWarning) as told:
        model(columns=(-1, 1), delta=float(use)).fit(X[:n], Y[:n])
    assert not told
