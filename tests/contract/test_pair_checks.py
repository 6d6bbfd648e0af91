"""scikit-learn's estimator checks for `DPMatrixFactorization`, whose rows are pairs.

Checks that need no table run as they are; what others ask of tables of numbers is asked
of pairs here.
"""

from __future__ import annotations

import inspect
import math
import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from skdp import DPMatrixFactorization

N_USERS, N_ITEMS = 30, 20
_RNG = np.random.RandomState(0)
PAIRS = np.array([(u, i) for u in range(N_USERS) for i in range(N_ITEMS)])
PAIRS = PAIRS[_RNG.permutation(len(PAIRS))[:400]]
_TASTE = _RNG.normal(size=(N_USERS, 2)) @ _RNG.normal(size=(2, N_ITEMS))
RATINGS = np.clip(3 + _TASTE[PAIRS[:, 0], PAIRS[:, 1]], 1, 5)
FACTS = {"rating_bounds": (1, 5), "n_components": 2, "random_state": 0}
INSTANCES = {
    "rating_value": DPMatrixFactorization(**FACTS, privacy_unit="rating_value"),
    "user": DPMatrixFactorization(
        **FACTS, privacy_unit="user", n_users=N_USERS, item_ids=range(N_ITEMS)
    ),
    "inf": DPMatrixFactorization(epsilon=math.inf, n_components=2, random_state=0),
}
AS_THEY_ARE = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_param",
    "check_mixin_order",
    "check_complex_data",
    "check_estimator_sparse_tag",
    "check_estimators_partial_fit_n_features",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_fit1d",
    "check_requires_y_none",
}
every_instance = pytest.mark.parametrize("label", INSTANCES)
pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def _fitted(label):
    return clone(INSTANCES[label]).fit(PAIRS, RATINGS)


def fitted(label, X=PAIRS, y=RATINGS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(INSTANCES[label]).fit(X, y)


def same(first, second):
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6)


@every_instance
def test_checks_that_need_no_table(label):
    run = set()
    for estimator, check in estimator_checks_generator(INSTANCES[label]):
        name = getattr(check, "func", check).__name__
        if name in AS_THEY_ARE:
            check(estimator)
            run.add(name)
    # Names change with releases.
    assert len(run) >= len(AS_THEY_ARE) - 2


@every_instance
def test_a_fit_returns_itself_and_adds_fitted_attributes_alone(label):
    model = clone(INSTANCES[label])
    before = {k: pickle.dumps(v) for k, v in model.get_params().items()}
    names = set(vars(model))
    assert model.fit(PAIRS, RATINGS) is model
    assert {k: pickle.dumps(v) for k, v in model.get_params().items()} == before
    added = set(vars(model)) - names
    assert all(name.endswith("_") or name.startswith("_") for name in added)
    for method in (model.fit, model.score):
        assert list(inspect.signature(method).parameters)[:2] == ["X", "y"]
    state = pickle.dumps(vars(model))
    first = model.predict(PAIRS)
    assert pickle.dumps(vars(model)) == state
    same(pickle.loads(pickle.dumps(model)).predict(PAIRS), first)
    # The same seed, again and within a pipeline.
    same(make_pipeline(model).fit(PAIRS, RATINGS).predict(PAIRS), first)
    for name in ("decision_function", "predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)


def read_only():
    X, y = PAIRS.copy(), RATINGS.copy()
    X.flags.writeable = y.flags.writeable = False
    return X, y


FORMS = {
    "read-only": read_only,
    "by columns": lambda: (np.asfortranarray(PAIRS), RATINGS),
    "lists": lambda: (PAIRS.tolist(), RATINGS.tolist()),
    "frame": lambda: (pd.DataFrame(PAIRS, columns=list("ui")), pd.Series(RATINGS)),
    "objects": lambda: (PAIRS.astype(object), RATINGS),
    "int32": lambda: (PAIRS.astype(np.int32), RATINGS),
    "a column": lambda: (PAIRS, RATINGS[:, None]),
}


@pytest.mark.parametrize("label", ["rating_value", "user"])
@pytest.mark.parametrize("form", FORMS)
def test_tables_of_every_form_make_one_model(form, label):
    X, y = FORMS[form]()
    same(fitted(label, X, y).predict(X), _fitted(label).predict(PAIRS))


@every_instance
def test_rows_are_predicted_one_by_one(label):
    model, whole = _fitted(label), _fitted(label).predict(PAIRS)
    same(np.concatenate([model.predict(row[None]) for row in PAIRS[:30]]), whole[:30])
    order = np.random.RandomState(1).permutation(len(PAIRS))
    same(model.predict(PAIRS[order]), whole[order])
    assert label != "inf" or model.score(PAIRS, RATINGS) > 0.5


@every_instance
def test_what_is_no_table_of_pairs_is_refused(label):
    model = _fitted(label)
    assert model.n_features_in_ == 2
    for bad in (np.nan, np.inf, None):
        y = RATINGS.astype(object)
        y[3] = bad
        with pytest.raises(ValueError, match="y argument"):
            fitted(label, PAIRS, y)
    missing = PAIRS.astype(float)
    missing[3, 1] = np.nan
    with pytest.raises(ValueError, match="ids of the"):
        fitted(label, missing)
    for width in (1, 3):
        with pytest.raises(ValueError, match="two columns"):
            fitted(label, np.zeros((len(RATINGS), width), int))
        with pytest.raises(ValueError, match="two columns"):
            model.predict(np.zeros((5, width), int))
    with pytest.raises(ValueError, match="two columns"):
        model.predict(PAIRS[0])
    with pytest.raises(ValueError, match=r"at least one row. Got 0 sample\(s\)"):
        fitted(label, PAIRS[:0], RATINGS[:0])
    unfitted = clone(model)
    for call in (
        lambda: unfitted.predict(PAIRS),
        lambda: unfitted.fold_in(PAIRS, RATINGS),
        lambda: unfitted.transform([0]),
        lambda: unfitted.recommend(0),
    ):
        with pytest.raises(NotFittedError):
            call()


def test_feature_names_are_kept_and_compared():
    frame = pd.DataFrame(PAIRS, columns=["user", "item"])
    model = fitted("inf", frame)
    assert list(model.feature_names_in_) == ["user", "item"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"item": "film"}))
