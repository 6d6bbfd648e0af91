"""Bad input: a clear message without data, nothing spent, nothing half-fitted."""

from __future__ import annotations

import math
import re
import traceback

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import coo_array, csc_array, csr_array
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import (
    BoundedScaler,
    DPLinearRegression,
    DPLogisticRegression,
    DPSimpleImputer,
    DPSparseLinearRegression,
    RowNormClipper,
    privacy_report,
)
from skdp.exceptions import NoiseDominatesWarning
from tests.problems import make_ledger

SECRET = 123456.789
X = np.random.default_rng(0).normal(size=(30, 3))
Y = np.arange(30) % 2


def with_entry(value):
    bad = X.copy()
    bad[4, 1] = value
    return bad


def scaler():
    return BoundedScaler((0, 1))


BAD_PARAMS = [
    ({"epsilon": 0.0}, r"'epsilon' .*must be a number in \[1e-06, 1e\+08\]. Got 0"),
    ({"epsilon": -1.0}, "'epsilon'"),
    ({"epsilon": math.nan}, "'epsilon'.*Got nan"),
    ({"epsilon": "1"}, "'epsilon'"),
    ({"epsilon": True}, "'epsilon'"),
    ({"delta": 1.0}, r"'delta' .*, 1\)"),
    ({"delta": -1e-9}, "'delta'"),
    ({"delta": math.nan}, "'delta'"),
    ({"delta": 0.0, "solver": "noisy_gd"}, "cannot do delta=0"),
    ({"adjacency": "add_remove"}, r"'adjacency'.*\['replace_one', 'zero_out'\]"),
    ({"data_norm": 0.0}, "'data_norm'"),
    ({"data_norm": -1.0}, "'data_norm'"),
    ({"data_norm": math.inf}, "'data_norm'"),
    ({"C": 0.0}, "'C'"),
    ({"C": -1}, "'C'"),
    ({"fit_intercept": "yes"}, "'fit_intercept'"),
    ({"solver": "lbfgs"}, r"'solver'.*noisy_gd"),
    ({"solver": "lbfgs", "epsilon": math.inf, "ledger": None}, "'solver'"),
    ({"solver_params": {"n_steps": 5}}, "must be None with solver='auto'"),
    ({"solver": "noisy_gd", "solver_params": {"steps": 5}}, r"\['steps'\]"),
    ({"solver": "noisy_gd", "solver_params": [1]}, "mapping"),
    ({"random_state": np.random.RandomState(0)}, "'random_state'.*clones would share"),
    ({"random_state": -1}, "'random_state'"),
    ({"ledger": "study.db"}, "'ledger'.*BudgetLedger"),
    ({"classes": [0]}, "at least two classes"),
    ({"classes": []}, "at least two classes"),
    ({"classes": {0, 1}}, "classes.*Got {0, 1}"),
    ({"classes": [[0, 1], [2, 3]]}, "classes.*list of labels"),
    ({"classes": [5, 6]}, "declared in 'classes'"),
]
BAD_DATA = [
    (with_entry(math.nan), Y, "NaN"),
    (with_entry(math.inf), Y, "infinity"),
    (X[:0], Y[:0], "0 sample"),
    (X[:1], Y[:1], "two classes"),
    (X, np.zeros(30), "two classes"),
    (X, Y[:20], "inconsistent"),
    (X[0], Y, "1D array"),
    (X, None, "y"),
    (X, np.linspace(0, 1, 30) * SECRET, "continuous"),
    (with_entry(0).astype(object) + 1j, Y, "Complex|complex|numbers"),
    (np.array([["a", str(SECRET) + "x"]] * 30), Y, "array of numbers"),
    (X, np.column_stack([Y, Y]), "1d"),
]


def assert_refused(model, rows, labels, match, spent):
    before = dict(vars(model))
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        model.fit(rows, labels)
    assert dict(vars(model)) == before  # nothing half-fitted
    assert spent() == 0
    told = "".join(traceback.format_exception_only(caught.value))
    assert str(SECRET) not in told
    assert caught.value.__context__ is None or str(SECRET) not in str(
        caught.value.__context__
    )


@pytest.mark.parametrize(
    ("params", "match"), BAD_PARAMS, ids=[" ".join(params) for params, _ in BAD_PARAMS]
)
def test_bad_parameters(params, match, tmp_path):
    ledger = make_ledger(tmp_path)
    model = DPLogisticRegression(**({"ledger": ledger} | params))
    assert_refused(model, X, Y, match, lambda: len(ledger.spends()))


@pytest.mark.parametrize(
    ("rows", "labels", "match"), BAD_DATA, ids=range(len(BAD_DATA))
)
def test_bad_data(rows, labels, match, tmp_path):
    ledger = make_ledger(tmp_path)
    model = DPLogisticRegression(ledger=ledger)
    assert_refused(model, rows, labels, match, lambda: len(ledger.spends()))


def test_object_columns_are_named(tmp_path):
    ledger = make_ledger(tmp_path)
    frame = pd.DataFrame(X, columns=["age", "income", "hours"])
    frame["work"] = ["private", str(SECRET)] * 15
    frame["day"] = pd.Timestamp("2026-01-01")
    model = DPLogisticRegression(ledger=ledger)
    match = r"\['work', 'day'\].*DeclaredOneHotEncoder"
    assert_refused(model, frame, Y, match, lambda: len(ledger.spends()))


def test_mismatched_columns_after_a_good_fit_lose_nothing(tmp_path):
    ledger = make_ledger(tmp_path)
    frame = pd.DataFrame(X, columns=["age", "income", "hours"])
    model = DPLogisticRegression(ledger=ledger, classes=[0, 1]).fit(frame, Y)
    coef = model.coef_.copy()
    for wrong in (frame[["age", "income"]], frame.rename(columns={"age": "years"})):
        with pytest.raises(ValueError, match="feature"):
            model.predict(wrong)
    bad = frame.assign(more=math.nan)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, Y)
    assert np.array_equal(model.coef_, coef)
    assert model.n_features_in_ == 3
    assert len(ledger.spends()) == 1


def test_ledger_of_another_adjacency_or_unit(tmp_path):
    ledger = make_ledger(tmp_path, adjacency="zero_out")
    model = DPLogisticRegression(ledger=ledger)
    match = "adjacency='zero_out'.*Got a fit with adjacency='replace_one'"
    assert_refused(model, X, Y, match, lambda: len(ledger.spends()))
    (tmp_path / "users").mkdir()
    users = make_ledger(tmp_path / "users", unit="user")
    model = DPLogisticRegression(ledger=users)
    assert_refused(model, X, Y, "unit", lambda: len(users.spends()))


@pytest.mark.parametrize("params", [{"random_state": 0}, {"epsilon": math.inf}])
def test_non_private_fits_are_refused_with_a_ledger(params, tmp_path):
    ledger = make_ledger(tmp_path)
    model = DPLogisticRegression(ledger=ledger, **params)
    match = "accepts only private fits"
    assert_refused(model, X, Y, match, lambda: len(ledger.spends()))


def test_there_are_no_weights():
    with pytest.raises(TypeError, match="sample_weight"):
        DPLogisticRegression().fit(X, Y, sample_weight=np.ones(30))


QUOTING = [
    np.array([SECRET, 1.0, 2.0]),
    np.array(SECRET),
    np.array([[SECRET + 1j]] * 4),
    pd.DataFrame({"age": np.array([SECRET + 1j] * 4)}),
    np.array([[10**400]] * 4, dtype=object),
    np.array([["2026-01-01"]] * 4, dtype="datetime64[D]"),
    np.ma.masked_array([[SECRET], [1.0]], mask=[[True], [False]]),
]


class Talkative:
    """An entry whose conversion fails with a message of its own."""

    def __float__(self):
        raise ValueError(f"bad {SECRET}")


@pytest.mark.parametrize("step", [DPLogisticRegression, RowNormClipper, scaler])
@pytest.mark.parametrize("kind", range(len(QUOTING) + 1))
def test_no_message_quotes_an_entry(step, kind):
    rows = [*QUOTING, np.array([[Talkative()]] * 4)][kind]
    model = step()
    assert_refused(model, rows, [0, 1] * 2, ".", lambda: 0)


@pytest.mark.parametrize(
    "labels",
    [[SECRET + 1j, 1, 0, 1], [math.nan, 0, 1, 1], [None, 0, 1, 1], ["a", 0, 1, 0]],
    ids=str,
)
def test_no_message_quotes_a_label(labels):
    for classes in (None, [0, 1]):
        model = DPLogisticRegression(classes=classes)
        assert_refused(model, X[:4], np.array(labels, dtype=object), ".", lambda: 0)


def sparse_rows(form=csr_array, dtype=np.float64):
    return form(csr_array(np.arange(1.0, 61.0).reshape(20, 3).astype(dtype)))


def with_duplicate(form):
    """The first entry of the table stands there twice."""
    coo = sparse_rows(coo_array)
    data, rows = np.r_[coo.data[0], coo.data], np.r_[coo.coords[0][0], coo.coords[0]]
    columns = np.r_[coo.coords[1][0], coo.coords[1]]
    if form is coo_array:
        return coo_array((data, (rows, columns)), shape=coo.shape)
    starts = np.r_[0, np.cumsum(np.bincount(rows, minlength=20))]
    by_row = csr_array((data, columns, starts), shape=coo.shape)
    if form is csr_array:
        return by_row
    by_column = np.argsort(columns, kind="stable")
    starts = np.r_[0, np.cumsum(np.bincount(columns, minlength=3))]
    return csc_array((data[by_column], rows[by_column], starts), shape=coo.shape)


@pytest.mark.parametrize("step", [DPLogisticRegression, RowNormClipper])
@pytest.mark.parametrize("form", [csr_array, csc_array, coo_array])
def test_a_place_with_two_entries_is_refused(step, form):
    """Found in review: norms entry by entry miss the sum, and the sum its order."""
    labels = np.arange(20) % 2
    assert_refused(step(), with_duplicate(form), labels, "sum_duplicates", lambda: 0)
    once = with_duplicate(form)
    once.sum_duplicates()
    step().fit(once, labels)


@pytest.mark.parametrize("index", [-1, 3, 10**8])
@pytest.mark.parametrize("form", [csr_array, csc_array, coo_array])
def test_indices_out_of_the_shape_are_refused(form, index):
    """Found in review: one record could read and write foreign memory."""
    rows = sparse_rows(form)
    (rows.coords[1] if form is coo_array else rows.indices)[4] = index
    labels = np.arange(20) % 2
    model = DPLogisticRegression(classes=[0, 1])
    assert_refused(model, rows, labels, "indices within its shape", lambda: 0)


def test_starts_that_fall_are_refused():
    rows = sparse_rows()
    rows.indptr[5] = 0
    model = DPLogisticRegression(classes=[0, 1])
    labels = np.arange(20) % 2
    assert_refused(model, rows, labels, "indices within its shape", lambda: 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_one_records_entries_changes_nothing(dtype):
    """Found in review: dtype and values of the release told whether it was sorted."""
    rows = sparse_rows(dtype=dtype)
    turned = rows.copy()
    turned.indices[:3] = turned.indices[:3][::-1].copy()
    turned.data[:3] = turned.data[:3][::-1].copy()
    turned.has_sorted_indices = False
    labels = np.arange(20) % 2
    models = [
        DPLogisticRegression(random_state=0, classes=[0, 1]).fit(X, labels)
        for X in (rows, turned)
    ]
    assert models[0].coef_.dtype == models[1].coef_.dtype == dtype
    assert np.array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_finiteness_is_checked_whatever_scikit_learn_is_told(value):
    for rows in (with_entry(value), csr_array(with_entry(value))):
        with sklearn.config_context(assume_finite=True):
            assert_refused(DPLogisticRegression(), rows, Y, "finite", lambda: 0)


def test_a_stale_flag_does_not_hide_duplicates():
    """Found in review: SciPy keeps its answer."""
    rows = csr_array(np.full((2, 16), 0.25))
    rows.sum_duplicates()
    rows.indices[:16] = 0
    model = DPLogisticRegression(classes=[0, 1])
    assert_refused(model, rows, [0, 1], "sum_duplicates", lambda: 0)


def test_declared_labels_get_no_opinion_on_how_many_occur(recwarn):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    few, many = np.arange(60) % 2, np.arange(60)
    for labels in (few, many):
        DPLogisticRegression(classes=range(60)).fit(rows, labels)
    # Sixty classes of as many rows: what the shape calls for, and nothing else.
    assert [found.category for found in recwarn] == 2 * [NoiseDominatesWarning]
    assert len({str(found.message) for found in recwarn}) == 1


def test_single_precision_output_never_overflows(recwarn):
    rows = np.full((900, 3), 0.5, dtype=np.float32)
    model = DPLogisticRegression(classes=[0, 1], data_norm=1e-45)
    assert np.isfinite(model.fit(rows, np.arange(900) % 2).coef_).all()
    assert not recwarn.list


# Remedies ------------------------------------------------------------------------


CLIP = FunctionTransformer(np.clip, kw_args={"a_min": -9.0, "a_max": 9.0})


@pytest.mark.parametrize("assumed", [False, True])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_infinity_is_answered_by_clipping_and_nan_by_imputing(form, assumed):
    """Found in review: the imputer was named for both, and refuses infinity."""
    with sklearn.config_context(assume_finite=assumed):
        with pytest.raises(ValueError, match=r"FunctionTransformer\(np.clip") as told:
            DPLogisticRegression().fit(form(with_entry(math.inf)), Y)
        assert "Impute" not in str(told.value)
        with pytest.raises(ValueError, match="Impute with DPSimpleImputer") as told:
            DPLogisticRegression().fit(form(with_entry(math.nan)), Y)
        assert "Clip" not in str(told.value)


def test_the_remedy_for_infinity_is_one_and_costs_nothing(tmp_path):
    imputer = DPSimpleImputer(strategy="constant", fill_value=0.0)
    with pytest.raises(ValueError, match=r"infinity.*FunctionTransformer\(np.clip"):
        imputer.fit(with_entry(math.inf))
    model = make_pipeline(CLIP, BoundedScaler((-9, 9)), DPLogisticRegression())
    assert privacy_report(model).is_private
    model.fit(with_entry(math.inf), Y)


def test_text_in_an_imputer_is_not_answered_by_an_encoder():
    text = pd.DataFrame({"work": ["private", None] * 15})
    for X_ in (text, text.to_numpy()):
        imputer = DPSimpleImputer(strategy="constant", fill_value="missing")
        with pytest.raises(ValueError, match=r"SimpleImputer\(strategy='constant'"):
            imputer.fit(X_)
        with pytest.raises(ValueError, match="Encode categories with Declared"):
            DPLogisticRegression().fit(X_, Y)
    keep = SimpleImputer(
        strategy="constant", fill_value="missing", keep_empty_features=True
    )
    assert privacy_report(keep).epsilon == 0
    assert keep.fit_transform(text.fillna(np.nan).astype(object)).shape == (30, 1)


def test_declared_names_without_a_data_frame_name_set_output():
    bounds = {"a": (0, 1), "b": (0, 1)}
    with pytest.raises(ValueError, match=r"set_output\(transform='pandas'\)"):
        BoundedScaler(bounds).fit(X[:, :2])
    frame = pd.DataFrame(X[:, :2], columns=["a", "c"])
    with pytest.raises(ValueError, match="Declare an entry for each column"):
        BoundedScaler(bounds).fit(frame)


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_bounds_in_the_order_of_scipy_are_refused(n_columns):
    """Found in review: of two columns they were read as lowest and highest."""
    pairs = [(0, 1), (5, 6), (2, 9)][:n_columns]
    low, high = ([pair[side] for pair in pairs] for side in (0, 1))
    with pytest.raises(ValueError, match="as in SciPy") as told:
        BoundedScaler(pairs).fit(X[:, :n_columns])
    assert f"pass ({low!r}, {high!r})" in str(told.value)
    kept = BoundedScaler((low, high)).fit(X[:, :n_columns])
    assert kept.transform(np.array([low])).max() < 0


def test_a_pair_of_sequences_is_still_a_pair():
    for bounds in (((0, 1), (5, 6)), ([0, 1], [5, 6]), np.array([[0, 1], [5, 6]])):
        BoundedScaler(bounds).fit(X[:, :2])


@pytest.mark.parametrize(
    ("model", "meta"),
    [
        (DPLogisticRegression(classes=[0, 1]), MultiOutputClassifier),
        (DPLinearRegression(target_bounds=(0, 1)), MultiOutputRegressor),
        (DPSparseLinearRegression(target_bounds=(0, 1)), MultiOutputRegressor),
    ],
)
def test_several_targets_are_refused_with_what_they_would_cost(model, meta, tmp_path):
    ledger = make_ledger(tmp_path)
    model = clone(model).set_params(ledger=ledger)
    several = np.column_stack([Y, 1 - Y, Y])
    match = rf"{meta.__name__}\(model\) fits 3 models.*3 times as much.*1\.7 times"
    for targets in (several, several.tolist(), pd.DataFrame(several)):
        assert_refused(model, X, targets, match, lambda: len(ledger.spends()))
    # What it says is so.
    meta(model).fit(X, several)
    assert len(ledger.spends()) == 3


def test_bounds_of_targets_have_an_example():
    with pytest.raises(ValueError, match=r"for example target_bounds=\(0, 100\)"):
        DPLinearRegression().fit(X, Y)


@pytest.mark.parametrize(
    ("model", "not_named"),
    [
        (DPLogisticRegression(), ["adassp", "iht", "peeling", "frank_wolfe"]),
        (DPLinearRegression(target_bounds=(0, 1)), ["iht", "peeling"]),
        (DPSparseLinearRegression(target_bounds=(0, 1)), ["noisy_gd", "adassp"]),
    ],
)
def test_only_solvers_that_would_do_are_offered(model, not_named):
    """Found in review: sixteen names, six of which the class refuses."""
    for solver in ("lbfgs", not_named[0]):
        asked = clone(model).set_params(solver=solver)
        with pytest.raises(
            ValueError, match="iht" if "Sparse" in str(model) else "_gd"
        ):
            asked.fit(X, Y)
        try:
            asked.fit(X, Y)
        except ValueError as error:
            offered = str(error).partition("[")[2].partition("]")[0]
        assert not [name for name in not_named if f"'{name}'" in offered]
        for name in re.findall(r"'(\w+)'", offered):
            if name not in ("auto", "knowledge_transfer"):
                clone(model).set_params(solver=name).fit(X, Y)
