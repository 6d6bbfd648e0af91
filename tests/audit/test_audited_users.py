"""`audit_estimator` of users: exact transcripts, planted bugs, ids, and refusals.

Transcripts have no chance in them: a true promise is never refuted, a bug of these
always. What is sampled is in `test_planted_users.py`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skdp import (
    DPGridSearchCV,
    DPLinearSVC,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPStandardScaler,
    _users,
)
from skdp.audit import (
    audit_estimator,
    audit_one_run,
    membership_inference,
    membership_risk,
)
from skdp.audit._neighbours import Neighbours, chosen_users, declared_ids
from skdp.audit._runs import FitJob
from skdp.privacy.accounting._relations import ADJACENCIES
from tests.planted.users import NoisyUserSums

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = (X[:, 0] > 0).astype(int)
# One id follows another, so that those who merge are next to each other.
IDS = np.append(np.arange(60), RNG.integers(0, 60, 60))
FACTS = {"epsilon": 1.0, "delta": 1e-5, "privacy_unit": "user"}
LABELS = {"classes": [0, 1]}

every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def svc(**given):
    # By rule 60 users have the constant model.
    return DPLinearSVC(
        **FACTS
        | LABELS
        | {"solver": "noisy_gd", "solver_params": {"n_steps": 1}}
        | given
    )


def by_transcript(model, ids=IDS, X=X, y=Y, **given):
    return audit_estimator(model, X, y, groups=ids, access="transcript", **given)


# Transcripts --------------------------------------------------------------------------


@every_adjacency
def test_each_step_of_a_pipeline_gets_ids(adjacency):
    scaler = DPStandardScaler(**FACTS, bounds=(-1, 1), adjacency=adjacency)
    result = by_transcript(make_pipeline(scaler, svc(adjacency=adjacency)))
    assert result.passed
    assert result.claimed.source == "privacy_report"
    assert len(result.parts) > 1
    assert all(found > 0 for found, _ in result.parts.values())


def test_a_search_gets_ids():
    plain = DPLogisticRegression(**LABELS, solver="noisy_gd")
    facts = {"delta": 1e-5, "privacy_unit": "user", "scoring": "accuracy"}
    search = DPGridSearchCV(plain, {"C": [0.1, 1.0]}, **facts)
    with pytest.raises(ValueError, match="a search"):
        by_transcript(search)
    ids = declared_ids(search, X, IDS, None)
    pair = chosen_users(search, X, Y, ids, "replace_one")[0]
    model = FitJob(search, pair).fitted(1)
    assert model.privacy_.n_samples == 60
    assert "best_estimator_.coef_" in FitJob(search, pair).outputs(0).numbers


# Planted bugs -------------------------------------------------------------------------


def declared_otherwise(monkeypatch, change):
    """Plants a bug where ids become users."""
    honest = _users.Users._of_declared.__func__
    monkeypatch.setattr(
        _users.Users,
        "_of_declared",
        classmethod(lambda cls, ids, n: change(honest(cls, ids, n))),
    )


@pytest.mark.parametrize("first", [10, 11])
def test_ids_that_merge_are_refuted(first, monkeypatch):
    """With the one before or behind; one of the two users goes, and not both."""

    def merged(users):
        return _users.Users(users.n_users, users.codes // 2)

    declared_otherwise(monkeypatch, merged)
    order = np.argsort(IDS != first, kind="stable")
    model = svc(adjacency="zero_out")
    result = by_transcript(model, IDS[order], X[order], Y[order])
    assert not result.passed
    assert result.epsilon_lower_bound > 1.1


@every_adjacency
def test_users_who_are_counted_by_their_rows_are_refuted(adjacency, monkeypatch):
    def present(users):
        found, codes = np.unique(users.codes, return_inverse=True)
        return _users.Users(len(found), codes)

    declared_otherwise(monkeypatch, present)
    result = by_transcript(svc(adjacency=adjacency))
    assert not result.passed
    assert "none" in result.neighbours


# Pairs --------------------------------------------------------------------------------


def chosen(adjacency, ids=IDS, X=X, y=Y):
    return chosen_users(svc(), X, y, declared_ids(svc(), X, ids, None), adjacency)


def rows_of(side):
    """How often each row is whose, but for one user."""
    rows, y, _, ids = side
    others = np.flatnonzero(ids.codes != 0)
    found = [(ids.codes[i], y[i], rows[i].tobytes()) for i in others]
    return sorted(found)


@every_adjacency
def test_neighbours_differ_in_the_rows_of_one_user(adjacency):
    sizes = []
    for pair in chosen(adjacency):
        first, second = pair.sides
        assert rows_of(first) == rows_of(second)
        assert first[3].categories.equals(second[3].categories)
        assert pair.n_samples == 60
        sizes.append([(side[3].codes == 0).sum() for side in pair.sides])
    if adjacency == "zero_out":
        assert {after for _, after in sizes} == {0}
        assert {before for before, _ in sizes} == {1, 20, 3072}
    else:
        assert {tuple(each) for each in sizes} == {(1, 1), (20, 3), (20, 0), (3072, 3)}


def test_users_without_rows_are_declared():
    few = pd.Categorical(IDS, categories=np.arange(100))
    assert {pair.n_samples for pair in chosen("zero_out", few)} == {100}
    alike = Neighbours(X, Y, X, Y, "", ids=few, other_ids=few)
    assert FitJob(svc(), alike).fitted(0).privacy_.n_samples == 100


def test_a_neighbour_is_given_with_ids():
    there = IDS != 7
    result = by_transcript(svc(), neighbour=(X[there], Y[there], IDS[there]))
    assert result.passed
    assert 0 < result.epsilon_lower_bound < 1
    alone = DPStandardScaler(**FACTS, bounds=(-1, 1))
    gone = (X[there], None, IDS[there])
    assert by_transcript(alone, y=None, neighbour=gone).passed


# Refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "given", "reason"),
    [
        (svc(), {}, "Pass groups=ids"),
        (make_pipeline(svc()), {}, "Pass groups=ids"),
        (svc(privacy_unit="record"), {"groups": IDS}, "privacy_unit='user'"),
        (svc(), {"groups": IDS[1:]}, "for each row of X"),
        (svc(), {"groups": IDS / 2}, "all integers or all strings"),
        (svc(), {"groups": np.zeros(120, int)}, "two users"),
        (svc(), {"groups": IDS, "adjacency": "replace_one"}, "'replace_user'"),
        (svc(), {"groups": IDS, "neighbour": (X, Y)}, r"triple \(X, y, ids\)"),
        (svc(), {"groups": IDS, "neighbour": (X[:, 1:], Y, IDS)}, "triple"),
        (svc(), {"groups": IDS, "neighbour": (X[1:], Y, IDS)}, "triple"),
        (svc(), {"groups": IDS, "neighbour": (X, Y, IDS / 2)}, "all integers"),
        (NoisyUserSums(), {"groups": IDS, "epsilon": 1.0}, "pass adj"),
        (DPMatrixFactorization(privacy_unit="user"), {"groups": IDS}, "None"),
    ],
)
def test_ids_and_users_belong_together(model, given, reason, monkeypatch):
    monkeypatch.setattr(FitJob, "outputs", None)
    with pytest.raises((ValueError, TypeError), match=reason):
        audit_estimator(model, X, Y, **given)


def test_other_audits_say_that_they_are_of_records():
    with pytest.raises(ValueError, match=r"audit_estimator, with groups=ids"):
        audit_one_run(svc(), X, Y, n_canaries=5)
    model = svc().fit(X, Y, groups=IDS)
    with pytest.raises(ValueError, match="Use membership_risk"):
        membership_inference(model, (X[:60], Y[:60]), (X[60:], Y[60:]))
    assert membership_risk(model).adjacency == "replace_user"
