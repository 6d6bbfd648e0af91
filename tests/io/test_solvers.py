"""Which solvers fit a source: the others refuse, before anything is spent."""

from __future__ import annotations

import pytest

from skdp import (
    BudgetLedger,
    DPLinearRegression,
    DPLogisticRegression,
    DPRobustClassifier,
)
from skdp import DPSparseLogisticRegression as Sparse
from skdp.exceptions import Refused
from skdp.io import ParquetSource, SqlSource
from skdp.solvers import SOLVERS
from tests.io.places import FEATURES, N, database, numbers, write

FACTS = {"n_samples": N, "features": FEATURES}
ORDERED = ("ftrl", "online", "tree_momentum")
NEED_ROWS = {
    "frank_wolfe",
    "objective_perturbation",
    "output_perturbation",
    "two_stage",
}


def source_in(place, tmp_path, target):
    if place == "files":
        return ParquetSource(write(numbers(), tmp_path / "t"), target=target, **FACTS)
    return SqlSource(database(numbers()), "records", target=target, **FACTS)


def with_ids(target):
    connection = database(numbers())
    connection.execute("CREATE TABLE known AS SELECT * FROM records")
    connection.execute("ALTER TABLE known ADD PRIMARY KEY (key)")
    return SqlSource(connection, "known", target=target, record_id="key", **FACTS)


def model_for(key, ledger):
    given = {"solver": key, "ledger": ledger}
    if key == "adassp":
        return DPLinearRegression(1.0, target_bounds=(0, 1), **given), "t"
    if SOLVERS[key].is_sparse:
        return Sparse(1.0, feature_bound=1.0, classes=[0, 1], **given), "y"
    if key == "graduated_gd":
        return DPRobustClassifier(1.0, classes=[0, 1], **given), "y"
    return DPLogisticRegression(1.0, classes=[0, 1], **given), "y"


def test_those_that_work_inside_are_the_ones_that_need_rows():
    declared = {key for key, kind in SOLVERS.items() if kind.needs_rows}
    assert declared == NEED_ROWS


@pytest.mark.parametrize(
    ("key", "place"),
    [(key, ("files", "database")[i % 2]) for i, key in enumerate(sorted(SOLVERS))]
    + [(key, place) for key in ORDERED for place in ("files", "database")],
)
def test_solvers_fit_or_refuse_for_nothing(key, place, tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    model, target = model_for(key, ledger)
    if key == "knowledge_transfer":
        model.set_params(solver_params={"teacher": "noisy_gd"})
    source = source_in(place, tmp_path, target)
    unordered = place == "database" and key in ORDERED
    if key in NEED_ROWS or unordered or key == "bolt_on":
        with pytest.raises(Refused, match="can be done by"):
            model.fit(source)
        assert ledger.spends() == []
    else:
        assert model.fit(source).privacy_.solver == key


@pytest.mark.parametrize(
    "params",
    [
        {"n_passes": 2, "batch_size": 10},
        {"n_passes": 2, "batch_size": 10, "reshuffle": True, "schedule": "sqrt"},
        {"n_passes": 20, "batch_size": N},
        {},
    ],
    ids=["batches", "reshuffled", "full", "defaults"],
)
def test_bolt_on_fits_a_database_whose_records_have_ids(params, tmp_path):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    model = DPLogisticRegression(
        5.0, classes=[0, 1], solver="bolt_on", solver_params=params, ledger=ledger
    )
    record = model.fit(with_ids("y")).privacy_
    assert record.solver == "bolt_on"
    assert any("the id of a record" in fact for fact in record.assumed_public)
    assert len(ledger.spends()) == 1


def test_a_teacher_within_another_solver_reads_ids_too():
    params = {"teacher": "bolt_on", "teacher_params": {"batch_size": 10}}
    model = Sparse(
        1.0,
        n_nonzero_coefs=2,
        feature_bound=0.5,
        classes=[0, 1],
        solver="knowledge_transfer",
        solver_params=params,
    )
    assert model.fit(with_ids("y")).privacy_.solver == "knowledge_transfer"


@pytest.mark.parametrize(("epsilon", "C"), [(0.01, 1.0), (100.0, None), (1e5, 1.0)])
def test_auto_takes_one_that_can(epsilon, C, tmp_path):
    model = DPLogisticRegression(epsilon, C=C, classes=[0, 1])
    model.fit(source_in("database", tmp_path, "y"))
    assert model.privacy_.solver not in NEED_ROWS
