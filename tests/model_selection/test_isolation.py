"""Trials share nothing, leave nothing behind, and do not fail for one record's sake.

Each of these broke a promise once.
"""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array, issparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    PolynomialFeatures,
)

from skdp import (
    DPGridSearchCV,
    DPLinearSVC,
    DPLogisticRegression,
    DPSimpleImputer,
    DPStandardScaler,
)
from skdp.exceptions import SourceError
from skdp.model_selection import METHODS, _candidates
from skdp.model_selection._candidates import SearchRecords, Split, rehearse
from skdp.privacy.ledger._allowance import Allowance
from tests.model_selection.runs import job_of, plan_of
from tests.model_selection.test_search import ledger_in, logistic, rows_for
from tests.model_selection.toys import NoisySum

GRID_OF_PIPE = {"dplogisticregression__C": [0.01, 1.0]}


def test_a_candidate_that_refuses_one_record_is_refused_before_the_commit(tmp_path):
    """The record may be any: a trial must not fail for its sake."""
    ledger = ledger_in(tmp_path)
    X, y = rows_for()
    X = np.array(X)
    X[-1, 0] = np.nan
    pipe = Pipeline(
        [
            ("imp", DPSimpleImputer(strategy="constant", fill_value=0.0)),
            ("c", logistic()),
        ]
    )
    grid = {
        "imp": [DPSimpleImputer(strategy="constant", fill_value=0.0), "passthrough"]
    }
    for method in METHODS:
        search = DPGridSearchCV(pipe, grid, method=method, ledger=ledger)
        with pytest.raises(ValueError, match=r"finite|NaN"):
            search.fit(X, y)
    assert ledger.spends() == []


def test_steps_behind_a_private_one_are_of_skdp():
    scaler = DPStandardScaler(bounds=(-10, 10))
    pipe = make_pipeline(scaler, FunctionTransformer(np.log1p), logistic())
    with pytest.raises(ValueError, match="behind a private step"):
        DPGridSearchCV(pipe, {}).fit(*rows_for())
    before = make_pipeline(FunctionTransformer(np.tanh), scaler, logistic())
    DPGridSearchCV(before, {}).fit(*rows_for())


@pytest.mark.parametrize("method", METHODS)
def test_trials_leave_no_trace_in_the_process(method):
    """Neither in NumPy's generator nor in the warnings that are shown."""
    pipe = make_pipeline(RBFSampler(), logistic())
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global one is meant
    filters = list(warnings.filters)
    DPGridSearchCV(pipe, GRID_OF_PIPE, method=method).fit(*rows_for())
    with parallel_config(backend="threading", n_jobs=3):
        DPGridSearchCV(pipe, GRID_OF_PIPE, method=method).fit(*rows_for())
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    assert warnings.filters == filters
    pipe.set_params(rbfsampler__random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match="rbfsampler__random_state"):
        DPGridSearchCV(pipe, GRID_OF_PIPE, method=method).fit(*rows_for())


def test_a_trial_prints_nothing(monkeypatch, capfd):
    monkeypatch.setattr(NoisySum, "_before_reading", lambda self, X: print("row", X))
    DPGridSearchCV(NoisySum(), {"answer": [0, 1]}).fit(*rows_for())
    assert capfd.readouterr().out == ""


def test_trials_share_no_cache_and_leave_none(tmp_path):
    steps = [("s", DPStandardScaler(bounds=(-10, 10))), ("c", logistic())]
    search = DPGridSearchCV(Pipeline(steps, memory=str(tmp_path)), {"c__C": [0.1]})
    X, y = rows_for()
    plan = plan_of(search, X, y)
    means = {tuple(fit_of(plan, X, y)[0].mean_) for _ in range(3)}
    assert len(means) == 3
    assert list(tmp_path.iterdir()) == []
    # The twin: with the cache, all trials have one and the same noise.
    means = {
        tuple(clone(Pipeline(steps, memory=str(tmp_path))).fit(X, y)[0].mean_)
        for _ in range(3)
    }
    assert len(means) == 1
    assert list(tmp_path.iterdir()) != []


def fit_of(plan, X, y):
    """One trial's fitted model."""
    job = job_of(plan, X, y, n_jobs=1)
    return job.fit(plan.candidates[0].prepared[-1])


def test_no_fit_escapes_its_allowance_by_workers_of_its_own():
    """Each step alone is within what the trial may cost; all of them are not."""
    parts = [(n, SelectFromModel(logistic(), threshold=-np.inf)) for n in "ab"]
    pipe = make_pipeline(FeatureUnion(parts, n_jobs=2), logistic())
    X, y = rows_for()
    with parallel_config(n_jobs=2):
        plan = plan_of(DPGridSearchCV(pipe, {}), X, y)
        (ready, _) = plan.candidates[0].prepared
        assert ready.estimator[0].n_jobs == 1
        _, events = rehearse(ready.estimator, SearchRecords(X, y), "replace_one")
        assert len(events) == 3
    with pytest.raises(TypeError, match="stay in the process"):
        pickle.dumps(Allowance("replace_one", "record"))


def test_allowance_refuses_what_was_not_paid_for():
    X, y = rows_for()
    plan = plan_of(DPGridSearchCV(logistic(), {}), X, y)
    ready = plan.candidates[0].prepared[0]
    bold = clone(ready.estimator).set_params(epsilon=1.01 * ready.estimator.epsilon)
    job = job_of(plan, X, y, n_jobs=1)
    assert job.fit(ready) is not None
    with pytest.raises(SourceError):
        job.fit(replace(ready, estimator=bold))


def in_place(X, y, method, *, copy, random_state=None):
    # Changed twice, dense rows are all ones.
    step = Normalizer(copy=copy) if issparse(X) else Binarizer(threshold=-1, copy=copy)
    facts = {"epsilon": 9.0, "method": method, "random_state": random_state}
    pipe = make_pipeline(step, logistic())
    return DPGridSearchCV(pipe, GRID_OF_PIPE, **facts).fit(X, y)


LAYOUTS = {"rows": np.array, "columns": np.asfortranarray, "sparse": csr_array}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("layout", "method"), list(zip(LAYOUTS, METHODS, strict=True)))
def test_steps_that_change_their_rows_change_those_of_nobody_else(method, layout):
    """Neither the caller's, nor those of the next trial, or of the final fit."""
    X, y = rows_for()
    X = 3.0 * np.asarray(X)
    found = []
    for copy in (True, False):
        rows = LAYOUTS[layout](X)
        search = in_place(rows, y, method, copy=copy, random_state=0)
        same = rows.toarray() if layout == "sparse" else rows
        assert np.array_equal(same, X)
        found.append(search.best_estimator_[-1].coef_)
    assert np.array_equal(*found)


@pytest.mark.filterwarnings("ignore")
def test_twin_that_copies_no_rows_is_found(monkeypatch):
    monkeypatch.setattr(_candidates, "copied", lambda rows: rows)
    X, y = rows_for()
    X = 3.0 * np.array(X)
    before = X.copy()
    search = in_place(X, y, "composition", copy=False, random_state=0)
    assert not np.array_equal(X, before)
    honest = in_place(before, y, "composition", copy=True, random_state=0)
    coefs = [x.best_estimator_[-1].coef_ for x in (search, honest)]
    assert not np.array_equal(*coefs)


def test_messages_of_others_quote_no_entry():
    X, y = rows_for()
    X = np.array(X, dtype=object)
    X[-1, 0] = "Alice: positive"
    for step in (PolynomialFeatures(), Normalizer()):
        pipe = make_pipeline(step, logistic())
        with pytest.raises((ValueError, TypeError)) as caught:
            DPGridSearchCV(pipe, {}).fit(X, y)
        assert "Alice" not in str(caught.value)
        assert caught.value.__context__ is None


def test_candidates_predict_the_same_thing():
    model = Pipeline([("c", logistic())])
    other = DPLogisticRegression(classes=[-1, 0, 1])
    with pytest.raises(ValueError, match="the same thing"):
        DPGridSearchCV(model, {"c": [logistic(), other]}).fit(*rows_for())
    grid = {"c": [logistic(), DPLinearSVC(classes=[0, 1])]}
    with pytest.raises(ValueError, match="predict_proba"):
        DPGridSearchCV(model, grid, scoring="neg_log_loss").fit(*rows_for())


@pytest.mark.parametrize("backend", ["threading"])
def test_workers_have_scikit_learns_configuration(backend):
    """A trial that failed in a worker would have the lowest score."""
    X, y = rows_for()
    X = pd.DataFrame(np.asarray(X), columns=["a", "b"][: X.shape[1]])
    bounds = dict.fromkeys(X.columns, (-10, 10))
    steps = [DPSimpleImputer(bounds=bounds), DPStandardScaler(bounds=bounds)]
    with config_context(transform_output="pandas"):
        pipe = make_pipeline(*steps, logistic())
        with parallel_config(backend=backend, n_jobs=2):
            plan = plan_of(DPGridSearchCV(pipe, {}, epsilon=50.0), X, y)
            ready = plan.candidates[0].prepared[0]
            rows = np.arange(len(y))
            job = job_of(plan, X, y, n_jobs=2)
            trials = job.fit_and_score([ready] * 2, [Split(rows, rows)] * 2, say=False)
    assert all(trial.model is not None for trial in trials)
