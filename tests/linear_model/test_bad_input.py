"""Bad input: a clear message without data, nothing spent, nothing half-fitted."""

from __future__ import annotations

import math
import traceback

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import coo_array, csc_array, csr_array
from sklearn.base import clone

from skdp import (
    BoundedScaler,
    DPGammaRegressor,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
    DPRobustClassifier,
    DPSparseLinearRegression,
    RowNormClipper,
)
from skdp.exceptions import (
    ConstantModelWarning,
    NoiseDominatesWarning,
    UndeclaredRowsWarning,
)
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


NEEDS = {
    DPLogisticRegression: {},
    DPLinearRegression: {"target_bounds": (-3, 3)},
    DPSparseLinearRegression: {"target_bounds": (-3, 3)},
    DPPoissonRegressor: {"target_bounds": (0, 3)},
    DPGammaRegressor: {"target_bounds": (0.1, 3)},
    DPQuantileRegressor: {"target_bounds": (-3, 3)},
    DPLinearSVC: {},
    DPRobustClassifier: {},
}
BAD_PARAMS = {
    DPLogisticRegression: [
        ({"epsilon": 0.0}, r"'epsilon' .*must be a number in \[1e-06, 1e\+08\]. Got 0"),
        ({"epsilon": math.nan}, "'epsilon'.*Got nan"),
        ({"epsilon": True}, "'epsilon'"),
        ({"delta": 1.0}, r"'delta' .*, 1\)"),
        ({"delta": 0.0, "solver": "noisy_gd"}, "cannot do delta=0"),
        ({"adjacency": "add_remove"}, r"'adjacency'.*\['replace_one', 'zero_out'\]"),
        ({"data_norm": 0.0}, "'data_norm'"),
        ({"data_norm": math.inf}, "'data_norm'"),
        ({"C": 0.0}, "'C'"),
        ({"fit_intercept": "yes"}, "'fit_intercept'"),
        ({"solver": "lbfgs"}, r"'solver'.*noisy_gd"),
        ({"solver": "lbfgs", "epsilon": math.inf, "ledger": None}, "'solver'"),
        ({"solver_params": {"n_steps": 5}}, "'gaussian'} with solver='auto'"),
        ({"solver": "noisy_gd", "solver_params": {"steps": 5}}, r"\['steps'\]"),
        ({"solver": "noisy_gd", "solver_params": [1]}, "mapping"),
        (
            {"random_state": np.random.RandomState(0)},
            "'random_state'.*clones would share",
        ),
        ({"ledger": "study.db"}, "'ledger'.*BudgetLedger"),
        ({"classes": [0]}, "at least two classes"),
        ({"classes": {0, 1}}, "classes.*Got {0, 1}"),
        ({"classes": [5, 6]}, "declared in 'classes'"),
        ({"solver": "iht"}, "needs a number of features"),
    ],
    DPLinearRegression: [
        ({"target_bounds": None}, r"for example target_bounds=\(0, 100\)"),
        ({"target_bounds": 3.0}, "'target_bounds'"),
        ({"target_bounds": (2, 1)}, "first must be below"),
        ({"target_bounds": (0, math.nan)}, r"'target_bounds\[1\]'.*without looking"),
        ({"target_bounds": ("0", 1)}, r"'target_bounds\[0\]'.*without looking"),
        ({"alpha": -1.0}, "'alpha'"),
    ],
    DPSparseLinearRegression: [
        ({"n_nonzero_coefs": 0}, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 121}, "n_nonzero_coefs.*no more features"),
        ({"feature_bound": math.nan}, "feature_bound"),
        ({"solver": "noisy_gd"}, "gives every feature a weight"),
    ],
    DPPoissonRegressor: [
        ({"target_bounds": (-1, 5)}, "at least 0"),
        ({"target_bounds": (5, 5.01)}, "2 % apart"),
    ],
    DPGammaRegressor: [
        ({"target_bounds": (0, 5)}, "above 0"),
        ({"target_bounds": (1e-6, 5)}, "1e6 times"),
        ({"most": 1.0}, "most"),
    ],
    DPQuantileRegressor: [({"quantile": 1.0}, "quantile"), ({"h": 0.0}, "'h'")],
    DPLinearSVC: [({"h": "wide"}, "'h'")],
    DPRobustClassifier: [({"loss": "hinge"}, "'loss' parameter")],
}
BAD_DATA = [
    (with_entry(math.nan), Y, "NaN"),
    (with_entry(math.inf), Y, "infinity"),
    (X[:0], Y[:0], "0 sample"),
    (X[:1], Y[:1], "two classes"),
    (X, np.zeros(30), "two classes"),
    (X, Y[:20], "inconsistent"),
    (X[0], Y, "1D array"),
    (X, None, "y"),
    (X, np.linspace(0, 1, 30) * SECRET, "continuous.* Use a regressor"),
    (X, "label", "Pass the column itself"),
    ("table.csv", Y, "pd.read_csv"),
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


@pytest.mark.parametrize("kind", NEEDS)
def test_bad_parameters(kind, tmp_path):
    ledger = make_ledger(tmp_path)
    for params, match in BAD_PARAMS[kind]:
        model = kind(**({"ledger": ledger} | NEEDS[kind] | params))
        assert_refused(model, X, Y, match, lambda: len(ledger.spends()))


BAD_TARGETS = [
    (None, "requires y"),
    (np.r_[np.zeros(29), math.inf], "finite"),
    (np.zeros((30, 2)), "1d"),
    (np.column_stack([Y, 1 - Y, Y]), r"MultiOutputRegressor\(model\) fits 3 models"),
    (np.zeros(20), "inconsistent"),
    (np.array(["a", str(SECRET) + "x"] * 15), "real numbers.* use a classifier"),
    (np.array([10**400] * 30, dtype=object), "real numbers"),
    (np.full(30, SECRET + 1j), "real numbers"),
    (np.ma.masked_array(np.full(30, SECRET), mask=np.arange(30) % 2), "real numbers"),
]


@pytest.mark.parametrize(
    ("model", "cases"),
    [
        (DPLogisticRegression(), BAD_DATA),
        (
            DPLinearRegression(target_bounds=(-3, 3)),
            [(X, y, match) for y, match in BAD_TARGETS],
        ),
    ],
)
def test_bad_data(model, cases, tmp_path):
    ledger = make_ledger(tmp_path)
    model = clone(model).set_params(ledger=ledger)
    for rows, targets, match in cases:
        assert_refused(model, rows, targets, match, lambda: len(ledger.spends()))


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


@pytest.mark.parametrize("params", [{"random_state": 0}, {"epsilon": math.inf}])
def test_non_private_fits_are_refused_with_a_ledger(params, tmp_path):
    ledger = make_ledger(tmp_path)
    model = DPLogisticRegression(ledger=ledger, **params)
    match = "accepts only private fits"
    assert_refused(model, X, Y, match, lambda: len(ledger.spends()))


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
    data, (rows, columns) = np.r_[1.0, coo.data], coo.coords
    twice = coo_array((data, (np.r_[0, rows], np.r_[0, columns])), shape=coo.shape)
    if form is coo_array:
        return twice
    starts = np.r_[0, np.cumsum(np.bincount(twice.coords[0], minlength=20))]
    return csr_array((data, twice.coords[1], starts), shape=coo.shape)


@pytest.mark.parametrize("step", [DPLogisticRegression, RowNormClipper])
@pytest.mark.parametrize("form", [csr_array, coo_array])
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
    told = [UndeclaredRowsWarning, NoiseDominatesWarning]
    assert [found.category for found in recwarn] == 2 * told
    assert len({str(found.message) for found in recwarn}) == 2


def test_single_precision_output_never_overflows(recwarn):
    rows = np.full((900, 3), 0.5, dtype=np.float32)
    model = DPLogisticRegression(classes=[0, 1], data_norm=1e-45)
    assert np.isfinite(model.fit(rows, np.arange(900) % 2).coef_).all()
    assert {found.category for found in recwarn} <= {ConstantModelWarning}


# Remedies ------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("kind", "not_named"),
    [
        (DPLogisticRegression, ["adassp", "iht", "peeling", "frank_wolfe"]),
        (DPLinearRegression, ["iht", "peeling"]),
        (DPSparseLinearRegression, ["noisy_gd", "adassp"]),
    ],
)
def test_only_solvers_that_would_do_are_offered(kind, not_named):
    """Found in review: sixteen names, six of which the class refuses."""
    for solver in ("lbfgs", not_named[0]):
        with pytest.raises(ValueError, match=r"'solver'|solver=") as told:
            kind(**NEEDS[kind], solver=solver).fit(X, Y)
        offered = str(told.value).partition("[")[2].partition("]")[0]
        assert offered
        assert not [name for name in not_named if f"'{name}'" in offered]


@pytest.mark.parametrize("name", ["centred_descent", "constant"])
def test_a_solver_that_only_the_default_runs_is_explained(name):
    with pytest.raises(ValueError, match=f"Got '{name}'. Only solver='auto' runs it"):
        DPLogisticRegression(solver=name, classes=[0, 1]).fit(X, Y)
    with pytest.raises(ValueError, match=r"Got 'lbfgs'\. Leave solver out"):
        DPLogisticRegression(solver="lbfgs", classes=[0, 1]).fit(X, Y)


def test_bounds_in_the_order_of_scipy_are_refused():
    """Found in review: of two columns they were read as lowest and highest."""
    with pytest.raises(ValueError, match="Got a list of pairs") as told:
        BoundedScaler([(0, 1), (5, 6)]).fit(X[:, :2])
    assert "([0, 5], [1, 6])" in str(told.value)
    kept = BoundedScaler([[0, 1], [5, 6]]).fit(X[:, :2])
    assert kept.transform(np.array([[0, 1]])).max() < 0
