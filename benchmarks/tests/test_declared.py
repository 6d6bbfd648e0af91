"""Declared tables: sources are named, test parts stay out, the command prints."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline

from benchmarks import _declared, _declared_tables
from benchmarks.__main__ import main
from benchmarks._declared import VARIANTS, Fit, Job, load, measured
from benchmarks._declared_tables import DECLARATIONS, NAMES, Declared, Table, declared
from benchmarks._random_features import Fourier, Pairs
from skdp import columns
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES

AT_HAND = ("breast_cancer", "digits", "digits_odd", "noisy", "rare", "three_of_26")


@pytest.fixture
def numbered(monkeypatch):
    """A table whose records are numbered, the last 20 of 100 for testing."""
    numbers = np.arange(100)
    whole = Table(pd.DataFrame({"x": numbers}), numbers % 2, numbers >= 80)
    monkeypatch.setattr(_declared, "table", lambda name: whole)


@pytest.mark.parametrize("name", NAMES)
def test_each_declaration_names_its_source(name):
    known = declared(name)
    assert {"table", "target", *known.names} == set(known.notes)
    assert all(note.strip().endswith(".") for note in known.notes.values())
    assert (known.classes is None) != (known.target_bounds is None)


def test_every_file_of_declarations_is_a_table():
    assert {path.stem for path in DECLARATIONS.glob("*.json")} == set(NAMES)


def test_adult_is_declared_as_in_the_package():
    expected = columns.as_declared(ADULT_BOUNDS | ADULT_CATEGORIES)
    assert declared("adult").columns == expected


def test_types_of_cover_have_the_columns_of_covertype():
    types, one = declared("covertype_types"), declared("covertype")
    assert types.columns == one.columns
    assert (types.classes, one.classes) == ([*range(1, 8)], [0, 1])


@pytest.mark.parametrize("name", AT_HAND)
def test_declared_columns_are_those_of_the_table(name):
    known, whole = declared(name), _declared_tables.table(name)
    if known.names:
        assert set(known.names) == set(whole.X.columns)
    assert int(whole.is_test.sum()) == len(whole.y) // 5
    if known.classes is None:
        low, high = known.target_bounds
        assert low <= whole.y.min()
        assert whole.y.max() <= high
    else:
        assert set(np.unique(whole.y)) == set(known.classes)


def test_rare_positives_are_rare():
    assert 0.01 < _declared_tables.table("rare").y.mean() < 0.03


@pytest.mark.parametrize("seed", range(5))
def test_settling_never_sees_the_test_part(numbered, seed):
    parts = load("numbered", seed)
    train, judged = set(parts.X_train["x"]), set(parts.X["x"])
    assert not train & judged
    assert train | judged == set(range(80))
    assert len(judged) == 16
    assert (parts.y_train == parts.X_train["x"] % 2).all()
    assert (parts.y == parts.X["x"] % 2).all()


def test_a_split_that_judges_by_the_test_part_is_told_apart(numbered):
    # The twin of the test above.
    parts = load("numbered", 0, part="report")
    assert set(parts.X_train["x"]) | set(parts.X["x"]) != set(range(80))


def test_a_report_is_judged_by_the_test_part(numbered):
    parts = load("numbered", 3, part="report", n_train=10)
    assert list(parts.X["x"]) == list(range(80, 100))
    assert len(parts.X_train) == 10
    assert parts.X_train["x"].max() < 80


def test_seeds_have_validation_parts_of_their_own(numbered):
    first, again, other = (set(load("numbered", seed).X["x"]) for seed in (0, 0, 1))
    assert first == again != other


def test_numbers_are_clipped_to_the_bounds_of_the_target():
    class Far:
        def predict(self, X):
            return np.array([-9.0, 9.0])

    parts = _declared.Parts(None, np.empty(0), np.empty((2, 1)), np.array([0.0, 1.0]))
    known = Declared(columns.Range(0, 1), None, (0.0, 1.0), {})
    assert _declared.scores(Far(), parts, known) == {"r2": 1.0}


def test_several_classes_are_scored():
    line = measured(Job("digits", "zero_out", 4.0, "linear", 0, "settle", 300))
    assert line["n_train"] == 300
    assert line["delta"] == pytest.approx(300**-2)
    assert 0.5 < line["auc"] <= 1


def test_the_constant_model_needs_no_record_of_each_class():
    model = _declared._Constant([0, 1]).fit(None, np.zeros(3))
    assert model.predict_proba([[5.0], [6.0]]).tolist() == [[1, 0], [1, 0]]
    assert model.predict([[5.0]]).tolist() == [0]


def test_a_refusal_is_kept_with_its_reason(monkeypatch):
    monkeypatch.setitem(VARIANTS, "none", lambda fit: fit.dense(columns=(1, 0)))
    line = measured(Job("digits_odd", "zero_out", 1.0, "none", 0, "settle", 50))
    assert "low < high" in line["refused"]


def test_variants_have_the_budget_they_are_given():
    fit = Fit(declared("digits_odd"), 0.5, 1e-7, "zero_out", 3)
    for make in VARIANTS.values():
        model = make(fit)
        last = model[-1] if isinstance(model, Pipeline) else model
        given = last.get_params(deep=False)
        assert (given["epsilon"], given["delta"]) == (0.5, 1e-7)
        assert (given["adjacency"], given["random_state"]) == ("zero_out", 3)


@pytest.mark.parametrize("features", [Fourier(16), Pairs([0, 2, 3])])
def test_public_features_are_of_the_row_alone_and_no_longer_than_is_declared(features):
    X = np.random.default_rng(0).normal(size=(50, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    found = features.fit(X).transform(X)
    assert np.linalg.norm(found, axis=1).max() <= math.sqrt(2) * (1 + 1e-12)
    alone = features.fit(X[:1]).transform(X[:1])
    assert np.allclose(alone, found[:1], rtol=1e-12)
    assert np.array_equal(found[:, :5], X)


def test_variants_are_centred_and_encoded_as_they_are_named():
    fit = Fit(declared("digits_odd"), 0.5, 1e-7, "zero_out", 3)
    told = {name: make(fit).get_params() for name, make in VARIANTS.items()}
    for name in ("network", "fourier", "fine_fourier", "pairs"):
        told.pop(name)
    boosted = {name: told.pop(name) for name in ("boosted", "from_constant")}
    starts = {name: given["init"] for name, given in boosted.items()}
    assert starts == {"boosted": "linear", "from_constant": "constant"}
    centred = {name for name, given in told.items() if given["preconditioning"]}
    lines = {
        name
        for name, given in told.items()
        if given.get("columns__numeric") == "linear"
    }
    assert set(told) - centred == {"as_encoded", "linear"}
    assert lines == {"lines", "linear"}


def test_a_table_is_printed_and_missing_data_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SKDP_DATA_HOME", str(tmp_path))
    _declared_tables.table.cache_clear()
    file = tmp_path / "fits.jsonl"
    asked = ["--table", "digits_odd", "--table", "adult", "--table", "three_of_26"]
    asked += ["--variant", "linear", "--epsilon", "1", "--adjacency", "zero_out"]
    asked += ["--n-train", "100", "--seeds", "2", "--json", str(file)]
    assert main(["declared", *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("adult | refused" in line and "data.md" in line for line in lines)
    assert any("digits_odd | 100 |  |  | constant | 0.6" in line for line in lines)
    assert any("three_of_26 | 100 | zero_out | 1.0 | linear" in line for line in lines)
    assert {line.count("|") for line in lines[1:]} == {11}
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["seed"] for line in kept] == [0, 1] * 4
    assert kept[2]["epsilon"] == 1.0
