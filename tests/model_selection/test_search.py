"""Behaviour that all private searches share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import uniform
from sklearn.feature_selection import SelectFromModel
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import (
    BoundedScaler,
    DPGridSearchCV,
    DPLinearSVC,
    DPLogisticRegression,
    DPRandomizedSearchCV,
)
from skdp.exceptions import (
    READ_FAILED,
    SourceError,
)
from skdp.model_selection import METHODS
from skdp.model_selection._candidates import SearchRecords, rehearse
from skdp.privacy import BudgetLedger, epsilon_of
from tests.model_selection.runs import job_of, plan_of
from tests.model_selection.toys import Fragile, NoisySum

GRID = {"C": [0.01, 1.0]}
# Small and quick; its noise adds up in squares.
QUICK = {"solver": "noisy_gd", "solver_params": {"n_steps": 3}}


def rows_for(n=40, n_labels=2):
    rng = np.random.default_rng(0)
    return rng.uniform(-0.7, 0.7, size=(n, 2)), np.arange(n) % n_labels


def logistic(**params):
    return DPLogisticRegression(**({"classes": [0, 1]} | QUICK | params))


def ledger_in(folder, **changes):
    return BudgetLedger(
        folder / "books.db", **({"epsilon": 10.0, "delta": 1e-5} | changes)
    )


# What must be refused before anything is spent: changes to the search, or to the data,
# and what the message must say.
PIPE = make_pipeline(BoundedScaler((-1, 1)), logistic())
BAD = {
    "epsilon in the grid": ({"param_grid": {"epsilon": [1, 2]}}, "'epsilon'.*search's"),
    "nested epsilon": (
        {"estimator": PIPE, "param_grid": {"dplogisticregression__epsilon": [1, 2]}},
        "epsilon.*own",
    ),
    "data_norm": ({"param_grid": {"data_norm": [1.0, 2.0]}}, "data_norm"),
    "inner epsilon": ({"estimator": logistic(epsilon=2.0)}, "'epsilon'.*the search"),
    "inner adjacency": (
        {"estimator": logistic(adjacency="zero_out")},
        "'adjacency'.*the search",
    ),
    "negative C": ({"param_grid": {"C": [1.0, -1.0]}}, "'C'"),
    "unaccounted step": (
        {
            "estimator": make_pipeline(StandardScaler(), logistic()),
            "param_grid": {"dplogisticregression__C": [1.0]},
        },
        "(?i)standardscaler.*DPStandardScaler",
    ),
    "no private step": (
        {"estimator": BoundedScaler((-1, 1)), "param_grid": {"bounds": [(-1, 1)]}},
        "bounds|private step",
    ),
    "refit": ({"refit": False}, "'refit'.*True"),
    "infinite epsilon": ({"epsilon": math.inf, "ledger": None}, "'epsilon'.*inf"),
    "method": ({"method": "halving"}, "'method'.*composition"),
    "params of auto": ({"method_params": {"tuning_share": 0.5}}, "'method_params'"),
    "unknown method param": (
        {"method": "composition", "method_params": {"sigma": 1.0}},
        "'method_params'.*tuning_share",
    ),
    "validation_fraction": ({"validation_fraction": 1.0}, "'validation_fraction'"),
    "scoring": ({"scoring": "roc_auc_ovr"}, "'scoring'.*neg_log_loss"),
    "no grid": ({"param_grid": []}, "candidate"),
    "poisson at delta 0": (
        {
            "delta": 0.0,
            "estimator": DPLogisticRegression(classes=[0, 1]),
            "method": "random_stopping",
            "method_params": {"family": "poisson"},
        },
        "delta=0.*negative_binomial",
    ),
    "too many candidates for the rows": (
        {"method": "disjoint_splits", "param_grid": {"C": list(range(1, 60))}},
        "disjoint_splits.*random_stopping",
    ),
    "score that is no single sum": (
        {"method": "disjoint_splits", "scoring": "balanced_accuracy"},
        "disjoint_splits.*composition",
    ),
}


def is_untouched(search, before, ledger):
    return vars(search) == before and ledger.spends() == []


def test_refused_before_anything_is_spent(tmp_path):
    ledger = ledger_in(tmp_path)
    values = {"estimator": logistic(), "param_grid": GRID, "ledger": ledger}
    inner = {"estimator": logistic(ledger=ledger)}, "'ledger'.*Set it on the search"
    for changes, message in [*BAD.values(), inner]:
        search = DPGridSearchCV(**(values | changes))
        before = dict(vars(search))
        with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
            search.fit(*rows_for())
        assert is_untouched(search, before, ledger)


# What a fitted search shows.

DOCUMENTED = {
    "has_model_",
    "best_estimator_",
    "best_params_",
    "best_index_",
    "best_score_",
    "cv_results_",
    "scoring_",
    "privacy_",
    "classes_",
    "n_features_in_",
}


def public_attributes(fitted):
    return {n for n in vars(fitted) if n.endswith("_") and not n.startswith("_")}


@pytest.mark.parametrize(
    ("method", "delta"), [(name, 1e-6 * (i % 2)) for i, name in enumerate(METHODS)]
)
def test_attributes_are_the_documented_ones(method, delta):
    X, y = rows_for()
    model = NoisySum()
    search = DPGridSearchCV(model, {"answer": [0, 1, None]}, delta=delta, method=method)
    search.fit(X, y)
    assert public_attributes(search) == DOCUMENTED
    for name in DOCUMENTED:
        assert f"{name}" in DPGridSearchCV.__doc__, name
        assert f"{name}" in DPRandomizedSearchCV.__doc__, name
    shown = {"params", "param_answer"}
    if method == "composition":
        shown |= {"mean_test_score", "error_test_score", "rank_test_score"}
        best = search.cv_results_["rank_test_score"][search.best_index_]
        assert best == 1
    assert set(search.cv_results_) == shown
    assert search.cv_results_["params"][search.best_index_] == search.best_params_
    assert math.isnan(search.best_score_) == (method == "disjoint_splits")
    assert search.scoring_ == "accuracy"
    assert search.privacy_.epsilon == 1.0
    assert search.privacy_.solver == method
    assert epsilon_of(search.privacy_.event, delta) <= 1.0


def test_best_estimator_says_that_it_is_a_part_of_the_search(tmp_path):
    ledger = ledger_in(tmp_path)
    search = DPGridSearchCV(
        PIPE,
        {"dplogisticregression__C": [0.1, 1.0]},
        epsilon=2.0,
        ledger=ledger,
    ).fit(*rows_for())
    step = search.best_estimator_[-1]
    assert step.privacy_.event == search.privacy_.event
    assert step.privacy_.epsilon == 2.0
    assert "DPGridSearchCV" in step.privacy_.release
    assert "as a part of" in step.privacy_.statement()
    assert step.ledger == ledger  # another fit of it is charged
    assert search.privacy_.release == ""


@pytest.mark.parametrize("n_jobs", [2])
def test_trials_have_noise_of_their_own(n_jobs):
    """Equal candidates in one search: models differ, in workers too."""
    from skdp.model_selection._candidates import Split

    X, y = rows_for()
    search = DPGridSearchCV(NoisySum(), {"answer": [None]}, method="composition")
    plan = plan_of(search, X, y)
    ready = plan.candidates[0].prepared[0]
    job = job_of(plan, X, y, n_jobs=n_jobs)
    split = Split(np.arange(36), np.arange(36, 40))
    trials = job.fit_and_score([ready] * 6, [split] * 6, say=False)
    assert len({trial.model.total_ for trial in trials}) == 6


@pytest.mark.parametrize("method", METHODS)
def test_splits_do_not_depend_on_the_data(method, monkeypatch):
    from skdp.model_selection._candidates import SearchJob as Job

    seen = []
    original = Job.fit_and_score

    def spy(self, prepared, splits, *, say):
        seen.append([(s.train.tolist(), s.validation.tolist()) for s in splits])
        return original(self, prepared, splits, say=say)

    monkeypatch.setattr(Job, "fit_and_score", spy)
    X, y = rows_for()
    for rows, labels in ((X, y), (-X, 1 - y), (X, np.zeros(40, int))):
        DPGridSearchCV(
            NoisySum(), {"answer": [None] * 2}, method=method, random_state=5
        ).fit(rows, labels)
    assert seen[0] == seen[1] == seen[2]
    for train, validation in seen[0]:
        assert not set(train) & set(validation)


# Inputs and composition with scikit-learn.


def test_search_over_estimators_themselves():
    from sklearn.pipeline import Pipeline

    pipe = Pipeline([("clf", logistic())])
    grid = {"clf": [logistic(), DPLinearSVC(classes=[0, 1], **QUICK)]}
    search = DPGridSearchCV(pipe, grid).fit(*rows_for())
    assert type(search.best_params_["clf"]) is type(search.best_estimator_[-1])
    # The grid is not touched.
    assert all(model.ledger is None for model in grid["clf"])
    assert all(model.epsilon == 1.0 for model in grid["clf"])
    assert not any(hasattr(model, "privacy_") for model in grid["clf"])


def test_pipeline_of_two_private_steps_stays_within_its_need():
    """Budgets of a selecting and a predicting step compose to what a fit may cost."""
    selector = SelectFromModel(logistic(), threshold=-np.inf, max_features=1)
    pipe = make_pipeline(selector, logistic())
    search = DPGridSearchCV(pipe, {"dplogisticregression__C": [0.1, 1.0]})
    X, y = rows_for()
    plan = plan_of(search, X, y)
    needs = plan.chosen.method.needs(plan.noise_multiplier, plan.facts)
    for candidate in plan.candidates:
        for need, ready in zip(needs, candidate.prepared, strict=True):
            _, events = rehearse(ready.estimator, SearchRecords(X, y), "replace_one")
            assert len(events) == 2
            spent = math.fsum(event.mu_squared for event in events)
            assert 0.99 * need.strength.mu_squared <= spent
            assert spent <= need.strength.mu_squared * (1 + 1e-9)
    search.fit(X, y)
    steps = search.best_estimator_
    assert steps[0].estimator_.privacy_.release == steps[1].privacy_.release != ""


def test_objective_perturbation_is_lowered_until_its_mu_fits():
    model = DPLogisticRegression(classes=[0, 1], solver="objective_perturbation")
    search = DPGridSearchCV(model, {"C": [1e-3]}, method="random_stopping")
    X, y = rows_for()
    plan = plan_of(search, X, y)
    (need,) = plan.chosen.method.needs(plan.noise_multiplier, plan.facts)
    (ready,) = plan.candidates[0].prepared
    records = SearchRecords(X[: need.rows], y[: need.rows])
    _, events = rehearse(ready.estimator, records, "replace_one")
    spent = math.fsum(event.gdp_mu_squared for event in events)
    assert 0.9 * need.strength.mu_squared <= spent <= need.strength.mu_squared


@pytest.mark.parametrize(
    ("method", "n_jobs"), [("composition", 2), ("random_stopping", None)]
)
def test_a_fit_that_fails_ends_the_search_in_one_way(method, n_jobs, capfd, tmp_path):
    """A search that went on without the model would tell of the record that failed."""
    X, y = rows_for(400)
    ledger = ledger_in(tmp_path)
    search = DPGridSearchCV(
        Fragile(), {"answer": [2]}, method=method, n_jobs=n_jobs, ledger=ledger
    )
    with pytest.raises(SourceError) as caught:
        search.fit(X, y)
    assert caught.value.args == (READ_FAILED,)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not hasattr(search, "best_estimator_")
    assert len(ledger.spends()) == 1
    assert capfd.readouterr() == ("", "")


# Randomised search.


def test_candidates_are_drawn_before_the_commit_and_without_the_data(monkeypatch):
    diary = []

    class Law:
        def rvs(self, random_state=None):
            diary.append("draw")
            return len(diary) % 2

    monkeypatch.setattr(NoisySum, "_before_reading", lambda s, X: diary.append("read"))
    X, y = rows_for()
    DPRandomizedSearchCV(NoisySum(), {"answer": Law()}, n_iter=4).fit(X, y)
    assert diary[:4] == ["draw"] * 4
    assert set(diary[4:]) == {"read"}
    seen = []
    for rows, labels in ((X, y), (-X, 1 - y)):
        search = DPRandomizedSearchCV(
            logistic(), {"C": uniform(0.1, 1.0)}, n_iter=3, random_state=1
        )
        seen.append(search.fit(rows, labels).cv_results_["params"])
    assert seen[0] == seen[1]
    for n_iter in (0, 1.5):
        with pytest.raises((ValueError, TypeError), match="'n_iter'"):
            DPRandomizedSearchCV(logistic(), GRID, n_iter=n_iter).fit(X, y)


def test_candidates_that_every_part_would_refuse_are_refused_before_the_commit(
    tmp_path,
):
    """The steps that release='last' admits depend on C n, and a part has fewer rows."""
    ledger = ledger_in(tmp_path)
    params = [{"release": "last", "step_size": size} for size in (2.0, 1.9)]
    search = DPGridSearchCV(
        DPLogisticRegression(solver="noisy_gd", C=0.01, classes=[0, 1]),
        {"solver_params": params},
        epsilon=2.0,
        method="disjoint_splits",
        ledger=ledger,
    )
    X, y = rows_for(300)
    with pytest.raises(ValueError, match="contractive steps"):
        search.fit(X, y)
    assert ledger.spends() == []


def test_without_delta_half_of_epsilon_is_for_the_model():
    X, y = rows_for()
    plain = DPLogisticRegression(classes=[0, 1])
    search = DPGridSearchCV(plain, GRID, epsilon=1.0, delta=0).fit(X, y)
    record = search.privacy_
    assert (record.solver, record.delta) == ("random_stopping", 0)
    assert "however many candidates" in record.why_solver


def test_a_search_scores_raw_data_by_the_scoring_that_was_named():
    X, y = rows_for()
    search = DPGridSearchCV(logistic(), GRID, scoring="f1", epsilon=1.0, delta=1e-6)
    search.fit(X, y)
    assert search.score(X, y) == pytest.approx(f1_score(y, search.predict(X)))
