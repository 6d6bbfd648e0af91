"""Models on centred rows: what they release, refuse, and make of a release.

Exact audits are in tests/audit/test_preconditioned.py.
"""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline

from skdp import (
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPStandardScaler,
    Preconditioning,
    set_budget,
)
from skdp.columns import Boolean, Range
from skdp.data import MemorySource
from skdp.exceptions import BudgetExceeded, Refused
from skdp.privacy import BudgetLedger, epsilon_of
from skdp.privacy._gaussian import gaussian_mu
from skdp.privacy._plan import Plan
from skdp.solvers import Progress, solve
from skdp.solvers._margins import (
    Moments,
    even_margins,
    on_simplex,
    shrunk_margins,
    target_scale,
)
from skdp.solvers._preconditioned import CentredSolution, Preconditioned
from tests.audit.preconditioned import BUDGET, INNER, Case
from tests.door import OpenDoor
from tests.preprocessing.tables import DECLARED, frame
from tests.spies import SpyLedger, SpyNoise, SpySource

ADJACENCIES = ("replace_one", "zero_out")
PAID = Preconditioning(share=0.1)
# Models with what they are told, and how many outputs they have.
MODELS = {
    "logistic": (DPLogisticRegression, {"classes": [0, 1]}),
    "softmax": (DPLogisticRegression, {"classes": [0, 1, 2]}),
    "svc": (DPLinearSVC, {"classes": [0, 1]}),
    "one against the rest": (DPLinearSVC, {"classes": [0, 1, 2]}),
    "regression": (DPLinearRegression, {"target_bounds": (0, 1)}),
}
ATTRIBUTES = ("center_", "scale_", "row_norm_")
every_model = pytest.mark.parametrize("name", MODELS)
every_inner = pytest.mark.parametrize("inner", INNER)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


def unfitted(name, **params):
    kind, needs = MODELS[name]
    facts = {"columns": DECLARED, "preconditioning": PAID, "random_state": 0}
    return kind(2.0, **needs, **facts | params)


def fit(model, X, y=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, np.arange(len(X)) % 2 if y is None else y)


def decision(model, X):
    if isinstance(model, DPLinearRegression):
        return model.predict(X)
    return model.decision_function(X)


# ----------------------------------------------------------------------- what it tells


def by_hand(model, rows):
    """Decisions from the fitted attributes, as the documentation says."""
    t = (rows - model.center_) * model.scale_
    length = np.linalg.norm(t, axis=1)
    factor = model.row_norm_ / np.maximum(length, model.row_norm_)
    coef = np.atleast_2d(model.coef_)
    raw = factor[:, None] * ((rows - model.center_) @ coef.T)
    raw = raw + model.center_ @ coef.T + model.intercept_
    return raw[:, 0] if raw.shape[1] == 1 else raw, length <= model.row_norm_


@every_model
@pytest.mark.parametrize("is_sparse", [False, True])
def test_decisions_follow_from_the_attributes(name, is_sparse, monkeypatch):
    if is_sparse:
        monkeypatch.setattr("skdp.preprocessing._table_plan._SPARSE_BELOW", 2.0)
    X = frame(300)
    model = fit(unfitted(name, solver="noisy_gd"), X)
    rows = model.encoder_.transform(X)
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    expected, is_within = by_hand(model, rows)
    found = decision(model, X)
    tolerance = 1e-9 * max(1, np.abs(expected).max())
    assert np.allclose(found, expected, rtol=0, atol=tolerance)
    assert is_within.any()
    assert not is_within.all()
    linear = rows @ np.atleast_2d(model.coef_).T + model.intercept_
    linear = linear[:, 0] if linear.shape[1] == 1 else linear
    assert np.allclose(found[is_within], linear[is_within], rtol=0, atol=tolerance)
    assert not np.allclose(found[~is_within], linear[~is_within], rtol=1e-3)


@every_model
def test_sparse_and_dense_rows_are_predicted_alike(name, monkeypatch):
    X = frame(300)
    model = fit(unfitted(name), X)
    dense = decision(model, X)
    monkeypatch.setattr("skdp.preprocessing._table_plan._SPARSE_BELOW", 2.0)
    assert np.allclose(dense, decision(model, X), rtol=1e-9, atol=1e-9)


@every_model
@every_adjacency
def test_what_is_on_the_books_is_what_the_plan_declares(name, adjacency, tmp_path):
    ledger = BudgetLedger(
        tmp_path / "books.db", epsilon=9.0, delta=1e-5, adjacency=adjacency
    )
    model = unfitted(name, adjacency=adjacency, ledger=ledger, random_state=None)
    fit(model, frame(300))
    (spend,) = ledger.spends()
    assert spend.event == model.privacy_.event
    assert 0.99 * 2 < epsilon_of(spend.event, model.delta) <= 2
    sums, *_ = spend.event.leaves
    assert sums.gdp_mu_squared == pytest.approx(
        0.1 * spend.event.gdp_mu_squared, rel=1e-2
    )
    told = model.privacy_.solver_params["preconditioning"]
    assert told == {
        "share": 0.1,
        "reads_columns": True,
        "reads_targets": isinstance(model, DPLinearRegression),
        "power": 0.0,
        "clip": 1.0,
    }


def test_broken_twin_that_books_the_fit_alone_is_found(tmp_path, monkeypatch):
    honest = Preconditioned.plan

    def plan(self, objective):
        lines = honest(self, objective).lines
        return Plan(lines, lambda z: lines[1].event(z, objective.adjacency))

    monkeypatch.setattr(Preconditioned, "plan", plan)
    with pytest.raises(AssertionError):
        test_what_is_on_the_books_is_what_the_plan_declares(
            "logistic", "zero_out", tmp_path
        )


@every_model
def test_pickles_and_clones(name):
    X = frame(200)
    model = fit(unfitted(name), X)
    stored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(decision(stored, X), decision(model, X))
    again = clone(model)
    assert again.preconditioning == PAID
    assert not any(hasattr(again, attribute) for attribute in ATTRIBUTES)


@every_model
def test_fitted_anew_without_centring(name):
    X = frame(200)
    model = fit(unfitted(name), X)
    assert all(hasattr(model, attribute) for attribute in ATTRIBUTES)
    fit(model.set_params(preconditioning=None), X)
    assert not any(hasattr(model, attribute) for attribute in ATTRIBUTES)
    plain = fit(unfitted(name, preconditioning=None), X)
    assert np.array_equal(decision(model, X), decision(plain, X))


@every_model
def test_without_privacy_nothing_changes(name):
    X = frame(200)
    models = [
        fit(unfitted(name, preconditioning=given).set_params(epsilon=math.inf), X)
        for given in ("auto", None, PAID)
    ]
    assert not any(hasattr(model, "center_") for model in models)
    first, *others = (decision(model, X) for model in models)
    assert all(np.array_equal(first, other) for other in others)


def test_effects_are_linear_readings():
    """Of rows within the norm; coefficients count in units of the features."""
    X = frame(400)
    model = fit(unfitted("logistic", preconditioning=Preconditioning(clip=100.0)), X)
    out = X.assign(is_in=False)
    X = X.assign(is_in=True)
    table = model.effects()["is_in"].set_index("value")["effect"]
    changes = decision(model, X) - decision(model, out)
    assert np.allclose(changes, table[True] - table[False], rtol=1e-9, atol=1e-9)


# ----------------------------------------------------------------- through the one door


def solved(case, source, ledger=None, noise=None):
    door = OpenDoor(BUDGET, adjacency=case.adjacency, ledger=ledger, noise=noise)
    return solve(
        case.solver, source, case.objective, door, label="fit", progress=Progress()
    )


@every_adjacency
@every_inner
def test_nothing_is_read_before_the_commit(inner, adjacency, tmp_path):
    case, diary = Case(inner, "logistic", adjacency), []
    SpyLedger.diary = diary
    ledger = SpyLedger(
        tmp_path / "books.db", epsilon=9.0, delta=1e-5, adjacency=adjacency
    )
    solved(case, SpySource(case.pair[0], diary), ledger)
    # Once for the sums; centred once for all answers of the fit.
    assert diary == ["commit", "read", "read"]


def test_a_refused_fit_reads_and_spends_nothing(tmp_path):
    case, diary = Case("noisy_gd", "logistic", "zero_out"), []
    ledger = BudgetLedger(
        tmp_path / "books.db", epsilon=0.5, delta=1e-5, adjacency="zero_out"
    )
    with pytest.raises(BudgetExceeded):
        solved(case, SpySource(case.pair[0], diary), ledger)
    assert diary == []
    assert not ledger.spends()


@every_adjacency
@every_inner
def test_noise_drawn_is_noise_declared(inner, adjacency):
    case, noise = Case(inner, "softmax", adjacency), SpyNoise(seed=0)
    solution, answers = solved(case, case.pair[0], noise=noise)
    z, (sums, part) = answers.noise_multiplier, case.plan.lines
    assert case.solver.plan(case.objective) == case.plan
    first, *others = noise.draws
    assert first.noise_multiplier == z * sums.multiple
    assert first.sensitivity >= case.solver.sums(case.objective).bound().under(
        adjacency
    )
    declared = [
        line.multiplier(part.multiplier(z))
        for line in part.plan.lines
        for _ in range(line.times)
    ]
    assert [draw.noise_multiplier for draw in others] == declared
    worst = case.solver.sensitivity(case.objective) * (1 + 1e-6)
    assert all(draw.sensitivity <= worst for draw in others)
    assert solution.noise_scale == max(draw.sigma for draw in others)


def test_centring_follows_from_the_release_alone():
    """Neither order nor values of the records have a part beside the noisy sums."""
    case, noise = Case("noisy_gd", "logistic", "zero_out"), SpyNoise(seed=0)
    solution, _ = solved(case, case.pair[0], noise=noise)
    draw, parts = noise.draws[0], case.solver.states.parts
    n = case.objective.n_samples
    margins = shrunk_margins(draw.released / n, draw.sigma / n, parts)
    expected = case.solver.centring(margins)
    assert isinstance(solution, CentredSolution)
    assert np.array_equal(solution.centring.centre, expected.centre)
    assert np.array_equal(solution.centring.scale, expected.scale)
    assert solution.centring.norm == expected.norm


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_only_null_records_and_one_record_return_normally(share):
    case = Case("noisy_gd", "squared", "zero_out", share=share)
    first = case.pair[0]
    gone = np.zeros(first.n_samples, dtype=bool)
    (block,) = MemorySource(*_data(first)).blocks()
    solution, _ = solved(case, MemorySource(block.X, block.y, gone))
    assert np.isfinite(solution.weights).all()


def _data(source):
    whole = source.whole()
    return whole.X, whole.y, whole.present


# --------------------------------------------------------------------- its parameters


@pytest.mark.parametrize("value", ["always", 0.1, True, Preconditioning])
def test_another_value_is_refused(value):
    model = unfitted("logistic", preconditioning=value)
    with pytest.raises(ValueError, match="'auto', None or a Preconditioning"):
        model.fit(frame(), np.arange(60) % 2)


@pytest.mark.parametrize(
    "params",
    [{"share": -0.1}, {"share": 0.95}, {"power": 1.5}, {"clip": 0.0}, {"clip": "x"}],
)
def test_numbers_out_of_range_are_refused(params):
    (name,) = params
    with pytest.raises((ValueError, TypeError), match=name):
        Preconditioning(**params)


REFUSED = [
    ({"delta": 0.0}, "delta=0"),
    ({"C": 1.0}, "C or alpha"),
    ({"fit_intercept": False}, "fit_intercept=False"),
    ({"solver": "objective_perturbation"}, "objective_perturbation"),
    ({"solver": "noisy_sgd"}, "noisy_sgd"),
    ({"solver": "noisy_gd", "solver_params": {"release": "last"}}, "release='last'"),
    (
        {"solver": "nesterov", "solver_params": {"law": "spherical", "n_steps": 1}},
        "not Gaussian",
    ),
    (
        {
            "solver": "heavy_ball",
            "solver_params": {"law": "spherical", "n_steps": 1, "batch_size": 5},
        },
        "not Gaussian",
    ),
    ({"solver": "heavy_ball", "solver_params": {"batch_size": 5}}, "batch_size"),
]


@pytest.mark.parametrize(("params", "text"), REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_spent(
    params, text, tmp_path
):
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=9.0, delta=1e-5)
    model = unfitted("logistic", ledger=ledger, random_state=None, **params)
    with pytest.raises(Refused, match=text):
        fit(model, frame(300))
    assert not ledger.spends()
    assert not hasattr(model, "center_")


def test_it_needs_columns(tmp_path):
    model = unfitted("logistic", columns=None)
    with pytest.raises(ValueError, match="Declare the columns"):
        fit(model, np.zeros((9, 2)))


ASIDE = [
    {"delta": 0.0},
    {"C": 1.0},
    {"fit_intercept": False},
    {"solver": "noisy_gd"},
    {"solver": "objective_perturbation"},
]


@pytest.mark.parametrize("params", ASIDE)
def test_auto_stands_aside(params):
    X = frame(300)
    model = fit(unfitted("logistic", preconditioning="auto", **params), X)
    plain = fit(unfitted("logistic", preconditioning=None, **params), X)
    assert not hasattr(model, "center_")
    assert np.array_equal(decision(model, X), decision(plain, X))
    if "fit_intercept" in params:
        assert not model.intercept_.any()


@every_inner
def test_named_solvers_take_centred_rows(inner):
    model = fit(unfitted("logistic", solver=inner), frame(300))
    assert model.privacy_.solver == inner
    assert hasattr(model, "center_")


def test_a_centre_for_nothing_is_public():
    free = Preconditioning(share=0.0)
    models = [
        fit(unfitted("logistic", preconditioning=free), frame(300, seed))
        for seed in (0, 1)
    ]
    for attribute in ATTRIBUTES:
        values = [getattr(model, attribute) for model in models]
        assert np.array_equal(*values)
    assert len(models[0].privacy_.event.leaves) == 1


def test_errors_and_warnings_say_the_same_of_other_data():
    said = []
    for seed in (0, 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = unfitted("logistic", random_state=None)
            model.fit(frame(300, seed), np.zeros(300, dtype=int))
        said.append([str(warning.message) for warning in caught])
        said.append([model.privacy_.warnings, model.privacy_.solver_params])
    assert said[:2] == said[2:]


# ------------------------------------------------------------------- several together


def test_it_adds_up_in_squares():
    assert unfitted("logistic", solver="noisy_gd").step_privacy().adds_in_squares
    pipeline = make_pipeline(
        DPStandardScaler(bounds=(-1, 1)), unfitted("logistic", columns=Range(-3, 3))
    )
    pipeline.set_params(dplogisticregression__random_state=None)
    pipeline = set_budget(pipeline, epsilon=1.0, delta=1e-6)
    X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    fit(pipeline, X)
    scaler, model = (step for _, step in pipeline.steps)
    together = sum(s.privacy_.event.gdp_mu_squared for s in (scaler, model))
    assert 0.99 < math.sqrt(together) / gaussian_mu(1.0, 1e-6) <= 1
    assert hasattr(model, "center_")


def test_a_search_is_charged_for_it(tmp_path):
    X = frame(600)
    ledger = BudgetLedger(tmp_path / "books.db", epsilon=9.0, delta=1e-5)
    model = unfitted("logistic", random_state=None).set_params(epsilon=1.0)
    grid = {"preconditioning": [None, PAID, Preconditioning(share=0.3, clip=2.0)]}
    search = DPGridSearchCV(model, grid, epsilon=4.0, ledger=ledger, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, np.arange(600) % 2)
    assert search.predict(X).shape == (600,)
    events = [spend.event for spend in ledger.spends()]
    assert len(events) == 1
    assert epsilon_of(events[0], 1e-6) <= 4.0


# ------------------------------------------------------------- margins: post-processing


def test_the_nearest_shares_are_shares():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 40):
        for spread in (1e-9, 1.0, 1e3, 1e18, 1e300):
            found = on_simplex(spread * rng.normal(size=size))
            assert (found >= 0).all()
            if spread <= 1e3:
                assert found.sum() == pytest.approx(1)
    given = np.array([0.2, 0.5, 0.3])
    assert np.allclose(on_simplex(given), given)
    # Against a search over a grid.
    point = np.array([0.9, 0.4, -0.5])
    grid = [
        np.array([a, b, 1 - a - b])
        for a in np.linspace(0, 1, 101)
        for b in np.linspace(0, 1 - a, 101)
    ]
    best = min(grid, key=lambda share: np.linalg.norm(share - point))
    assert np.allclose(on_simplex(point), best, atol=0.01)


def test_noise_alone_is_spread_evenly():
    rng = np.random.default_rng(0)
    parts, n, deviation = (5, 2, 9), 1000, 400.0
    truth = np.concatenate([[n, 0, 0, 0, 0], [n, 0], np.full(9, n / 9)])
    clear = shrunk_margins(truth / n, 0.0, parts)
    assert np.allclose(clear, truth / n, atol=2e-3)
    noisy = even_margins(parts) + rng.normal(size=16) / n
    drowned = shrunk_margins(noisy, deviation / n, parts)
    assert np.allclose(drowned, even_margins(parts), atol=1e-9)
    assert [p.sum() for p in np.split(clear, [5, 7])] == pytest.approx([1, 1, 1])


def test_moments_are_those_of_a_table_of_these_shares():
    rng = np.random.default_rng(0)
    states = rng.integers(0, 4, size=5000)
    basis = rng.normal(size=(4, 3))
    shares = np.bincount(states, minlength=4) / 5000
    found = Moments.of(shares, csr_array(basis))
    rows = basis[states]
    assert np.allclose(found.mean, rows.mean(axis=0))
    assert np.allclose(found.variance, rows.var(axis=0))


@pytest.mark.parametrize("released", [0.0, 1e12, -1e12, 1e300])
def test_any_release_makes_a_centring(released):
    """Signs and sizes that noise alone could give."""
    solver = Case("noisy_gd", "logistic", "zero_out").solver
    sums = np.full(sum(solver.states.parts), released)
    sums[0] = -released
    with np.errstate(all="ignore"):  # as `solve` does
        margins = shrunk_margins(sums / 50, 3.0 / 50, solver.states.parts)
        centring = solver.centring(margins)
    assert np.isfinite([*centring.centre, *centring.scale]).all()
    assert 0 < centring.norm < math.inf


@pytest.mark.parametrize("released", [0.0, 1e12, -1e12, 1e300])
def test_any_release_makes_a_scale_of_targets(released):
    shares = np.full(33, released)
    shares[3] = -released
    with np.errstate(all="ignore"):  # as `solve` does
        found = target_scale(shares, 0.1)
    assert -1 <= found.middle <= 1
    assert 1 / 16 <= found.half <= 2
    assert np.abs(found.of(np.array([-1.0, 0.0, 1.0]))).max() <= 1


def test_targets_in_a_corner_are_told_apart():
    """The scale of targets is that of the release, and undone in what is predicted."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(size=20_000)})
    y = 3 + X["a"] / 10
    model = DPLinearRegression(
        columns={"a": (0, 1)}, target_bounds=(0, 100), random_state=0
    ).fit(X, y)
    assert np.abs(model.predict(X) - y).max() < 3


def test_columns_that_do_not_vary():
    X = pd.DataFrame({"a": [True] * 300, "b": [0.5] * 300})
    columns = {"a": Boolean(), "b": Range(0, 1)}
    model = fit(unfitted("logistic", columns=columns), X)
    assert np.isfinite(decision(model, X)).all()
    assert model.row_norm_ > 0


def test_budgets_and_searches_centre_too():
    """All of a centred fit adds up in squares, so nobody has to name its solver."""
    first = SelectFromModel(DPLogisticRegression())
    model = DPLogisticRegression(columns=DECLARED, classes=[0, 1])
    for penalty, solver in ((None, "auto"), (1.0, "noisy_gd")):
        both = make_pipeline(first, clone(model).set_params(C=penalty))
        assert set_budget(both, epsilon=1.0, delta=1e-6)[-1].solver == solver
    grid = {"preconditioning": ["auto", PAID]}
    search = DPGridSearchCV(model, grid, epsilon=5.0, method="composition")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(frame(400), np.arange(400) % 2)
    assert hasattr(search.best_estimator_, "center_")
