"""`benchmarks.one_run` and `membership_attack`: ways and scores are what they say."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.membership_attack import attacked, models
from benchmarks.one_run import (
    DELTA,
    Way,
    against_the_rest,
    last_iterate,
    logistic,
    made_up,
    scored_ways,
    ways,
    whole_path,
)
from skdp.audit import audit_one_run


def test_every_way_has_a_name_of_its_own():
    for listed in (ways(4.0), scored_ways(4.0)):
        assert len({way.name for way in listed}) == len(listed)
        assert all(way.model.get_params()["delta"] == DELTA for way in listed)


def test_scores_of_the_path_read_the_coins():
    X, y = made_up()
    model = logistic(200.0, "noisy_gd", "replace_one", keeps_path=True)
    for score in (last_iterate, whole_path):
        way = Way("", model, X, (y > 0).astype(int), score)
        found = audit_one_run(
            way.model, way.X, way.y, score=score, n_canaries=50, random_state=0
        )
        assert found.bounds.guesses.n_right == found.bounds.guesses.n_guesses


def test_canaries_against_the_rest_are_of_norm_one_and_differ_in_their_own_column():
    pairs = against_the_rest(5)
    np.testing.assert_allclose(np.linalg.norm(pairs.X, axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(pairs.X - pairs.other_X, axis=1), 2**0.5)


def test_attacked_models(monkeypatch):
    monkeypatch.setattr("benchmarks.membership_attack.SHADOWS", 4)
    found, accuracy = attacked(KNeighborsClassifier(1))
    assert accuracy > 0.9
    assert found.bound is None
    assert len(models()) > 5
