"""`describe`: what it says, what it costs, what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import BudgetExceeded, BudgetLedger, describe
from skdp.columns import Boolean, Categories, Dates, Range
from skdp.privacy import PrivacyRecord
from skdp.privacy.release import _door
from tests.spies import SpyNoise

DECLARED = {
    "age": Range(0, 100),
    "pay": Range(0, 1e6, log=True, missing=True),
    "sex": Categories(["f", "m"], missing=True),
    "ok": Boolean(),
    "when": Dates("2020-01-01", "2020-12-31", parts=["month"]),
}
CROSSES = [("sex", "ok"), ("age", "sex")]


def table(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    pay = rng.lognormal(10, 1, n)
    pay[rng.random(n) < 0.1] = np.nan
    days = pd.to_timedelta(rng.integers(0, 300, n), "D")
    return pd.DataFrame(
        {
            "age": rng.normal(40, 12, n),
            "pay": pay,
            "sex": rng.choice(np.array(["f", "m", "?", None], dtype=object), n),
            "ok": rng.random(n) < 0.3,
            "when": pd.Timestamp("2020-01-01") + days,
        }
    )


def described(epsilon=math.inf, X=None, **params):
    X = table() if X is None else X
    return describe(X, DECLARED, epsilon=epsilon, crosses=CROSSES, **params)


# ------------------------------------------------------------------- without noise


def test_without_noise_it_is_what_pandas_says():
    X, found = table(), described()
    exact = X.describe()
    frame = found.to_frame(errors=False)
    for name, width in (("age", 100 / 64), ("pay", None)):
        row, column = frame.loc[name], X[name].clip(0, 1e6)
        assert row["count"] == column.count()
        assert row["missing"] == column.isna().sum()
        assert row["mean"] == pytest.approx(column.mean(), rel=1e-6)
        assert row["std"] == pytest.approx(column.std(ddof=0), rel=1e-6)
        if width:
            for q in ("25%", "50%", "75%"):
                assert row[q] == pytest.approx(exact.loc[q, name], abs=width)
    # Intervals of logarithms are narrow where values are small.
    assert found.quantile("pay") == pytest.approx(X["pay"].median(), rel=0.25)
    assert abs(frame.loc["when", "mean"] - X["when"].mean()) < pd.Timedelta("1s")
    assert abs(frame.loc["when", "50%"] - X["when"].median()) < pd.Timedelta("6D")
    assert frame.loc["ok", "top"] == "False"


def test_without_noise_counts_and_cross_tables_are_exact():
    X, found = table(), described()
    sex = found.counts("sex")["count"]
    assert sex["f"] == (X["sex"] == "f").sum()
    assert sex["other"] == (X["sex"] == "?").sum()
    assert sex["missing"] == X["sex"].isna().sum()
    cross = found.crosstab("sex", "ok")
    assert cross.loc["m", "True"] == ((X["sex"] == "m") & X["ok"]).sum()
    assert found.crosstab("ok", "sex").equals(cross.T)
    ages = found.crosstab("age", "sex")
    assert len(ages) == 8
    expected = X["age"].clip(0, 100).between(0, 12.5, inclusive="left").sum()
    assert ages.iloc[0].sum() == expected
    assert ages.index[0] == "0 to 12.5"
    months = found.counts("when_month")["count"]
    assert months.iloc[0] == (X["when"].dt.month == 1).sum()


# ---------------------------------------------------------------------- with noise


def test_released_counts_are_consistent():
    found = described(0.1)
    for histogram in found.histograms.values():
        assert histogram.counts.min() >= 0
        assert histogram.counts.sum() == pytest.approx(5000)
    for cross in found.crosses.values():
        assert cross.counts.min() >= 0
        assert cross.counts.sum() == pytest.approx(5000)


def test_stated_errors_are_those_of_repeated_releases():
    # False alarm below 1e-6: 160 runs, the deviation of a deviation is 6 %, and that of
    # a mean is .08 of the stated error.
    X = table(1000)
    runs = [described(4.0, X) for _ in range(160)]
    exact = described(X=X)
    for name in ("age", "pay"):
        for field in ("mean", "std"):
            found = [getattr(run.means[name], field) for run in runs]
            # Of one run the stated error is itself noisy, since it follows from that.
            told = [getattr(run.means[name], f"{field}_error") for run in runs]
            stated = float(np.median(told))
            if name == "age":  # of pay, near 0 by its range, the errors are rough
                truth = getattr(exact.means[name], field)
                assert np.std(found) == pytest.approx(stated, rel=0.45)
                assert abs(np.mean(found) - truth) < 0.5 * stated
            else:
                assert np.std(found) < 2 * stated
    medians = [run.histograms["age"].quantile(0.5) for run in runs]
    values, errors = zip(*medians, strict=True)
    assert np.std(values) < 2 * np.mean(errors)


def test_error_of_counts_is_that_of_the_noise(monkeypatch):
    noise = SpyNoise(seed=0)
    monkeypatch.setattr(_door, "NoiseSource", lambda seed: noise)
    found = described(1.0)
    (draw,) = noise.draws
    # Weight of the first histogram: the error is the noise over the weight.
    assert draw.sensitivity == pytest.approx(1.0, rel=1e-6)
    shares = 5 + len(CROSSES)
    weight = math.sqrt(1 / 2 / shares) / math.sqrt(2)
    assert found.histograms["age"].error == pytest.approx(draw.sigma / weight, rel=1e-6)
    heavy = described(1.0, weights={("sex", "ok"): 8.0}).crosses["sex", "ok"]
    less = math.sqrt((shares + 7) / shares / 8)
    assert heavy.error == pytest.approx(found.crosses["sex", "ok"].error * less)


@pytest.mark.parametrize(
    ("adjacency", "delta"), [("replace_one", 1e-6), ("zero_out", 0.0)]
)
def test_record(adjacency, delta):
    record = described(1.0, adjacency=adjacency, delta=delta).privacy_
    assert record.is_private
    assert (record.epsilon, record.delta) == (1.0, delta)
    assert record.adjacency == adjacency
    assert record.sensitivity == pytest.approx(1.0)
    assert record.event.count == 1 if delta else record.event.pure_epsilon <= 1
    assert PrivacyRecord.from_dict(record.to_dict()) == record


# ---------------------------------------------------------------------------- books


def test_one_event_is_charged_before_anything_is_asked(tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    described(0.9, ledger=ledger)
    assert len(ledger.spends()) == 1
    with pytest.raises(BudgetExceeded):
        described(0.9, ledger=ledger)
    assert len(ledger.spends()) == 1


BAD = [
    ({"columns": None}, "must declare the columns"),
    ({"n_bins": 1}, "n_bins"),
    ({"n_bins": 255}, "n_bins"),
    ({"cross_bins": 65}, "cross_bins"),
    ({"crosses": [("age", "nobody")]}, "crosses"),
    ({"crosses": [("age", "age")]}, "crosses"),
    ({"crosses": [("age", "sex"), ("sex", "age")]}, "crosses"),
    ({"crosses": "age"}, "crosses"),
    ({"weights": {"nobody": 1.0}}, "weights"),
    ({"weights": {"age": 0.0}}, "weights"),
    ({"weights": {("age", "sex"): 1.0}}, "weights"),
    ({"epsilon": 0.0}, "epsilon"),
    ({"adjacency": "user"}, "adjacency"),
    ({"columns": {"age": (0, 100)}}, "must be declared"),
]


def test_bad_input_spends_nothing(tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    for params, words in BAD:
        given = {"columns": DECLARED, "ledger": ledger} | params
        with pytest.raises((ValueError, TypeError), match=words):
            describe(table(50), **given)
    assert not len(ledger.spends())
    columns = {"when_month": Range(0, 20), "when": DECLARED["when"]}
    with pytest.raises(ValueError, match=r"different names\. Got \['when_month'\]"):
        describe(table(50)[["when"]].assign(when_month=1.0), columns, ledger=ledger)
    holes = table(50).assign(age=np.nan)
    with pytest.raises(ValueError, match="'age' must have no missing values"):
        described(1.0, holes, ledger=ledger)
    assert not len(ledger.spends())


def test_questions_about_what_was_not_released():
    found = described(1.0)
    with pytest.raises(ValueError, match="no order"):
        found.quantile("sex")
    with pytest.raises(ValueError, match="must be one of"):
        found.counts("nobody")
    with pytest.raises(ValueError, match="declared as a pair"):
        found.crosstab("age", "ok")
    with pytest.raises(ValueError, match="'q'"):
        found.quantile("age", 1.5)


# ----------------------------------------------------------------------- the object


def test_shown():
    found = described(1.0)
    assert "5000 records, described privately" in repr(found)
    page = found._repr_html_()
    assert "sex by ok" in page
    assert "private" in page
    frame = found.to_frame((0.1, 0.9))
    assert {"10%", "90%", "10%_error", "top", "freq_error"} <= set(frame)
    again = pickle.loads(pickle.dumps(found))
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())


def test_names_are_escaped_and_far_more_noise_is_shown_too():
    found = described(1e-6, table(20))
    for part in (repr, lambda x: x._repr_html_()):
        assert "privat" in part(found)
    X = pd.DataFrame({"<b>": ["x"] * 50, "c": ["x"] * 50})
    found = describe(X, {"<b>": ["x"], "c": ["x"]}, crosses=[("<b>", "c")])
    assert "<b> by c" not in found._repr_html_()


# ---------------------------------------------------------------------------- sources


def test_far_fewer_rows_than_declared_do_not_move_means(tmp_path):
    pytest.importorskip("pyarrow")
    X = pd.DataFrame({"x": np.full(4000, 9.0), "s": "a"})
    X.loc[:1999, "x"] = np.nan
    X.to_parquet(tmp_path / "x.parquet")
    source = skdp.ParquetSource(
        tmp_path / "x.parquet",
        target=None,
        n_samples=4000,
        columns={"x": (0, 10), "s": ["a"]},
    )
    found = describe(source, epsilon=10.0)
    mean, counts = found.means["x"], found.histograms["s"].counts
    # Half the records are in no cell; taken for n they would bring the mean to 7.
    assert abs(mean.mean - 9) < max(8 * mean.mean_error, 0.1)
    assert abs(counts.sum() - 2000) < 100


# -------------------------------------------------------------------------------- users


def of_users(epsilon=1e6, groups=None, n=600, **params):
    X, ids = table(n), np.arange(n) // 3 if groups is None else groups
    return described(epsilon, X, privacy_unit="user", groups=ids, **params)


def test_a_user_of_many_rows_weighs_no_more_than_one_of_few():
    X = pd.DataFrame({"v": np.r_[np.zeros(90), np.ones(910)]})
    ids = np.r_[np.arange(90), np.repeat(np.arange(90, 100), 91)]
    found = describe(X, Range(0, 1), epsilon=1e6, privacy_unit="user", groups=ids)
    assert found.means["v"].mean == pytest.approx(0.1, abs=1e-3)
    assert found.quantile("v", 0.5) < 0.1
    assert found.n_samples == 100
    counts = found.counts("v")["count"]
    assert counts.sum() == pytest.approx(100, abs=0.1)
    assert counts.iloc[-1] == pytest.approx(10, abs=0.1)
    assert "100 users" in repr(found)


def test_users_of_one_row_are_described_as_records():
    one = of_users(1e6, np.arange(600), random_state=0)
    other = described(1e6, table(600), random_state=0)
    assert one.to_frame().select_dtypes("number").to_numpy() == pytest.approx(
        other.to_frame().select_dtypes("number").to_numpy(), abs=0.05, nan_ok=True
    )


def test_users_are_in_a_ledger_of_users(tmp_path):
    books = BudgetLedger(
        tmp_path / "users.db",
        epsilon=2.0,
        delta=1e-5,
        adjacency="replace_user",
        unit="user",
    )
    found = of_users(1.0, ledger=books)
    record = found.privacy_
    assert (record.unit, record.adjacency, record.n_samples) == (
        "user",
        "replace_user",
        200,
    )
    assert "number of records" not in record.assumed_public
    assert len(books.spends()) == 1
    with pytest.raises(ValueError, match=r"unit must be .record."):
        described(0.5, ledger=books)
    for bad, error, words in (
        ({"groups": np.arange(7)}, ValueError, "groups"),
        ({"groups": np.linspace(0, 1, 600)}, TypeError, "all integers or all strings"),
    ):
        with pytest.raises(error, match=words):
            of_users(**{"epsilon": 0.5} | bad, ledger=books)
    with pytest.raises(ValueError, match="must be finite"):
        of_users(math.inf)
    with pytest.raises(ValueError, match=r"describe\(X, columns, privacy_unit='user'"):
        described(0.5, privacy_unit="user", ledger=books)
    with pytest.raises(ValueError, match="privacy_unit='record'"):
        described(0.5, groups=np.arange(5000))
    assert len(books.spends()) == 1


def test_a_picture_has_a_panel_for_each_column_and_shows_its_counts():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = described(1.0)
    display = found.plot(["sex", "age"])
    assert [ax.get_title() for ax in display.axes_] == ["sex", "age"]
    bars = [bar.get_width() for bar in display.axes_[0].patches]
    np.testing.assert_allclose(bars, found.histograms["sex"].counts)
    with pytest.raises(ValueError, match="one axis for each of 2"):
        found.plot(["age", "sex"], ax=display.axes_[:1])
    pyplot.close("all")


def spikes(declared, **given):
    """Largest count over the smallest, of ages that are equally frequent."""
    ages = pd.DataFrame({"age": np.tile(np.arange(17, 91), 100)})
    found = describe(ages, {"age": declared}, epsilon=math.inf, **given)
    counts = found.histograms["age"].counts
    return counts.max() / counts.min()


def test_whole_numbers_have_a_bar_each_or_as_many():
    assert spikes(Range(17, 90, whole=True)) == 1
    assert spikes(Range(17, 90, whole=True), n_bins=37) == 1
    # The twin does not know that ages are whole.
    assert spikes(Range(17, 90)) == 2
    ages = pd.DataFrame({"age": [17, 18, 18, 90], "kind": [1, 1, 2, 2]})
    columns = {"age": Range(17, 90, whole=True), "kind": Range(1, 2, whole=True)}
    given = {"epsilon": math.inf, "crosses": [("age", "kind")], "cross_bins": 8}
    found = describe(ages, columns, **given)
    counts = found.counts("age")
    assert list(counts.index[:2]) == ["17", "18"]
    assert list(counts["count"][:2]) == [1, 2]
    crossed = found.crosstab("age", "kind")
    assert list(crossed.index[:2]) == ["17 to 26", "27 to 36"]
    assert list(crossed.columns) == ["1", "2"]
    assert crossed.iloc[0].tolist() == [2, 1]
