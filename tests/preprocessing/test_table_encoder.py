"""TableEncoder: norms, missing and unknown cells, frames of every kind, refusals."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.pipeline import make_pipeline

from skdp import (
    DPLogisticRegression,
    TableEncoder,
)
from skdp.columns import Categories, Dates, Range, as_declared
from skdp.preprocessing import _blocks, _encoder
from skdp.preprocessing._cells import read_cells
from skdp.preprocessing._encoder import default_knots, planned
from skdp.privacy import BudgetLedger
from tests.preprocessing.tables import DECLARED, FORMS, REFUSED, frame

WAYS = ["linear", "bins", "hats"]


def norms_by_block(encoder, rows):
    """Norm of each block in each row, in exact units: rows times sqrt(g)."""
    rows = rows.toarray() if issparse(rows) else np.asarray(rows)
    g = len(encoder.blocks_)
    squares = [(rows[:, at] ** 2).sum(axis=1) for at in encoder.blocks_.values()]
    return np.sqrt(np.array(squares) * g)


# ------------------------------------------------------------------------------ norms

TINY = 5e-324
EDGES = [0.0, -0.0, TINY, -TINY, 1e-310, 1.0, -1.0, 0.1, math.inf, -math.inf, 1e308]
RANGES = [
    Range(-1, 1),
    Range(0, 1e-322),
    Range(-1.7e308, 1.7e308),
    Range(1, 1 + 2**-50),
    Range(0, 1e308, log=True),
    Range(TINY, 1e308, log=True),
    Range(0.1, 0.3, missing=True),
    Range(-1, 1, heaps=[-1, -0.0, 0.1]),
    Range(-1.7e308, 1.7e308, heaps=[-1.7e308, TINY, 1e308]),
    Range(0, 1e-322, heaps=[0, TINY, 1e-322]),
    Range(0, 1e308, log=True, heaps=[0, 1, 1e308]),
]


def values_for(declared, seed):
    """Edges, values around knots, and random ones."""
    rng = np.random.default_rng(seed)
    low, high = declared.low, declared.high
    shares = np.arange(65) / 64
    knots = low * (1 - shares) + high * shares
    near = np.concatenate(
        [np.nextafter(knots, -math.inf), np.nextafter(knots, math.inf)]
    )
    spread = low + rng.random(500) * min(high - low, 1e308)
    return np.concatenate([EDGES, [low, high], knots, near, spread])


@pytest.mark.parametrize(
    ("numeric", "n_knots"), [("linear", 2), ("bins", 62), ("hats", 4), ("hats", 33)]
)
@pytest.mark.parametrize("declared", RANGES, ids=repr)
def test_every_block_of_numbers_has_norm_at_most_one(numeric, n_knots, declared):
    values = values_for(declared, n_knots)
    if declared.missing:
        values = np.append(values, np.nan)
    with np.errstate(all="ignore"):
        tables = [values[:, None], values.astype(np.float32)[:, None]]
    for X in tables:
        encoder = TableEncoder(declared, numeric=numeric, n_knots=n_knots)
        rows = encoder.fit_transform(X)
        assert np.isfinite(rows).all()
        assert (norms_by_block(encoder, rows) <= 1).all()
        assert (np.linalg.norm(rows, axis=1) <= 1).all()
        assert np.linalg.norm(rows, axis=1).max() > 1 - 1e-11


def blocks_of(declared, numeric, n_knots):
    return planned(("a",), (declared,), numeric, n_knots).blocks


EACH = [*as_declared(DECLARED).values(), Range(-3, 5), Range(0, 5, heaps=[2, 5])]


@pytest.mark.parametrize("numeric", WAYS)
@pytest.mark.parametrize("declared", EACH, ids=repr)
def test_states_have_norm_at_most_one_and_some_have_it(numeric, declared):
    for n_knots in [*range(2, 19), 33, 62, 1025]:
        (block,) = blocks_of(declared, numeric, n_knots)
        norms = np.linalg.norm(block.basis, axis=1)
        assert len(norms) == sum(block.parts)
        assert norms.max() <= 1 + 1e-12
        if getattr(declared, "missing", False):
            assert norms[-1] == 1
            norms[-1] = 0.0
        parts = np.split(norms, np.cumsum(block.parts)[:-1])
        ends = [part.max() ** 2 for part in parts]
        assert sum(ends) == pytest.approx(1, abs=1e-12)


def are_shares(states, shares, parts):
    """At least 0, and in each part at most 1 in all, up to their last rounding."""
    ends = np.cumsum(parts)
    part = np.searchsorted(ends, states, side="right")
    sums = [np.where(part == i, shares, 0.0).sum(axis=1) for i in range(len(parts))]
    return (shares >= 0).all() and (np.stack(sums) <= 1 + 2**-52).all()


@pytest.mark.parametrize("numeric", WAYS)
@pytest.mark.parametrize("n_knots", [4, 17])
def test_cells_are_shares_of_states(numeric, n_knots):
    X = frame(300)
    for name, declared in as_declared(DECLARED).items():
        (block,) = blocks_of(declared, numeric, n_knots)
        cells = read_cells(X[name], declared, name)
        states, shares = block.shares(cells)
        assert are_shares(states, shares, block.parts)
        assert not are_shares(states, shares * 1.01, block.parts)  # broken twin


def hats_at(position, levels):
    """The proof's block, written out."""
    weights = np.sqrt([4.0, *(2.0 ** -np.arange(1, len(levels) + 1))])
    weights /= np.linalg.norm(weights)
    entries = [weights[0] * position]
    for count, weight in zip(levels, weights[1:], strict=True):
        knots = -1 + 2 * np.arange(count + 1) / count
        hats = 1 - np.abs(position - knots) * count / 2
        entries.extend(weight * np.maximum(hats, 0))
    return entries


def are_hats(block):
    values = np.random.default_rng(0).uniform(-1, 1, 200)
    cells = read_cells(values, Range(-1, 1), "a")
    states, shares = block.shares(cells)
    rows = (shares[:, :, None] * block.basis[states]).sum(axis=1)
    expected = np.array([hats_at(value, block.levels) for value in values])
    return np.allclose(rows, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_knots", [2, 3, 5, 9, 18, 33, 1025])
def test_shares_of_states_are_the_hats(n_knots):
    (block,) = blocks_of(Range(-1, 1), "hats", n_knots)
    count = n_knots - 1
    assert block.levels == tuple(k for k in (count / 4, count / 2, count) if k % 1 == 0)
    assert are_hats(block)


def test_broken_twin_of_unscaled_hats_is_found(monkeypatch):
    monkeypatch.setattr(_blocks.Curve, "weight", 1.0)
    encoder = TableEncoder(Range(-1, 1))
    rows = encoder.fit_transform(np.array([[-1.0], [0.3]]))
    assert (norms_by_block(encoder, rows) > 1).any()


@pytest.mark.parametrize(
    ("numeric", "n_knots", "sparse_output"),
    [("linear", 2, False), ("bins", 17, True), ("hats", 65, False), ("hats", 3, True)],
)
def test_mixed_rows_are_as_long_as_stated(numeric, n_knots, sparse_output, monkeypatch):
    X = frame(500)
    encoder = TableEncoder(
        DECLARED, numeric=numeric, n_knots=n_knots, sparse_output=sparse_output
    ).fit(X)
    rows, encoding = encoder.transform(X), encoder._encoding
    blocks = norms_by_block(encoder, rows)
    assert (blocks <= 1).all()
    assert (np.sqrt((blocks**2).sum(axis=0) / len(blocks)) <= 1).all()
    assert encoder.output_norm_ == 1.0
    stored = np.diff(csr_array(rows).indptr).max()
    assert stored <= encoding.most_entries <= len(encoding.features)
    if numeric == "bins":  # nothing is given away
        is_full = X.notna().all(axis=1) & (X["sex"] != "?") & (X["code"] < 4)
        assert is_full.any()
        assert blocks[:, is_full].min() > 1 - 1e-11
    # Broken twin: blocks side by side, not divided by the root of their number.
    monkeypatch.setattr(_encoder.Encoding, "scale", 1.0)
    assert norms_by_block(encoder, encoder.transform(X)).max() > 2


# -------------------------------------------------------------------- each row alone


def test_each_row_is_encoded_on_its_own():
    X = frame(80)
    encoder = TableEncoder(DECLARED).fit(X)
    whole = encoder.transform(X)
    for i in range(0, 80, 7):
        assert np.array_equal(encoder.transform(X.iloc[[i]])[0], whole[i])
    sparse = TableEncoder(DECLARED, sparse_output=True).fit_transform(X)
    assert np.array_equal(sparse.toarray(), whole)
    assert sparse.has_canonical_format


def test_the_null_of_a_missing_value_is_a_state_of_its_own():
    X = pd.DataFrame({"age": [17.0, np.nan], "n": [1.0, 1.0]})
    encoder = TableEncoder({"age": Range(17, 90, missing=True), "n": (0, 1)})
    rows = encoder.fit_transform(X)[:, encoder.blocks_["age"]] * math.sqrt(2)
    assert rows[0, -1] == 0
    assert rows[1, :-1].tolist() == [0.0] * (rows.shape[1] - 1)
    assert math.isclose(rows[1, -1], 1.0)


def test_logarithms():
    X = np.array([[1.0], [10.0], [100.0], [1e9], [-5.0]])
    rows = TableEncoder([Range(1, 100, log=True)], numeric="linear").fit_transform(X)
    assert np.allclose(rows.ravel(), [-1, 0, 1, 1, -1])
    rows = TableEncoder([Range(0, 99, log=True)], numeric="linear").fit_transform(X)
    expected = 2 * np.log1p(np.clip(X, 0, 99)) / np.log(100) - 1
    assert np.allclose(rows, expected)


def test_parts_of_dates():
    days = pd.date_range("2023-12-25 13:00", periods=400, freq="31h")
    X = pd.DataFrame({"at": days})
    parts = ["month", "weekday", "day", "hour"]
    declared = {"at": Dates("2023-01-01", "2024-06-01", parts)}
    encoder = TableEncoder(declared, numeric="linear").set_output(transform="pandas")
    rows = encoder.fit_transform(X)
    for part, values in {
        "month": days.month,
        "weekday": days.day_of_week + 1,
        "day": days.day,
        "hour": days.hour,
    }.items():
        for value in set(values):
            hot = rows[f"at_{part}_{value}"] > 0
            assert (hot == (values == value)).all()


@pytest.mark.parametrize("width", [32, 64])
def test_days_of_arrow_may_be_beyond_pythons_calendar(width):
    dtype = pa.date32() if width == 32 else pa.date64()
    a_day = 1 if width == 32 else 86_400_000
    far = (2 ** (width - 1) - 1) // a_day * a_day
    counts = pa.array([18_262 * a_day, far, -far, None], f"int{width}").view(dtype)
    cells = read_cells(
        counts.to_pandas(types_mapper=pd.ArrowDtype),
        Dates("2019-01-01", "2021-01-01", missing=True),
        "at",
    )
    assert list(cells.is_missing) == [False, False, False, True]
    days = cells.values.astype("datetime64[D]").astype(str)
    assert list(days[:3]) == ["2020-01-01", "9999-12-31", "0001-01-01"]


# ------------------------------------------------------------------ the same table in


def expected_rows(X):
    return TableEncoder(DECLARED).fit_transform(X)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_table_in_another_form(form):
    X = frame()
    assert np.array_equal(expected_rows(form(X)), expected_rows(X))
    encoder = TableEncoder(DECLARED).fit(X)
    assert np.array_equal(encoder.transform(form(X)), expected_rows(X))
    turned = X[X.columns[::-1]]
    assert np.array_equal(encoder.transform(turned), expected_rows(X))


def test_an_array_by_position_is_the_frame_by_name():
    X = frame()[["age", "gain", "code"]]
    by_name = TableEncoder({name: DECLARED[name] for name in X})
    by_position = TableEncoder([DECLARED[name] for name in X])
    rows = by_name.fit_transform(X)
    assert np.array_equal(by_position.fit_transform(X.to_numpy()), rows)
    assert np.array_equal(by_position.fit_transform(X.to_numpy().tolist()), rows)
    objects = frame()
    everything = TableEncoder(list(DECLARED.values()))
    assert np.array_equal(
        everything.fit_transform(objects.to_numpy(dtype=object)), expected_rows(objects)
    )


def test_lists_of_mixed_types_and_arrays_of_strings():
    encoder = TableEncoder([(0, 1), ["a", "b"]], numeric="linear")
    assert (encoder.fit_transform([[1, "a"], [0, "c"]]).round(3)).tolist() == [
        [0.707, 0.707, 0.0],
        [-0.707, 0.0, 0.0],
    ]
    letters = TableEncoder([["a", "b"]]).fit_transform(np.array([["b"], ["z"]]))
    assert letters.round(9).tolist() == [[0, 1], [0, 0]]


# -------------------------------------------------------------------------- refusals


def test_a_table_that_is_not_as_declared_is_refused(tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=5.0, delta=1e-5)
    model = DPLogisticRegression(epsilon=1.0, ledger=ledger, classes=[0, 1])
    pipeline, X, y = (
        make_pipeline(TableEncoder(DECLARED), model),
        frame(),
        np.arange(60),
    )
    for change, text in REFUSED:
        with pytest.raises((ValueError, TypeError), match=text) as caught:
            pipeline.fit(change(X), y % 2)
        with pytest.raises((ValueError, TypeError), match=text):
            TableEncoder(DECLARED).fit(X).transform(change(X))
        assert "Female" not in str(caught.value)
    assert not ledger.spends()
    pipeline.fit(X, y % 2)  # the same books do note what is spent
    assert len(ledger.spends()) == 1


def test_unknown_categories_are_zeros_or_refused():
    X = frame()
    rows = TableEncoder(DECLARED).fit_transform(X)
    encoder = TableEncoder(DECLARED).fit(X)
    unknown = (X["sex"] == "?").to_numpy()
    assert unknown.any()
    assert not rows[unknown][:, encoder.blocks_["sex"]].any()
    strict = TableEncoder(DECLARED, handle_unknown="error")
    with pytest.raises(ValueError, match=r"\['sex', 'code'\].*declared categories"):
        strict.fit(X)
    known = X[~unknown & ~(X["code"] == 4)]
    assert strict.fit(known).transform(known).shape[0] == len(known)
    with pytest.raises(ValueError, match="sex"):
        strict.transform(X)


BAD = [
    {"numeric": "splines"},
    {"numeric": {"agee": "bins"}},
    {"numeric": ["bins"]},
    {"n_knots": 1},
    {"n_knots": "many"},
    {"remainder": "passthrough"},
    {"handle_unknown": "other"},
    {"sparse_output": 1},
    {"columns": None},
]


@pytest.mark.parametrize("params", BAD, ids=str)
def test_parameters_are_checked(params):
    (name,) = params
    with pytest.raises((ValueError, TypeError), match=name):
        TableEncoder(**{"columns": DECLARED} | params).fit(frame())


def test_columns_that_do_not_fit_their_declarations_are_refused():
    with pytest.raises(ValueError, match="by name"):
        TableEncoder([(0, 1)]).fit(frame())
    with pytest.raises(ValueError, match="one for each column"):
        TableEncoder([(0, 1)]).fit(np.zeros((3, 2)))
    X = pd.DataFrame({"a": ["missing", None]})
    with pytest.raises(ValueError, match="a_missing"):
        TableEncoder({"a": Categories(["missing"], missing=True)}).fit(X)


# ---------------------------------------------------------------- what comes with it


def test_one_column_may_be_encoded_in_another_way():
    encoder = TableEncoder(
        DECLARED, numeric={"age": "linear", "gain": "bins"}, n_knots=9
    )
    at = encoder.fit(frame()).blocks_
    widths = {name: part.stop - part.start for name, part in at.items()}
    assert widths == {
        "age": 2,
        "gain": 8,
        "sex": 2,
        "code": 4,
        "is_in": 2,
        "day": (1 + 3 + 5 + 9) + 12 + 7 + 1,
    }


def test_names_and_output():
    encoder = TableEncoder(DECLARED, n_knots=5)
    rows = encoder.set_output(transform="pandas").fit_transform(frame())
    assert list(rows.columns) == list(encoder.get_feature_names_out())
    assert len(set(rows.columns)) == rows.shape[1]
    assert {"age_linear", "age_hat4_0", "sex_Male", "code_missing"} < set(rows.columns)
    array = TableEncoder((0, 1), numeric="linear").fit(np.zeros((2, 2)))
    assert list(array.get_feature_names_out()) == ["x0", "x1"]
    assert list(array.get_feature_names_out(["u", "v"])) == ["u", "v"]


def test_knots_follow_from_public_facts():
    assert [default_knots(n, 12) for n in (10, 5_000, 10_000, 32_561, 10**6)] == [
        5,
        9,
        17,
        33,
        65,
    ]
    assert default_knots(32_561, 100) == 17
    X = frame(300)
    changed = frame(300, seed=5)
    assert TableEncoder(DECLARED).fit(X).n_knots_ == 5
    assert (
        TableEncoder(DECLARED).fit(X)._encoding
        == TableEncoder(DECLARED).fit(changed)._encoding
    )


# --------------------------------------------------------------------------- effects


@pytest.mark.parametrize("numeric", WAYS)
def test_effects_add_up_to_the_decision(numeric):
    """At the knots, middles and values of the tables, rows times coef is their sum."""
    X = frame(40)
    encoder = TableEncoder(DECLARED, numeric=numeric, n_knots=6).fit(X)
    width = encoder.transform(X).shape[1]
    coef = np.random.default_rng(1).normal(size=(2, width))
    effects = encoder.effects(coef)
    assert list(effects) == list(DECLARED)
    base = {"age": None, "gain": 0.0, "sex": "?", "code": None, "is_in": None}
    base = pd.DataFrame([base | {"day": None}]).astype({"age": float})
    for name in ("age", "gain", "sex", "code", "is_in"):
        table = effects[name]
        key = "at" if "at" in table else "value" if "value" in table else "from"
        at = encoder.blocks_[name]
        for _, row in table.iterrows():
            value = row[key]
            if key == "from" and value is not None:
                value = math.sqrt((row["from"] + 1) * (row["to"] + 1)) - 1
            probe = base.assign(**{name: [value]})
            if name == "is_in":
                probe[name] = pd.array([value], dtype="boolean")
            encoded = encoder.transform(probe)[:, at] @ coef[:, at].T
            assert np.allclose(encoded, [row["effect_0"], row["effect_1"]]), (
                name,
                value,
            )
    day = effects["day"]
    assert set(day["part"]) == {"time", "month", "weekday", None}
    probe = base.assign(day=[np.datetime64("2020-01-01")])  # a Wednesday
    at = encoder.blocks_["day"]
    if numeric != "bins":
        rows = [day[(day["part"] == "time")].iloc[0]]
        rows += [day[(day["part"] == "month") & (day["at"] == 1)].iloc[0]]
        rows += [day[(day["part"] == "weekday") & (day["at"] == 3)].iloc[0]]
        encoded = encoder.transform(probe)[0, at] @ coef[0, at]
        assert math.isclose(encoded, sum(row["effect_0"] for row in rows))
    assert encoder.effects(coef[0])["sex"].columns.tolist() == ["value", "effect"]
