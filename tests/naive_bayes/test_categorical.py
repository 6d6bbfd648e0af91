"""`DPCategoricalNB`: what it learns, what it costs, whose rows count."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import CategoricalNB

import skdp
from skdp import BudgetLedger, DPCategoricalNB
from skdp.columns import Range
from skdp.naive_bayes._categorical import log_shares
from skdp.sums._counts import CodeCounts
from skdp.tables._memory import MemorySource

COLUMNS = {"age": Range(0, 100, missing=True), "job": ["a", "b", "c"]}
LABELS = {"classes": ["no", "yes"]}


def table(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    is_yes = rng.random(n) < 0.3
    X = pd.DataFrame({"age": np.clip(rng.normal(40 + 25 * is_yes, 10), 0, 100)})
    X.loc[rng.random(n) < 0.05, "age"] = np.nan
    X["job"] = np.where(rng.random(n) < 0.2 + 0.5 * is_yes, "a", "b")
    return X, np.where(is_yes, "yes", "no")


def fitted(epsilon=1.0, n=4000, **params):
    X, y = table(n)
    return DPCategoricalNB(epsilon, columns=COLUMNS, **LABELS, **params).fit(X, y)


def test_without_noise_it_is_categorical_naive_bayes():
    X, y = table()
    model = fitted(math.inf)
    codes = np.column_stack(
        [
            np.where(X["age"].isna(), 16, np.minimum(X["age"] // 6.25, 15)),
            X["job"].map({"a": 0, "b": 1, "c": 2}),
        ]
    ).astype(int)
    plain = CategoricalNB(min_categories=[17, 4]).fit(codes, y)
    assert model.bins_.n_bins == (17, 4)
    assert model.class_count_ == pytest.approx(plain.class_count_)
    # Its smoothing adds evenly, and this one by the shares among all records.
    each = model.feature_log_prob_, plain.feature_log_prob_, plain.category_count_
    for mine, theirs, counts in zip(*each, strict=True):
        assert np.exp(mine).sum(axis=1) == pytest.approx(1)
        assert mine[counts > 40] == pytest.approx(theirs[counts > 40], abs=0.07)
    assert (model.predict(X) == plain.predict(codes)).mean() > 0.99
    same = model.predict_proba(X), plain.predict_proba(codes)
    assert np.abs(same[0] - same[1]).mean() < 0.01


def test_methods_agree():
    X, _ = table(300)
    model = fitted()
    proba = model.predict_proba(X)
    odds = np.log(proba[:, 1] / proba[:, 0])
    assert model.decision_function(X) == pytest.approx(odds)
    assert model.predict_log_proba(X) == pytest.approx(np.log(proba))
    assert (model.predict(X) == model.classes_[(odds > 0) * 1]).all()


def test_noise_hides_what_columns_say_and_no_more():
    X, y = table()
    # Of 4,000 records at epsilon 1 an exact model has .899.
    assert fitted(1.0).score(X, y) > 0.87
    # Far below the noise a column says nothing: 60 records at epsilon 0.01.
    model = fitted(0.01, n=60)
    for shares in model.feature_log_prob_:
        assert np.abs(np.diff(shares, axis=0)).max() < 1.5


def test_a_code_says_less_the_more_noise_there_is():
    counts, of_label = np.array([[40.0, 60.0], [10.0, 90.0]]), np.array([100.0, 100.0])
    said = [np.diff(log_shares(counts, of_label, s)[:, 0])[0] for s in (0, 5, 50)]
    assert said[0] < said[1] < said[2] < 0
    assert said[0] == pytest.approx(math.log(10 / 40), abs=0.1)
    assert abs(said[2]) < 0.2
    for noisy in (-counts, 0 * counts):
        assert np.isfinite(log_shares(noisy, np.zeros(2), 5.0)).all()


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_record_and_ledger(adjacency, delta, tmp_path):
    books = BudgetLedger(
        tmp_path / "x.db", epsilon=1.0, delta=1e-5, adjacency=adjacency
    )
    model = fitted(0.5, adjacency=adjacency, delta=delta, ledger=books)
    record, n_moved = model.privacy_, {"replace_one": 4, "zero_out": 2}[adjacency]
    assert record.is_private
    assert record.sensitivity == pytest.approx(math.sqrt(n_moved) if delta else n_moved)
    assert record.solver == ("gaussian" if delta else "laplace")
    assert "set of labels (declared)" in record.assumed_public
    assert len(books.spends()) == 1
    X, y = table(50)
    for params, words in [
        ({"columns": None}, "must declare the columns"),
        ({"n_bins": 1}, "n_bins"),
        ({"classes": ["no", "maybe"]}, "must be among those declared"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.set_params(**params).fit(X, y)
        model.set_params(columns=COLUMNS, n_bins=16, **LABELS)
    assert len(books.spends()) == 1


def counted(query, codes, y):
    source = MemorySource(codes, y.astype(float))
    return query.total(query.open(source), None).reshape(-1)


def test_no_neighbour_is_farther_than_the_bound_and_a_twin_is():
    every = np.array([(a, b) for a in range(3) for b in range(2)], dtype=np.uint8)
    for norm in (1, 2):
        query = CodeCounts((0, 1), ((0, 1, 2), (0, 1)), norm, 3)
        each = np.array(
            [
                counted(query, row[None], np.array([label]))
                for row in every
                for label in range(3)
            ]
        )
        apart = np.linalg.norm(each[:, None] - each[None], norm, axis=2).max()
        assert apart == pytest.approx(query.bound().replace_one)
        assert np.linalg.norm(each, norm, axis=1).max() == pytest.approx(
            query.bound().zero_out
        )
        assert len({tuple(row) for row in each}) == 18  # no two add the same
        # Twin: a bound as if the label alone could change.
        assert apart > 1.4 * CodeCounts((0,), ((0, 1, 2),), norm, 3).bound().zero_out


def test_a_user_of_many_rows_weighs_no_more_than_one_of_few():
    y = np.r_[np.zeros(300), np.ones(3000)].astype(int)
    X, ids = np.zeros((3300, 1)), np.r_[np.arange(300), np.full(3000, 300)]
    given = {"columns": Range(-1, 1), "classes": [0, 1], "privacy_unit": "user"}
    model = DPCategoricalNB(50.0, **given).fit(X, y, groups=ids)
    assert model.class_count_ == pytest.approx([300, 1], abs=5)
    assert model.privacy_.n_samples == 301


def test_a_source_without_some_of_its_rows_has_the_shares_of_the_others(tmp_path):
    pytest.importorskip("pyarrow")
    X, y = table()
    frame = X.assign(y=y)
    frame.loc[frame.index % 2 == 0, "y"] = None  # no label: a null record
    frame.to_parquet(tmp_path / "x.parquet")
    source = skdp.ParquetSource(tmp_path / "x.parquet", target="y", n_samples=4000)
    model = DPCategoricalNB(20.0, columns=COLUMNS, **LABELS).fit(source)
    assert model.class_count_.sum() == pytest.approx(2000, abs=50)
    assert np.exp(model.class_log_prior_[1]) == pytest.approx(0.3, abs=0.05)
    assert model.score(X, y) > 0.88
