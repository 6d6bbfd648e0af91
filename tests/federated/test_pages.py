"""What the page says that owners can and cannot do, and what goes wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import skdp
from skdp import (
    DPPCA,
    BoundedScaler,
    BudgetLedger,
    DPCalibratedClassifier,
    DPGammaRegressor,
    DPGradientBoostingClassifier,
    DPGradientBoostingRegressor,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPMLPRegressor,
    DPPoissonRegressor,
    DPQuantileClipper,
    DPQuantileRegressor,
    DPRandomizedSearchCV,
    DPRobustClassifier,
    DPSimpleImputer,
    DPSparseLinearRegression,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    RowNormClipper,
    TableEncoder,
)
from skdp._base import PrivateEstimator
from skdp.exceptions import Refused
from skdp.federated._plan import HOMES
from tests.federated.owned import federation, model
from tests.io.places import COLUMNS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guide/several_owners.md").read_text(encoding="utf-8")
LABELS = {"classes": [0, 1]}
BOUNDS = {"target_bounds": (0, 1)}
SPARSE = {"feature_bound": 1.0}
WIDE = {"bounds": (-2, 2)}
GRID = {"C": [0.1, 1.0]}
LINEAR = DPLogisticRegression(**LABELS)
# Fitted, each with the target that it takes.
SUPPORTED = [
    (LINEAR, "y"),
    (DPLinearSVC(**LABELS), "y"),
    (DPLinearRegression(**BOUNDS), "t"),
    (DPRobustClassifier(**LABELS), "y"),
    (DPPoissonRegressor(**BOUNDS), "t"),
    (DPGammaRegressor(target_bounds=(0.1, 1)), "t"),
    (DPQuantileRegressor(**BOUNDS), "t"),
    (DPSparseLogisticRegression(**SPARSE, **LABELS), "y"),
    (DPSparseLinearRegression(**SPARSE, **BOUNDS), "t"),
    (DPGradientBoostingClassifier(columns=COLUMNS, n_estimators=3, **LABELS), "y"),
    (DPGradientBoostingRegressor(columns=COLUMNS, n_estimators=3, **BOUNDS), "t"),
    (DPMLPClassifier(solver="noisy_gd", **LABELS), "y"),
    (DPMLPRegressor(solver="noisy_gd", **BOUNDS), "t"),
    (DPStandardScaler(**WIDE), "y"),
    (DPQuantileClipper(**WIDE), "y"),
    (DPSimpleImputer(**WIDE), "y"),
    (DPPCA(n_components=2), "y"),
    (make_pipeline(BoundedScaler((-2, 2)), RowNormClipper(), LINEAR), "y"),
    (make_pipeline(TableEncoder(COLUMNS), LINEAR), "y"),
    (DPGridSearchCV(LINEAR, GRID, epsilon=1.0), "y"),
    (
        DPRandomizedSearchCV(LINEAR, GRID, n_iter=2, epsilon=1.0, method="composition"),
        "y",
    ),
]
# Refused: what, and a word of its one sentence.
REFUSED = {
    "ratings": (DPMatrixFactorization(), r"missing a required argument"),
    "samples": (
        model(solver="noisy_sgd", solver_params={"batch_size": 50}),
        r"this fit samples",
    ),
    "choices": (
        DPGridSearchCV(LINEAR, GRID, epsilon=1.0, method="random_stopping"),
        r"pays for fewer",
    ),
    "calibration": (DPCalibratedClassifier(LINEAR), r"pays for fewer"),
    "thresholds": (DPTunedThresholdClassifier(LINEAR), r"pays for fewer"),
    "rows": (
        model(solver="output_perturbation", solver_params=None),
        r"can be done by",
    ),
    "pure": (DPStandardScaler(delta=0.0, **WIDE), r"has another"),
    "nothing private": (
        DPLogisticRegression(np.inf, **LABELS),
        r"answer with noise only",
    ),
}


def named(one):
    return type(one).__name__ if not hasattr(one, "steps") else one.steps[0][0]


@pytest.mark.parametrize(("one", "target"), SUPPORTED, ids=lambda x: str(x)[:30])
def test_what_is_said_to_fit_fits(one, target):
    source = federation(target=target)
    source.fit(one)
    assert source.traffic.n_rounds >= 1


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_said_to_be_refused_is_refused_for_nothing(what, tmp_path):
    one, words = REFUSED[what]
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=10.0, delta=1e-3)
    if what != "nothing private":  # refused by private books too
        one.set_params(ledger=ledger)
    with pytest.raises((Refused, TypeError), match=words) as caught:
        one.fit(federation())
    assert str(caught.value).count(". ") <= 4
    assert ledger.spends() == []


def private_names():
    """Everything of skdp that releases something when it is fitted."""
    kinds = ((name, getattr(skdp, name)) for name in skdp.__all__)
    return {
        name
        for name, kind in kinds
        if isinstance(kind, type) and issubclass(kind, PrivateEstimator)
    }


def test_every_private_estimator_is_supported_or_refused_by_name():
    tried = {named(one) for one, _ in SUPPORTED} | {
        named(one) for one, _ in REFUSED.values()
    }
    assert private_names() <= tried
    (table,) = re.findall(r"\| What \| Over a federation \|\n.*?\n\n", PAGE, re.S)
    in_table = set(re.findall(r"`(\w+)`", table))
    assert private_names() <= in_table
    # Whatever a plan can hold is on the page; pipelines in words.
    assert HOMES.keys() - {"Pipeline"} <= in_table


# What goes wrong, by the first words of a row of the page, and which tests say so.
OUTCOMES = {
    "the owners cannot answer": ["test_a_refusal_comes_before_the_books"],
    "a ledger that is full": [
        "test_a_full_ledger_takes_no_part",
        "test_a_ledger_without_room_for_all_steps_books_none",
    ],
    "the coordinator is not there": [
        "test_a_coordinator_that_is_not_there_costs_nothing",
        "test_a_coordinator_with_another_key_gets_nobody",
    ],
    "the file has other columns": [
        "test_a_party_that_lies_about_n_or_columns_is_refused_by_its_own_side"
    ],
    "an owner is cut off": [
        "test_a_party_that_is_cut_off_sends_the_same_bytes_and_the_fit_goes_on"
    ],
    "an owner stays away": [
        "test_a_party_that_disappears_ends_the_fit_for_all",
        "test_a_party_that_begins_anew_ends_the_fit",
    ],
    "an owner answers a round twice": [
        "test_a_party_that_answers_a_round_twice_ends_the_fit",
        "test_a_party_that_answers_another_question_ends_the_fit",
    ],
    "an owner sends sums": [
        "test_an_owner_that_lies_about_its_sums_learns_no_more_of_others",
        "test_a_lie_about_sums_moves_a_model_and_no_bound",
    ],
    "an owner says that it has": [
        "test_an_owner_that_lies_about_n_learns_no_more_of_others",
        "test_a_party_that_lies_about_n_or_columns_is_refused_by_its_own_side",
    ],
    "an owner has another version": [
        "test_other_questions_than_were_planned_are_refused_before_the_books"
    ],
    "garbage": [
        "test_garbage_and_strangers_are_dropped_and_the_fit_goes_on",
        "test_messages_that_are_replayed_or_changed_prove_nothing",
    ],
    "an attacker cuts connections": ["test_a_hello_of_an_earlier_fit_gets_no_share"],
    "one row only": [
        "test_integers_are_those_of_the_pooled_table",
        "test_searches_among_shares_are_booked_once",
        "test_a_party_without_a_positive_label_changes_nothing",
        "test_rows_that_cannot_be_read_are_null_records_wherever_they_are",
    ],
    "a machine of another kind": [
        "test_other_questions_than_were_planned_are_refused_before_the_books",
        "test_a_party_that_answers_another_question_ends_the_fit",
    ],
    "a plan asks for encryption": [
        "test_connections_are_as_planned_or_there_is_no_fit"
    ],
}


def test_every_outcome_of_the_page_has_its_test():
    (table,) = re.findall(r"\| What \| Outcome \|\n\|---\|---\|\n(.*?)\n\n", PAGE, re.S)
    rows = table.splitlines()
    starts = [[key for key in OUTCOMES if row.startswith(f"| {key}")] for row in rows]
    assert all(len(found) == 1 for found in starts)
    assert len(rows) == len(OUTCOMES)
    places = [*Path(__file__).parent.glob("test_*.py"), *ROOT.glob("tests/audit/*.py")]
    written = "".join(place.read_text(encoding="utf-8") for place in places)
    for tests in OUTCOMES.values():
        assert all(f"def {name}(" in written for name in tests)
