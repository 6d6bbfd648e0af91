"""How long rows are by declaration: never longer in fact, and said where they clip."""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
)

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetExceeded,
    BudgetLedger,
    DeclaredOneHotEncoder,
    DPGridSearchCV,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPQuantileClipper,
    DPRandomizedSearchCV,
    DPSimpleImputer,
    DPStandardScaler,
    RowNormClipper,
    TableEncoder,
    privacy_report,
    set_budget,
)
from skdp.columns import Range
from skdp.exceptions import ClippedRowsWarning
from skdp.pipeline._data_independent import DATA_INDEPENDENT, RowWiseRule
from skdp.pipeline._walk import walk

# Of single precision, in which some steps give their rows.
ROUNDING = 1e-6
LETTERS = [["a", "b", "c"], ["b", "c"]]
PLAIN = {"handle_unknown": "ignore", "sparse_output": False}


def numbers(n=300, seed=0):
    """Three columns of every size; some rows are long in all of them, some null."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-100, 101, (n, 1))
    X[: n // 3] = rng.choice([-1e100, -1.0, 0.0, 1.0, 1e100], (n // 3, 3))
    X[0] = 0.0
    return X


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    letters = np.array(["a", "b", "c", "zz", None, 3], object)
    cells = rng.choice(letters, (n, 2))
    cells[0] = "c"
    return pd.DataFrame(numbers(n, seed), columns=list("xyz")).assign(
        u=cells[:, 0], v=cells[:, 1]
    )


def words(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(["red", "blue"], rng.integers(0, 9))) for _ in range(n)]


def counts(n=50, seed=0):
    return np.random.default_rng(seed).integers(0, 5, (n, 3))


def columns(scaler, encoder, **params):
    parts = [("n", scaler, list("xyz")), ("c", encoder, ["u", "v"])]
    return ColumnTransformer(parts, sparse_threshold=0, **params)


def both(*steps, **params):
    names = [(f"s{i}", step) for i, step in enumerate(steps)]
    return FeatureUnion(names, **params)


def scaler():
    return BoundedScaler((-1, 1))


def encoder(**params):
    return DeclaredOneHotEncoder(LETTERS, **params)


# Steps and pipelines, their rows, and the norm before and after the fit.
CASES = [
    (scaler(), numbers, 1.0, 1.0),
    (RowNormClipper(2.5), numbers, 2.5, 2.5),
    (encoder(), lambda: table()[["u", "v"]], 2**0.5, 2**0.5),
    (DeclaredOneHotEncoder([1, -1]), numbers, None, 3**0.5),
    (DeclaredOneHotEncoder({c: [0, 1] for c in "xyz"}), None, 3**0.5, 3**0.5),
    (TableEncoder(Range(-1, 1)), numbers, 1.0, 1.0),
    (DPStandardScaler(bounds=(-1, 1)), numbers, 1.0, 1.0),
    (DPStandardScaler(math.inf, bounds=(-1, 1)), numbers, None, None),
    (DPQuantileClipper(bounds=(-1, 1)), numbers, 1.0, 1.0),
    (DPQuantileClipper(bounds=(-1, 1), scale=False), numbers, None, None),
    (DPPCA(n_components=2, data_norm=3.0), numbers, 3.0, 3.0),
    (DPPCA(n_components=2, epsilon=math.inf, data_norm=3.0), counts, None, None),
    (DPSimpleImputer(bounds=(-1, 1)), numbers, None, None),
    (Normalizer(), numbers, 1.0, 1.0),
    (
        OneHotEncoder(categories=LETTERS, **PLAIN),
        lambda: table()[["u", "v"]],
        2**0.5,
        2**0.5,
    ),
    (OneHotEncoder(**PLAIN), counts, None, None),
    (HashingVectorizer(n_features=8), words, 1.0, 1.0),
    (HashingVectorizer(n_features=8, norm=None), words, None, None),
    (TfidfTransformer(use_idf=False), counts, 1.0, 1.0),
    (TfidfTransformer(), counts, None, None),
    (make_pipeline(scaler(), FunctionTransformer()), numbers, 1.0, 1.0),
    (make_pipeline(scaler(), FunctionTransformer(np.sqrt)), None, None, None),
    (make_pipeline(scaler(), RowNormClipper(3.0)), numbers, 1.0, 1.0),
    (make_pipeline(PolynomialFeatures(), RowNormClipper(3.0)), counts, 3.0, 3.0),
    (both(scaler(), "drop", RowNormClipper(2.0)), numbers, 5**0.5, 5**0.5),
    (both(scaler(), PolynomialFeatures()), counts, None, None),
    (
        both(scaler(), scaler(), transformer_weights={"s0": -3.0, "s1": 4}),
        numbers,
        5.0,
        5.0,
    ),
    (make_pipeline(scaler(), both("passthrough", scaler())), None, 2**0.5, 2**0.5),
    (columns(scaler(), encoder()), table, 3**0.5, 3**0.5),
    # A part that gets no columns is not fitted and adds none.
    (columns(scaler(), encoder(), remainder=scaler()), table, 2.0, 3**0.5),
    (
        columns(
            scaler(), "drop", remainder=scaler(), transformer_weights={"remainder": 7}
        ),
        lambda: table().assign(u=0.0, v=0.0, w=1.0),
        50**0.5,
        50**0.5,
    ),
    (columns("passthrough", encoder()), table, None, None),
    (
        make_pipeline(columns(scaler(), encoder()), RowNormClipper(0.5)),
        table,
        0.5,
        0.5,
    ),
    (
        both(make_pipeline(scaler(), DPPCA(n_components=2)), both(scaler())),
        numbers,
        2**0.5,
        2**0.5,
    ),
]


def stated(estimator):
    """The norm of what comes out, by the walk that reports take."""
    leaves = walk(estimator)
    while True:
        try:
            next(leaves)
        except StopIteration as end:
            return end.value


def check_rows(step, X):
    """No row that comes out of a fitted step is longer than it states."""
    norm = stated(step)
    if norm is None:
        return
    rows = step.transform(X)
    rows = rows.toarray() if issparse(rows) else np.asarray(rows)
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    assert np.all(norms <= norm * (1 + ROUNDING))


def fitted(step, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the small data sets here
        return clone(step).fit(X)


@pytest.mark.parametrize(("step", "rows", "before", "after"), CASES)
def test_no_row_is_longer_than_stated(step, rows, before, after):
    expected = pytest.approx(before, rel=1e-12) if before is not None else None
    assert stated(step) == expected
    if rows is None:
        return
    X = rows()
    model = fitted(step, X)
    expected = pytest.approx(after, rel=1e-12) if after is not None else None
    assert stated(model) == expected
    check_rows(model, X)
    check_rows(model, rows())


class Boaster(TransformerMixin, BaseEstimator):
    """Broken twin: states less than what comes out."""

    def fit(self, X, y=None):
        self.is_fitted_ = True
        return self

    def transform(self, X):
        return scaler().fit_transform(X)

    def output_norm(self, input_norm=None):
        return 0.99


def test_a_step_that_states_too_little_is_caught(monkeypatch):
    for step in (Boaster(), both(scaler(), Boaster())):
        with pytest.raises(AssertionError):
            check_rows(fitted(step, numbers()), numbers())
    # Broken twin: the largest of the parts in place of the root of squares.
    walk_module = importlib.import_module("skdp.pipeline._walk")

    def wrong(norm, parts):
        return max(parts)

    broken = replace(walk_module._CONTAINERS[FeatureUnion], out=wrong)
    monkeypatch.setitem(walk_module._CONTAINERS, FeatureUnion, broken)
    model = fitted(both(scaler(), scaler()), numbers())
    with pytest.raises(AssertionError):
        check_rows(model, numbers())


def test_every_class_that_states_a_norm_is_in_the_table():
    own = {
        kind
        for kind in (getattr(skdp, name) for name in skdp.__all__)
        if callable(getattr(kind, "output_norm", None))
    }
    unknown = RowWiseRule("").norm
    ruled = {kind for kind, rule in DATA_INDEPENDENT.items() if rule.norm != unknown}
    tested = {
        type(leaf.step)
        for step, _, before, _ in CASES
        if before is not None
        for leaf in walk(step)
    }
    assert own | ruled <= tested
    assert len(own) == 7


# Reports, budgets and searches --------------------------------------------------


def model(**params):
    return DPLogisticRegression(classes=[0, 1], **params)


def joined(last):
    return make_pipeline(columns(scaler(), encoder()), last)


def told(call):
    """What `call` says of clipped rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    about = [w for w in caught if w.category is ClippedRowsWarning]
    assert all(w.filename == __file__ for w in about)
    return [str(w.message) for w in about]


def check_once(call):
    """One warning, which names the norm to use."""
    texts = told(call)
    assert len(texts) == 1
    assert "data_norm=1.74" in texts[0]
    return texts[0]


LONG = [
    joined(model()),
    joined(DPPCA(n_components=2)),
    make_pipeline(PolynomialFeatures(), RowNormClipper(3**0.5), model(data_norm=1.7)),
    joined(DPGridSearchCV(model(), {"C": [1.0]})),
    DPGridSearchCV(joined(model()), {"dplogisticregression__C": [1.0]}),
    BaggingClassifier(joined(model())),
]
SHORT = [
    joined(model(data_norm=1.74)),
    joined(model(epsilon=math.inf)),
    joined(make_pipeline(RowNormClipper(), model())),
    joined(make_pipeline(PolynomialFeatures(), model())),
    make_pipeline(TableEncoder(Range(0, 1)), model()),
    make_pipeline(
        scaler(), DPStandardScaler(bounds=(-1, 1)), DPPCA(n_components=2), model()
    ),
    make_pipeline(
        both(scaler(), scaler(), transformer_weights={"s0": 0.6, "s1": 0.8}), model()
    ),
    model(),
    joined(model(columns=(0, 1))),  # which takes a table, and no rows
    joined(DPMatrixFactorization()),
]


@pytest.mark.parametrize("pipeline", LONG)
def test_a_report_before_the_fit_names_the_norm_to_use(pipeline):
    reports = []
    check_once(lambda: reports.append(privacy_report(pipeline)))
    (report,) = reports
    assert len(report.clipped_rows) == 1
    noted = [step for step in report.steps if "data_norm=1.74" in step.note]
    assert len(noted) == 1
    for text in (repr(report), report._repr_html_(), report.to_json()):
        assert "use data_norm=1.74" in text
    assert report.to_frame()["note"].str.contains("data_norm=1.74").sum() == 1


@pytest.mark.parametrize("pipeline", SHORT)
def test_a_report_is_silent_where_nothing_is_known_to_clip(pipeline):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = privacy_report(pipeline)
    assert report.clipped_rows == ()
    assert "data_norm=" not in repr(report)


def test_norms_are_shown_for_each_step():
    report = privacy_report(joined(model(data_norm=2.0)))
    norms = {step.name: (step.input_norm, step.output_norm) for step in report.steps}
    assert norms == {
        "columntransformer/n": (None, 1.0),
        "columntransformer/c": (None, 2**0.5),
        "columntransformer/remainder": (None, 0.0),
        "dplogisticregression": (pytest.approx(3**0.5), None),
    }
    for text in (repr(report), report._repr_html_()):
        assert "? to 1.41" in text
        assert "1.73 to ?" in text


def rows_and_labels(n=300):
    X = table(n).assign(x=np.linspace(-1, 1, n))
    return X, (X["x"] > 0).astype(int).to_numpy()


def test_a_report_after_the_fit_goes_by_the_fit():
    pipeline = joined(model()).fit(*rows_and_labels())
    check_once(lambda: privacy_report(pipeline))
    # Parameters for the next fit say nothing of the last one.
    pipeline[-1].set_params(data_norm=2.0)
    check_once(lambda: privacy_report(pipeline))
    assert not told(lambda: privacy_report(clone(pipeline)))
    flat = columns(scaler(), DeclaredOneHotEncoder(["a", "c"]))
    unknown = make_pipeline(flat, model())
    assert not told(lambda: privacy_report(unknown))
    check_once(lambda: privacy_report(unknown.fit(*rows_and_labels())))


def test_a_budget_warns_once():
    pipeline = joined(make_pipeline(SelectFromModel(model()), model()))
    texts = told(lambda: set_budget(pipeline, epsilon=1.0, delta=1e-6))
    assert len(texts) == 1
    assert texts[0].count("use data_norm=1.74") == 2
    check_once(
        lambda: set_budget(joined(model(epsilon=math.inf)), epsilon=1, delta=1e-6)
    )
    for pipeline in (joined(model(data_norm=2.0)), make_pipeline(scaler(), model())):
        assert not told(lambda p=pipeline: set_budget(p, epsilon=1.0, delta=1e-6))


def searching(pipeline, **params):
    grid = {"dplogisticregression__C": [0.1, 1.0, 2.0]}
    return DPRandomizedSearchCV(pipeline, grid, n_iter=2, **params)


def test_a_search_warns_once_before_it_is_paid_for_and_keeps_it(tmp_path):
    X, y = rows_and_labels()
    fits = []
    text = check_once(lambda: fits.append(searching(joined(model())).fit(X, y)))
    assert [text for text in fits[0].privacy_.warnings if "data_norm=1.74" in text]
    check_once(lambda: privacy_report(fits[0]))
    other = X.assign(x=0.5, y=0.0, z=-3.0, u="a", v="nothing declared")
    assert text == check_once(lambda: searching(joined(model())).fit(other, y))
    ledger = BudgetLedger(tmp_path / "l.db", epsilon=0.01, delta=1e-9)

    def refused():
        with pytest.raises(BudgetExceeded):
            searching(joined(model()), ledger=ledger).fit(X, y)

    check_once(refused)
    assert ledger.spends() == []
    only = columns(scaler(), "drop")
    grid = {"steps": [[("c", only), ("m", model())], joined(model()).steps]}
    search = DPGridSearchCV(joined(model(data_norm=2.0)), grid)
    check_once(lambda: search.fit(X, y))  # of any candidate
