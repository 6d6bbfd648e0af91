"""set_budget: shares recomputed from the textbook, and never more than the whole."""

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import skdp.pipeline._budget as budget_module
from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPLogisticRegression,
    DPStandardScaler,
    privacy_report,
    set_budget,
)
from skdp.exceptions import UnaccountedStepError
from skdp.pipeline._budget import set_budget_in_place
from skdp.pipeline._walk import private_steps
from skdp.privacy import Budget
from tests.pipeline.closed_forms import SpyStep, exact_delta, exact_epsilon, exact_mu

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(150, 4))
Y = RNG.integers(0, 2, 150)


def model(**params):
    return DPLogisticRegression(classes=[0, 1], **params)


def chain(*steps):
    return Pipeline([(f"s{i}", step) for i, step in enumerate(steps)])


def mus(pipeline, delta):
    return [exact_mu(step.epsilon, delta) for _, step in private_steps(pipeline)]


def check_squares(pipeline, weights, epsilon, delta):
    """mu^2 in proportion to the weights, and nearly all of the budget in use."""
    steps = [step for _, step in private_steps(pipeline)]
    assert {step.delta for step in steps} == {delta}
    squares = np.square(mus(pipeline, delta))
    shares = np.array(weights) / sum(weights)
    np.testing.assert_allclose(squares / squares.sum(), shares, rtol=1e-5)
    # The whole, asked as a delta: at the budget's epsilon it is at most its delta.
    spent = exact_delta(math.sqrt(squares.sum()), epsilon)
    assert 0.999 * delta <= spent <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_steps"), [(0.05, 1e-9, 2), (1.0, 1e-5, 3), (8.0, 1e-9, 7)]
)
def test_gaussian_steps_share_the_squares(epsilon, delta, n_steps):
    pipeline = chain(*(SpyStep() for _ in range(n_steps)))
    result = set_budget(pipeline, epsilon=epsilon, delta=delta)
    check_squares(result, [1.0] * (n_steps - 1) + [3.0], epsilon, delta)
    report = privacy_report(result)
    assert report.epsilon <= epsilon
    assert report.delta <= delta
    assert report.epsilon >= 0.999 * epsilon


def test_weights_by_path_and_by_last_part():
    pipeline = Pipeline(
        [
            ("both", FeatureUnion([("a", SpyStep()), ("b", SpyStep())])),
            ("c", make_pipeline(Normalizer(), SpyStep())),
        ]
    )
    named = {"both/a": 5.0, "b": 0.5}
    result = set_budget(pipeline, epsilon=1.0, delta=1e-6, weights=named)
    check_squares(result, [5.0, 0.5, 3.0], 1.0, 1e-6)


@pytest.mark.parametrize(
    "weights",
    [
        *({"no": 1.0}, {"both/a": 1.0, "a": 2.0}, {"x": 1.0}, {"free": 2.0}),
        *({"both": 1.0}, {"y/x": 0.0}, {"y/x": math.nan}, {"y/x": None}, [1.0], 2.0),
    ],
)
def test_unknown_and_ambiguous_names_are_refused(weights):
    inner = [("x", SpyStep()), ("a", SpyStep())]
    pipeline = Pipeline(
        [("both", FeatureUnion(inner)), ("free", Normalizer()), ("x", SpyStep())]
    )
    pipeline.steps[2] = ("y", FeatureUnion([("x", SpyStep())]))
    with pytest.raises((ValueError, TypeError), match="weights"):
        set_budget(pipeline, epsilon=1.0, delta=1e-6, weights=weights)


def test_pure_steps_share_epsilon():
    pipeline = chain(SpyStep(), SpyStep(), SpyStep())
    result = set_budget(pipeline, epsilon=1.0, delta=0)
    steps = [step for _, step in private_steps(result)]
    np.testing.assert_allclose([s.epsilon for s in steps], [0.2, 0.2, 0.6], rtol=1e-9)
    assert [s.delta for s in steps] == [0, 0, 0]
    report = privacy_report(result)
    assert report.epsilon <= 1.0
    assert report.delta == 0


def test_other_mechanisms_get_basic_shares():
    pipeline = chain(SpyStep(adds=False), SpyStep(), SpyStep())
    result = set_budget(pipeline, epsilon=1.0, delta=1e-5)
    other, *gaussian = [step for _, step in private_steps(result)]
    assert (other.epsilon, other.delta) == pytest.approx((0.2, 2e-6), rel=1e-9)
    delta = gaussian[0].delta
    assert delta == pytest.approx(8e-6, rel=1e-9)
    squares = [exact_mu(step.epsilon, delta) ** 2 for step in gaussian]
    assert squares[1] / squares[0] == pytest.approx(3, rel=1e-5)
    assert exact_epsilon(math.sqrt(sum(squares)), delta) <= 0.8
    report = privacy_report(result)
    assert 0.999 < report.epsilon <= 1.0
    assert 0.999e-5 < report.delta <= 1e-5


@pytest.mark.parametrize(
    ("solver", "delta"),
    [("auto", 1e-6), ("auto", 0), ("objective_perturbation", 1e-6)],
)
def test_fits_spend_no_more_than_planned(tmp_path, solver, delta):
    # A ledger charges objective perturbation more than its own epsilon; all else may
    # use up the cap if nothing is set aside.
    is_mixture = solver == "objective_perturbation" and delta > 0
    cap, reserve = (1.2, {"reserve_epsilon": 0.3}) if is_mixture else (1.0, {})
    ledger = BudgetLedger(
        tmp_path / "l.db",
        epsilon=cap,
        delta=delta,
        **reserve or {"reserve_delta": 0.0},
    )
    columns = ColumnTransformer(
        [("n", BoundedScaler((0, 1)), [0, 1, 2]), ("p", "passthrough", [3])],
        sparse_threshold=0,
    )
    pipeline = chain(
        columns,
        SelectFromModel(model(solver=solver, ledger=ledger), threshold=0),
        model(ledger=ledger),
    )
    result = set_budget(pipeline, epsilon=1.0, delta=delta)
    planned = privacy_report(result)
    (word,) = planned.ledgers
    assert ("by their events" if is_mixture else "has room for these") in word
    assert "charges" in word or word in repr(planned)
    spent = privacy_report(result.fit(X, Y))
    (word,) = spent.ledgers
    assert f"has spent epsilon {ledger.spent().epsilon:.4g} at" in word
    assert spent.state == "spent"
    assert spent.epsilon <= planned.epsilon <= 1.0
    assert spent.delta <= planned.delta <= delta
    assert len(ledger.spends()) == 2
    again = set_budget(result, epsilon=2.0, delta=delta)
    assert privacy_report(again).state == "planned"


def test_the_argument_is_not_changed_and_nothing_is_fitted():
    pipeline = chain(PCA(), SpyStep(), FeatureUnion([("a", SpyStep(2.0, 0.1))]))
    before = repr(pipeline)
    for vouched in ([pipeline[0]], [PCA]):
        facts = {"epsilon": 1.0, "delta": 1e-6, "data_independent": vouched}
        result = set_budget(pipeline, **facts)
        assert privacy_report(result, data_independent=[PCA]).epsilon <= 1.0
    assert repr(pipeline) == before


def test_forgetting_a_step_is_caught(monkeypatch):
    """Broken twin: one step keeps the whole budget; the self-check finds it."""

    def forgetful(shares, whole, budget):
        budget_module._set(shares[0], budget)

    monkeypatch.setattr(budget_module, "_share_squares", forgetful)
    with pytest.raises(RuntimeError, match="report"):
        set_budget(chain(SpyStep(), SpyStep()), epsilon=1.0, delta=1e-6)
    monkeypatch.undo()
    share = budget_module._epsilon_within  # 0.1 % too much for each step
    monkeypatch.setattr(
        budget_module, "_epsilon_within", lambda *given: 1.001 * share(*given)
    )
    with pytest.raises(RuntimeError, match="report"):
        set_budget(chain(SpyStep(), SpyStep()), epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("estimator", "error", "match"),
    [
        (chain(Normalizer()), ValueError, "private step"),
        (chain(SpyStep(random_state=0)), ValueError, "random_state"),
        (chain(StandardScaler(), SpyStep()), UnaccountedStepError, "BoundedScaler"),
        (chain(BaggingClassifier(SpyStep())), UnaccountedStepError, "more than once"),
        (chain(FrozenEstimator(SpyStep()), SpyStep()), ValueError, "fitted before"),
        (chain(SelectFromModel(SpyStep(), prefit=True)), ValueError, "fitted before"),
        (SpyStep, TypeError, "'estimator' parameter"),
    ],
)
def test_what_cannot_be_split_is_refused(estimator, error, match):
    with pytest.raises(error, match=match):
        set_budget(estimator, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 1e-6), (math.inf, 1e-6), (math.nan, 0), (1, 1), ("1", 0)],
)
def test_a_budget_out_of_range_is_refused(epsilon, delta):
    with pytest.raises((ValueError, TypeError), match=r"epsilon|delta"):
        set_budget(chain(SpyStep(), SpyStep()), epsilon=epsilon, delta=delta)


def test_private_steps_are_live_and_follow_the_parameters():
    fitted = chain(
        FeatureUnion([("a", SelectFromModel(model(), threshold=0))]), model()
    ).fit(X, Y)
    steps = private_steps(fitted)
    assert [path for path, _ in steps] == ["s0/a/estimator", "s1"]
    assert steps[0][1] is fitted["s0"].transformer_list[0][1].estimator
    assert steps[1][1] is fitted["s1"]
    plan = chain(SpyStep(), SpyStep())
    set_budget_in_place(plan, Budget(1.0, 1e-6), {"s0": 3.0})
    check_squares(plan, [3.0, 3.0], 1.0, 1e-6)


def test_steps_of_different_relations_share_no_budget():
    model = make_pipeline(
        DPStandardScaler(bounds=(0, 1)), DPLogisticRegression(adjacency="zero_out")
    )
    with pytest.raises(ValueError, match=r"same adjacency.*replace_one.*zero_out"):
        set_budget(model, epsilon=1.0, delta=1e-6)


def test_report_says_that_a_ledger_has_no_room(tmp_path):
    """Before anything is spent, where the second of two fits would be refused."""
    ledger = BudgetLedger(tmp_path / "l.db", epsilon=1.0, delta=1e-6)
    first = SelectFromModel(model(solver="noisy_gd", ledger=ledger), threshold=0)
    pipeline = chain(first, model(solver="noisy_gd", ledger=ledger))
    (word,) = privacy_report(set_budget(pipeline, epsilon=1.0, delta=1e-6)).ledgers
    assert "besides what is spent, it reserves epsilon=0 and delta=5e-07" in word
    (word,) = privacy_report(set_budget(pipeline, epsilon=0.9, delta=1e-6)).ledgers
    assert "has room for these steps" in word
    assert ledger.spends() == []
    Path(ledger.path).unlink()
    assert privacy_report(pipeline).ledgers == ()


@pytest.mark.parametrize(("delta", "named"), [(0, "a step"), (1e-3, "s0")])
def test_too_small_a_share_is_refused(delta, named):
    pipeline = chain(SpyStep(), SpyStep())
    with pytest.raises(ValueError, match=f"share of {named} must be at least"):
        set_budget(pipeline, epsilon=1e-5, delta=delta, weights={"s0": 1e-9})
