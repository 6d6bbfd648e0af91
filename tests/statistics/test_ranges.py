"""`propose_ranges`: what it finds, what it costs, what it refuses."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import BudgetExceeded, BudgetLedger, propose_ranges
from skdp.columns import Range
from skdp.privacy.release import _door
from skdp.statistics import _ranges
from skdp.statistics._ranges import _EDGES, _MISSING, _ZERO
from tests.spies import SpyNoise

NAMES = ["age", "gain", "heat", "tiny"]


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(17, 91, n)})
    X["gain"] = np.where(rng.random(n) < 0.7, 0.0, rng.uniform(100, 5000, n))
    X["heat"] = rng.normal(0, 10, n)
    X.loc[rng.random(n) < 0.2, "heat"] = np.nan
    X["tiny"] = -rng.uniform(3e-9, 7e-9, n)
    return X.assign(word="a")


# ------------------------------------------------------------------- without noise


def test_a_range_reaches_from_the_first_power_of_two_to_the_last():
    found = propose_ranges(table(), NAMES, epsilon=math.inf)
    expected = {
        "age": Range(16, 128, missing=True),
        "gain": Range(0, 8192, missing=True),
        "heat": Range(-32, 32, missing=True),
        "tiny": Range(-(2.0**-27), -(2.0**-29), missing=True),
    }
    assert found.columns() == found.ranges == expected
    frame = found.to_frame()
    assert frame.loc["heat", "missing"] == pytest.approx(0.2, abs=0.02)
    assert frame["hidden"].max() < 1e-9
    assert (frame["clipped"] <= 0.01).all()
    counts = found.counts("gain")
    assert counts.loc[counts["from"] == 4096, "count"].item() == np.sum(
        table()["gain"] >= 4096
    )
    assert counts["count"].sum() == 20_000


def test_every_number_has_one_bin_at_its_power_of_two():
    ends = np.array([2.0**63, 2.0**64, 1e300, math.inf])
    values = np.concatenate([ends, -ends, _EDGES, [0.0, -0.0, 5e-324, 1e-30, math.nan]])
    released = propose_ranges(values[:, None], epsilon=math.inf).released["x0"]
    assert released.sum() == len(values)
    assert released[0] == 3 + 1  # of the ends, and of the edges
    assert released[_MISSING - 1] == 4 + 2
    assert released[_ZERO] == 4 + 1
    assert released[_MISSING] == 1
    whole = np.array([[2**53 + 1], [-3], [8]])
    found = propose_ranges(whole, epsilon=math.inf, trim=0.0)
    assert found.columns() == (Range(-4, 2**54, missing=True),)


def test_trim_cuts_no_more_than_its_fraction_off_each_end():
    X = pd.DataFrame({"x": np.r_[np.full(30, 1e-6), np.full(940, 5), np.full(30, 1e9)]})
    for trim, low, high in [(0.0, 2**-20, 2**30), (0.02, 2**-20, 2**30), (0.03, 4, 8)]:
        (each,) = propose_ranges(X, epsilon=math.inf, trim=trim).columns().values()
        assert (each.low, each.high) == (low, high)
    assert propose_ranges(X, epsilon=math.inf, trim=0.03).to_frame().loc[
        "x", "clipped"
    ] == pytest.approx(0.06)


# ---------------------------------------------------------------------- with noise


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_bulk_is_inside_and_noise_alone_is_nothing(delta):
    # False alarm below 1e-7: an empty bin in a table's range has 2 % in each of few
    # places beside it, and 0.001 elsewhere; 20 of 40 tables are never so.
    X, n_exact = table()[["age", "heat"]], 0
    for _ in range(40):
        found = propose_ranges(X, epsilon=1.0, delta=delta)
        age, heat = found.columns().values()
        assert age.low <= 32
        assert age.high >= 64
        assert heat.low <= -16
        assert heat.high >= 16
        n_exact += age == Range(16, 128, missing=True)
    assert n_exact > 20
    alone = [
        propose_ranges(X.head(2), epsilon=0.01, delta=delta).ranges for _ in range(40)
    ]
    assert sum(each != {"age": None, "heat": None} for each in alone) < 5


def test_the_threshold_is_the_quantile_of_the_noise_in_all_bins():
    # Each of 400 releases of 254 empty bins is above with a chance of 0.001 * 100: of
    # 400, 90 or more with a chance below 1e-13, and 10 or fewer below 1e-7.
    X, n_above = np.full((2, 1), np.nan), {1e-6: 0, 0.0: 0}
    for delta in n_above:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_ranges, "_FALSE_ALARM", 0.1)
            for _ in range(400):
                found = propose_ranges(X, epsilon=1e-3, delta=delta)
                n_above[delta] += found.released["x0"].max() > found.threshold
        assert 10 < n_above[delta] < 90


def test_a_bin_beside_a_found_one_needs_two_deviations_and_zero_has_no_neighbour():
    found = propose_ranges(table(), ["age"], epsilon=1.0)
    counts = np.zeros(254)
    place = np.searchsorted(_EDGES, 64)
    counts[place] = 10 * found.threshold
    counts[[place + 1, place + 2, place - 2]] = 3 * found.deviation
    counts[_ZERO] = 10 * found.threshold
    counts[_ZERO + 1] = 3 * found.deviation
    is_found = found._is_found(counts)
    assert is_found.nonzero()[0].tolist() == [_ZERO, place, place + 1, place + 2]


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_columns_of_zeros_or_noise_have_no_range_and_say_so():
    X = pd.DataFrame({"none": np.zeros(5000), "some": np.full(5000, 3.0)})
    # One release in 1,000 takes noise for records.
    found = propose_ranges(X, epsilon=1.0, random_state=0)
    assert found.ranges["none"] is None
    assert found.ranges["some"].low <= 2  # an end may be one power of two too far
    with pytest.raises(ValueError, match=r"Got none for \['none'\]"):
        found.columns()
    assert "nothing but zeros found" in repr(found)
    hidden = propose_ranges(X.head(3), epsilon=0.01)
    assert "nothing but noise found" in repr(hidden)


# ---------------------------------------------------------------------- books and law


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_record(adjacency, delta):
    X = table()[NAMES]
    found = propose_ranges(X, epsilon=0.3, delta=delta, adjacency=adjacency)
    record, n_moved = found.privacy_, {"replace_one": 8, "zero_out": 4}[adjacency]
    assert record.is_private
    assert (record.epsilon, record.delta, record.adjacency) == (0.3, delta, adjacency)
    assert record.sensitivity == pytest.approx(math.sqrt(n_moved) if delta else n_moved)
    assert record.solver == ("gaussian" if delta else "laplace")
    assert record.noise_scale == pytest.approx(found.deviation)


def test_one_event_is_charged_and_bad_input_spends_nothing(tmp_path):
    ledger = BudgetLedger(tmp_path / "x.db", epsilon=1.0, delta=1e-5)
    X, frame = table(50)[NAMES], table(50)
    for bad, words in [
        ((X, []), "list of distinct names"),
        ((X, ["age", "age"]), "list of distinct names"),
        ((X, "age"), "list of distinct names"),
        ((X, ["nobody"]), "nobody"),
        ((frame,), "'word' must hold numbers"),
        ((X.to_numpy(), ["age"]), "must be a data frame"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words):
            propose_ranges(*bad, ledger=ledger)
    for params, words in [({"trim": 0.3}, "trim"), ({"epsilon": 0.0}, "epsilon")]:
        with pytest.raises(ValueError, match=words):
            propose_ranges(X, ledger=ledger, **params)
    assert not ledger.spends()
    propose_ranges(X, epsilon=0.9, ledger=ledger)
    (spend,) = ledger.spends()
    assert spend.label == "propose_ranges"
    with pytest.raises(BudgetExceeded):
        propose_ranges(X, epsilon=0.9, ledger=ledger)


def test_all_columns_are_one_draw_with_the_joint_bound(monkeypatch):
    noise = SpyNoise(seed=0)
    monkeypatch.setattr(_door, "NoiseSource", lambda seed: noise)
    propose_ranges(table()[NAMES])
    (draw,) = noise.draws
    assert draw.sensitivity == pytest.approx(math.sqrt(8), rel=1e-6)


# ------------------------------------------------------------- users, sources, object


@pytest.mark.filterwarnings("ignore::skdp.exceptions.SeededNoiseWarning")
def test_a_user_of_many_rows_counts_once():
    X = np.r_[np.full(500, 3.0), np.full(5000, 1e6)][:, None]
    ids = np.r_[np.arange(500), np.full(5000, 500)]
    given = {"epsilon": 100.0, "privacy_unit": "user", "groups": ids}
    # 254 noisy counts are 10 off in 5 of a million releases.
    found = propose_ranges(X, **given, random_state=0)
    (each,) = found.columns()
    assert each.low <= 2
    assert 4 <= each.high < 1e5
    assert found.n_samples == 501
    assert "501 users" in repr(found)
    assert found.released["x0"].sum() == pytest.approx(501, abs=10)
    with pytest.raises(ValueError, match="must be finite"):
        propose_ranges(X, **{**given, "epsilon": math.inf})
    with pytest.raises(ValueError, match="propose_ranges"):
        propose_ranges(X, privacy_unit="user")


def test_a_source_proposes_by_name_and_models_take_what_is_confirmed(tmp_path):
    pytest.importorskip("pyarrow")
    frame = table().assign(y=lambda X: (X["age"] > 50) * 1)
    frame.to_parquet(tmp_path / "x.parquet")
    source = skdp.ParquetSource(tmp_path / "x.parquet", target="y", n_samples=20_000)
    found = propose_ranges(source, ["age", "heat"], epsilon=4.0)
    assert list(found.columns()) == ["age", "heat"]
    model = skdp.DPLogisticRegression(columns=found.columns(), classes=[0, 1])
    X = frame[["age", "heat"]]
    assert model.fit(X, frame["y"]).score(X, frame["y"]) > 0.9
    # Proposals themselves are no declarations.
    with pytest.raises(ValueError, match="columns"):
        model.set_params(columns=found).fit(X, frame["y"])


def test_shown_and_stored():
    found = propose_ranges(table(), NAMES)
    assert "Confirm each" in repr(found)
    assert "age" in found._repr_html_()
    told = json.loads(found.to_json())
    assert set(told["columns"]) == set(NAMES)
    again = pickle.loads(pickle.dumps(found))
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
    with pytest.raises(ValueError, match="must be one of"):
        found.counts("nobody")
