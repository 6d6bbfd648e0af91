"""scikit-learn's estimator checks for `DPMatrixFactorization`, whose rows are pairs.

Its checks make tables of random numbers. Each check is named here: as one that needs no
table and runs as it is, as one that is run on pairs in its place, or with the reason
why it does not apply. A check of a new release that is in neither list fails the test.
"""

from __future__ import annotations

import copy
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

INSTANCES = {
    "rating_value": DPMatrixFactorization(
        rating_bounds=(1, 5), n_components=2, random_state=0
    ),
    "user": DPMatrixFactorization(
        privacy_unit="user",
        rating_bounds=(1, 5),
        n_components=2,
        n_users=N_USERS,
        item_ids=range(N_ITEMS),
        random_state=0,
    ),
    **{
        f"inf-{solver}": DPMatrixFactorization(
            epsilon=math.inf, solver=solver, n_components=2, random_state=0
        )
        for solver in ("als", "hamsi", "lbfgs", "sgd", "vb")
    },
}

AS_THEY_ARE = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
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
)
NOT_FOR_PAIRS = {
    "check_positive_only_tag_during_fit": "ids have no sign",
    "check_dtype_object": "ids may be objects",
    "check_array_api_input": "ids are no numbers",
    "check_estimator_sparse_array": "two columns of ids are not sparse",
    "check_estimator_sparse_matrix": "two columns of ids are not sparse",
    "check_estimator_sparse_container": "two columns of ids are not sparse",
    "check_fit2d_1feature": "an id of each, so two columns",
    "check_non_transformer_estimators_n_iter": "no max_iter; n_iter_ is tested apart",
    "check_sample_weights_not_overwritten": "no sample_weight",
    "check_transformer_data_not_an_array": "transform takes users, not rows of fit",
    "check_transformer_general": "transform takes users, not rows of fit",
    "check_transformer_preserve_dtypes": "transform takes users, not rows of fit",
    "check_transformers_unfitted": "transform takes users, not rows of fit",
    "check_transformer_n_iter": "no max_iter; n_iter_ is tested apart",
}


def fitted(estimator, X=PAIRS, y=RATINGS):
    if X is PAIRS and y is RATINGS:
        return copy.deepcopy(_fitted_to_all(estimator))
    return fitted_anew(estimator, X, y)


def fitted_anew(estimator, X=PAIRS, y=RATINGS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X, y)


@cache
def _fitted_to_all(estimator):
    return fitted_anew(estimator)


def same(first, second):
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-6)


def fit_score_takes_y(estimator):
    model = fitted(estimator)
    assert isinstance(model.score(PAIRS, RATINGS), float)
    assert list(inspect.signature(model.fit).parameters)[:2] == ["X", "y"]
    assert list(inspect.signature(model.score).parameters)[:2] == ["X", "y"]


def parameters_stay(estimator):
    before = {k: pickle.dumps(v) for k, v in estimator.get_params().items()}
    model = fitted_anew(estimator)
    assert {k: pickle.dumps(v) for k, v in model.get_params().items()} == before


def only_fitted_attributes_are_added(estimator):
    model = fitted_anew(estimator)
    added = set(vars(model)) - set(vars(estimator))
    assert all(name.endswith("_") or name.startswith("_") for name in added)


def fit_returns_self(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator)
        assert model.fit(PAIRS, RATINGS) is model


def read_only_input(estimator):
    X, y = PAIRS.copy(), RATINGS.copy()
    X.flags.writeable = y.flags.writeable = False
    same(fitted(estimator, X, y).predict(X), fitted(estimator).predict(PAIRS))


def column_order_in_memory(estimator):
    model = fitted(estimator, np.asfortranarray(PAIRS))
    same(model.predict(np.asfortranarray(PAIRS)), fitted(estimator).predict(PAIRS))


def dtypes(estimator):
    for ids in (np.int32, np.int64, np.float64, object):
        for ratings in (np.float32, np.float64, np.int64):
            y = np.rint(RATINGS).astype(ratings)
            predicted = fitted(estimator, PAIRS.astype(ids), y).predict(
                PAIRS.astype(ids)
            )
            assert np.isfinite(predicted).all()


def regressors_int(estimator):
    whole = np.rint(RATINGS)
    of_int = fitted(estimator, PAIRS, whole.astype(np.int64)).predict(PAIRS)
    of_float = fitted(estimator, PAIRS, whole.astype(np.float32)).predict(PAIRS)
    same(of_int, of_float)


def targets_must_be_finite(estimator):
    for bad in (np.nan, np.inf, None):
        y = RATINGS.astype(object)
        y[3] = bad
        with pytest.raises(ValueError, match="y argument"):
            fitted(estimator, PAIRS, y)


def ids_must_not_be_missing(estimator):
    X = PAIRS.astype(float)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="ids of the"):
        fitted(estimator, X)


def pickling_keeps_predictions(estimator):
    model = fitted(estimator)
    same(pickle.loads(pickle.dumps(model)).predict(PAIRS), model.predict(PAIRS))


def lists_and_frames(estimator):
    of_array = fitted(estimator).predict(PAIRS)
    rows = PAIRS.tolist()
    same(fitted(estimator, rows, RATINGS.tolist()).predict(rows), of_array)
    frame = pd.DataFrame(PAIRS, columns=["user", "item"])
    same(fitted(estimator, frame, pd.Series(RATINGS)).predict(frame), of_array)


def one_sample(estimator):
    alone = clone(estimator)
    if estimator.n_users is not None:
        alone.set_params(n_users=1)
    with pytest.raises(ValueError, match="at least two users"):
        fitted(alone, PAIRS[:1], RATINGS[:1])


def y_as_column(estimator):
    with pytest.warns(Warning, match="column-vector"):
        model = clone(estimator).fit(PAIRS, RATINGS[:, None])
    same(model.predict(PAIRS), fitted(estimator).predict(PAIRS))


def learns(estimator):
    if estimator.epsilon != math.inf:
        return
    assert fitted(estimator).score(PAIRS, RATINGS) > 0.5


def predicts_rows_one_by_one(estimator):
    model = fitted(estimator)
    whole = model.predict(PAIRS)
    one_by_one = [model.predict(row[None]) for row in PAIRS[:30]]
    same(np.concatenate(one_by_one), whole[:30])
    order = np.random.RandomState(1).permutation(len(PAIRS))
    same(model.predict(PAIRS[order]), whole[order])


def methods_leave_the_model_alone(estimator):
    model = fitted(estimator)
    before = pickle.dumps(vars(model))
    model.predict(PAIRS)
    assert pickle.dumps(vars(model)) == before


def fits_twice_alike(estimator):
    model = fitted(estimator)
    first = model.predict(PAIRS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(model.fit(PAIRS, RATINGS).predict(PAIRS), first)


def unfitted_refuses(estimator):
    for call in (
        lambda model: model.predict(PAIRS),
        lambda model: model.fold_in(PAIRS, RATINGS),
        lambda model: model.transform([0]),
        lambda model: model.recommend(0),
    ):
        with pytest.raises(NotFittedError):
            call(clone(estimator))


def width_is_two(estimator):
    model = fitted(estimator)
    assert model.n_features_in_ == 2
    for width in (1, 3):
        with pytest.raises(ValueError, match="two columns"):
            fitted(estimator, np.zeros((len(RATINGS), width), int))
        with pytest.raises(ValueError, match="two columns"):
            model.predict(np.zeros((5, width), int))


def empty_tables_are_refused(estimator):
    with pytest.raises(ValueError, match=r"at least one row. Got 0 sample\(s\)"):
        fitted(estimator, PAIRS[:0], RATINGS[:0])
    with pytest.raises(ValueError, match="two columns"):
        fitted(estimator, PAIRS[:, :0])


def no_decision_function(estimator):
    model = fitted(estimator)
    for name in ("decision_function", "predict_proba", "predict_log_proba"):
        assert not hasattr(model, name)


def predict_wants_two_dimensions(estimator):
    with pytest.raises(ValueError, match="two columns"):
        fitted(estimator).predict(PAIRS[0])


def pipeline_predicts_alike(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(clone(estimator)).fit(PAIRS, RATINGS)
    same(pipeline.predict(PAIRS), fitted(estimator).predict(PAIRS))


ON_PAIRS = {
    "check_fit_score_takes_y": fit_score_takes_y,
    "check_estimators_overwrite_params": parameters_stay,
    "check_dont_overwrite_parameters": only_fitted_attributes_are_added,
    "check_estimators_fit_returns_self": fit_returns_self,
    "check_readonly_memmap_input": read_only_input,
    "check_n_features_in_after_fitting": width_is_two,
    "check_estimators_dtypes": dtypes,
    "check_pipeline_consistency": pipeline_predicts_alike,
    "check_estimators_nan_inf": ids_must_not_be_missing,
    "check_estimators_pickle": pickling_keeps_predictions,
    "check_f_contiguous_array_estimator": column_order_in_memory,
    "check_regressors_train": learns,
    "check_regressor_data_not_an_array": lists_and_frames,
    "check_supervised_y_2d": y_as_column,
    "check_supervised_y_no_nan": targets_must_be_finite,
    "check_regressors_int": regressors_int,
    "check_estimators_empty_data_messages": empty_tables_are_refused,
    "check_regressors_no_decision_function": no_decision_function,
    "check_methods_sample_order_invariance": predicts_rows_one_by_one,
    "check_methods_subset_invariance": predicts_rows_one_by_one,
    "check_fit2d_1sample": one_sample,
    "check_dict_unchanged": methods_leave_the_model_alone,
    "check_fit_idempotent": fits_twice_alike,
    "check_fit_check_is_fitted": unfitted_refuses,
    "check_n_features_in": width_is_two,
    "check_fit2d_predict1d": predict_wants_two_dimensions,
}


def _name(check):
    return getattr(check, "func", check).__name__


def _checks():
    for label, instance in INSTANCES.items():
        for estimator, check in estimator_checks_generator(instance):
            if _name(check) in AS_THEY_ARE:
                yield pytest.param(estimator, check, id=f"{label}-{_name(check)}")
        for name, check in ON_PAIRS.items():
            yield pytest.param(instance, check, id=f"{label}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("label", INSTANCES)
def test_every_check_is_named_once(label):
    names = {_name(check) for _, check in estimator_checks_generator(INSTANCES[label])}
    lists = [set(AS_THEY_ARE), set(ON_PAIRS), set(NOT_FOR_PAIRS)]
    assert names <= set.union(*lists)
    assert sum(map(len, lists)) == len(set.union(*lists))
    run = names & (lists[0] | lists[1])
    assert len(run) >= 40


def test_feature_names_are_kept_and_compared():
    frame = pd.DataFrame(PAIRS, columns=["user", "item"])
    model = fitted(INSTANCES["inf-als"], frame)
    assert list(model.feature_names_in_) == ["user", "item"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"item": "film"}))
