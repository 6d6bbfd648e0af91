"""What all private transformers promise: order, books, silence, range of what comes."""

from __future__ import annotations

import math
import pickle
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp import (
    DPGridSearchCV,
    DPLogisticRegression,
    DPSimpleImputer,
    privacy_report,
    set_budget,
)
from skdp.exceptions import (
    BudgetExceeded,
    LargeDeltaWarning,
    SeededNoiseWarning,
    UnplannedEventError,
)
from skdp.preprocessing import _private
from skdp.privacy import GaussianEvent, PureEvent, epsilon_of
from skdp.privacy.ledger._allowance import Allowance
from skdp.privacy.release import _door
from tests.preprocessing.steps import (
    STEPS,
    make_rows,
    make_step,
    note_reads,
)
from tests.problems import make_ledger
from tests.spies import SpyArray, SpyLedger, SpyNoise

SECRET = 123456.789
by_step = pytest.mark.parametrize("name", STEPS)
by_delta = pytest.mark.parametrize("delta", [1e-6, 0.0])


def outputs(step):
    """Fitted arrays that are private outputs."""
    names = ("mean_", "var_", "scale_", "low_", "high_", "statistics_", "components_")
    names += ("explained_variance_",)
    return {name: vars(step)[name] for name in names if name in vars(step)}


def order_of(name, monkeypatch, folder):
    """What happened to the data and to the books in one fit."""
    diary = SpyLedger.diary = []
    note_reads(monkeypatch, name, diary)
    ledger = SpyLedger(folder / "ledger.db", epsilon=3.0, delta=1e-6)
    make_step(name, ledger=ledger).fit(SpyArray(make_rows(), "X", diary))
    return diary


@by_step
def test_nothing_is_read_before_the_commit(name, monkeypatch, tmp_path):
    diary = order_of(name, monkeypatch, tmp_path)
    n_reads = STEPS[name][1].get("n_steps", 1)
    assert diary == ["convert X", "commit"] + n_reads * ["read"]


@by_step
def test_broken_twin_that_peeks_is_seen_by_the_diary(name, monkeypatch, tmp_path):
    honest = _private.PrivateTransformer._release

    def peek(self, query, source, budget, **facts):
        list(source.blocks())
        return honest(self, query, source, budget, **facts)

    monkeypatch.setattr(_private.PrivateTransformer, "_release", peek)
    diary = order_of(name, monkeypatch, tmp_path)
    assert diary.index("read") < diary.index("commit")


@by_step
@pytest.mark.parametrize(
    ("adjacency", "delta"), [("replace_one", 1e-6), ("zero_out", 0.0)]
)
def test_the_noise_drawn_is_the_noise_declared(name, adjacency, delta, monkeypatch):
    spies = []

    def spy(seed):
        spies.append(SpyNoise(seed=seed))
        return spies[-1]

    monkeypatch.setattr(_door, "NoiseSource", spy)
    step = make_step(name, adjacency=adjacency, delta=delta).fit(make_rows())
    record, draws = step.privacy_, spies[0].draws
    assert len(draws) == record.event.count == STEPS[name][1].get("n_steps", 1)
    kind = GaussianEvent if delta else PureEvent
    assert isinstance(record.event, kind)
    assert 0.999 < epsilon_of(record.event, delta) <= 1.0
    for draw in draws:
        assert draw.law == ("gaussian" if delta else "spherical")
        assert draw.noise_multiplier == pytest.approx(record.noise_multiplier)
        stated = record.sensitivity
        assert stated <= draw.sensitivity <= stated * (1 + 1e-9)
        sigma = draw.sigma * (1 if delta else math.sqrt(draw.query.size + 1))
        assert record.noise_scale == pytest.approx(sigma)


@by_step
def test_the_ledger_is_charged_once_and_named(name, tmp_path):
    ledger = make_ledger(tmp_path, epsilon=1.5, dataset="study")
    step = make_step(name, ledger=ledger).fit(make_rows())
    (spend,) = ledger.spends()
    assert spend.event == step.privacy_.event
    assert type(step).__name__ in spend.label
    assert (step.privacy_.ledger, step.privacy_.dataset) == (ledger.path, "study")
    planned, spent = clone(step).step_privacy(), step.step_privacy()
    assert planned.epsilon == spent.epsilon == 1.0
    assert planned.adds_in_squares
    assert not clone(step).set_params(delta=0.0).step_privacy().adds_in_squares
    assert spent.event == spend.event
    step.transform(make_rows())
    assert len(ledger.spends()) == 1
    again = make_step(name, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        again.fit(make_rows())
    assert not hasattr(again, "privacy_")
    assert not hasattr(again, "n_features_in_")


@by_step
def test_pipelines_and_searches_pay_for_every_step_once(name):
    X = make_rows(300)
    labels = (X[:, 0] > 0).astype(int)
    model = DPLogisticRegression(classes=[0, 1], solver="noisy_gd")
    steps = make_pipeline(make_step(name), model)
    steps = set_budget(steps, epsilon=1.0, delta=1e-6).fit(X, labels)
    assert 0.99 < privacy_report(steps).epsilon <= 1.0
    free = DPSimpleImputer(strategy="constant", fill_value=0.0)
    steps = make_pipeline(free, make_step(name), model)
    grid = {"dplogisticregression__C": [0.1, 1.0]}
    best = DPGridSearchCV(steps, grid, epsilon=2.0).fit(X, labels).best_estimator_
    assert privacy_report(best).epsilon == pytest.approx(2.0)
    assert not hasattr(best[0], "privacy_")
    assert best[1].privacy_.release


@by_step
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (math.inf, 1e-6)])
def test_rehearsal_reads_nothing_and_all_goes_on(name, epsilon, delta, monkeypatch):
    diary = []
    note_reads(monkeypatch, name, diary)
    X = make_rows()
    rehearsal = Allowance("replace_one", "record")
    step = make_step(name, epsilon=epsilon, delta=delta, ledger=rehearsal).fit(X)
    assert diary == []
    assert len(rehearsal.noted) == 1
    assert np.isfinite(step.transform(X)).all()
    other = clone(step).fit(5 * X)
    for key, value in outputs(step).items():
        assert np.array_equal(value, outputs(other)[key])
    noted = rehearsal.noted[0]
    if math.isinf(epsilon):
        return  # no trial may release anything without noise
    strength = noted
    if delta > 0:
        strength = GaussianEvent(1 / math.sqrt(noted.mu_squared))
    trial = Allowance("replace_one", "record", strength)
    real = clone(step).set_params(ledger=trial).fit(X)
    assert diary
    assert real.privacy_.event == noted
    with pytest.raises(UnplannedEventError, match="Nothing was read"):
        clone(real).fit(X)


def public_traces(step, X):
    """Everything a fit shows of itself, apart from its private outputs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step.fit(X).transform(X)
    shapes = {
        name: getattr(value, "shape", None)
        for name, value in vars(step).items()
        if name.endswith("_")
    }
    return shapes, step.privacy_.to_dict(), [str(warning.message) for warning in caught]


@by_step
@by_delta
def test_nothing_but_the_outputs_depends_on_the_data(name, delta):
    rows = [make_rows(), np.zeros((200, 3)), 1e308 * np.sign(make_rows())]
    if name == "imputer":
        rows += [np.full((200, 3), math.nan)]
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            typed = [X.astype(dtype) for X in rows]
        typed = [X for X in typed if not np.isinf(X).any()]
        traces = [
            public_traces(make_step(name, random_state=0, delta=delta), X)
            for X in typed
        ]
        assert all(trace == traces[0] for trace in traces)


@by_step
@pytest.mark.parametrize(
    ("epsilon", "delta", "n"), [(1e-6, 1e-6, 1), (1e8, 0.0, 2), (1e-3, 0.0, 500)]
)
def test_whatever_is_released_all_that_follows_works(name, epsilon, delta, n):
    X = make_rows(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeDeltaWarning)
        step = make_step(name, epsilon=epsilon, delta=delta).fit(X)
    for value in outputs(step).values():
        assert np.isfinite(value).all()
    wild = np.array([[1e308, -1e308, 1e308], [5e-324, 0.0, -0.0]])
    for rows in (X, wild):
        out = step.transform(rows)
        assert np.isfinite(out).all()
        if hasattr(step, "data_norm_"):
            assert np.linalg.norm(out, axis=1).max() <= step.data_norm_ + 1e-12


@by_step
def test_types_names_and_copies(name):
    X = make_rows().astype(np.float32)
    step = make_step(name).fit(X)
    out = step.transform(np.vstack([X, np.full((1, 3), 3e38, dtype=np.float32)]))
    assert out.dtype == np.float32
    assert np.isfinite(out).all()
    again = pickle.loads(pickle.dumps(step))
    assert np.array_equal(step.transform(X), again.transform(X))
    assert again.privacy_ == step.privacy_
    assert step.privacy_.to_json()
    frame = pd.DataFrame(make_rows(), columns=["age", "income", "hours"])
    out = make_step(name).set_output(transform="pandas").fit(frame).transform(frame)
    names = ["dppca0", "dppca1"] if name == "pca" else list(frame.columns)
    assert list(out.columns) == names
    with pytest.raises(ValueError, match="feature names"):
        make_step(name).fit(frame).transform(frame.rename(columns={"age": "years"}))


@by_step
def test_what_is_not_private_says_so(name, tmp_path):
    X = make_rows()
    with pytest.warns(SeededNoiseWarning):
        step = make_step(name, random_state=3).fit(X)
    assert not step.privacy_.is_private
    assert step.privacy_.epsilon == step.step_privacy().epsilon == math.inf
    again = clone(step).fit(X)
    for key, value in outputs(step).items():
        assert np.array_equal(value, outputs(again)[key])
    exact = make_step(name, epsilon=math.inf).fit(X)
    assert exact.privacy_.solver == "exact"
    assert "NOT a private release" in exact.privacy_.statement()
    ledger = make_ledger(tmp_path)
    for params in ({"random_state": 3}, {"epsilon": math.inf}):
        with pytest.raises(ValueError, match="accepts only private fits"):
            make_step(name, ledger=ledger, **params).fit(X)
    assert ledger.spends() == []
    with pytest.warns(LargeDeltaWarning) as caught:
        step = make_step(name, delta=0.1).fit(X)
    assert step.privacy_.warnings
    assert caught[0].filename == __file__


BAD_BOUNDS = [None, (1, 1), (0, math.inf), "ab", ([0, 0], [1, 1]), {"x": (0, 1)}]
QUANTILES = (None, 0.5, (0.9, 0.1), (-0.1, 0.5))
BAD_PARAMS = {
    "scaler": [("epsilon", 0.0), *(("bounds", bounds) for bounds in BAD_BOUNDS)],
    "imputer": [("bounds", (3, 2)), ("strategy", "median"), ("delta", 1.0)],
    "clipper": [
        ("bounds", (math.nan, 1)),
        ("adjacency", "add_remove"),
        ("scale", 1),
        *(("quantiles", value) for value in QUANTILES),
        *(("n_steps", value) for value in (0, 41, 2.5, True)),
    ],
    "pca": [
        *(("n_components", value) for value in (0, 4, "mle")),
        *(("data_norm", value) for value in (0, math.inf, None)),
        ("center", "yes"),
        ("ledger", "study.db"),
    ],
}
BAD_DATA = [
    (np.full((9, 3), math.inf), "infinity"),
    (np.zeros((0, 3)), "0 sample"),
    (np.zeros(9), "1D array"),
    (np.zeros((9, 3)) + 1j, "Complex"),
    (np.array([["a", str(SECRET) + "x", "1"]] * 9), "array of numbers"),
    (pd.DataFrame({"work": ["private", str(SECRET)] * 5}), r"\['work'\]"),
    (np.ma.masked_array(np.full((4, 3), SECRET), mask=True), "mask"),
    (csr_array(np.ones((9, 3))), "[Ss]parse"),
    (np.array([[10**400] * 3] * 4, dtype=object), "array of numbers"),
]


def assert_refused(step, X, match, ledger):
    before = dict(vars(step))
    with pytest.raises((TypeError, ValueError), match=match) as caught:
        step.fit(X)
    assert dict(vars(step)) == before
    assert ledger.spends() == []
    assert str(SECRET) not in "".join(traceback.format_exception_only(caught.value))


@by_step
def test_bad_parameters_and_data_spend_nothing(name, tmp_path):
    ledger = make_ledger(tmp_path)
    for key, value in BAD_PARAMS[name]:
        step = make_step(name, **({"ledger": ledger} | {key: value}))
        assert_refused(step, make_rows(), key, ledger)
    for X, match in BAD_DATA:
        assert_refused(make_step(name, ledger=ledger), X, match, ledger)


def test_too_small_an_epsilon_for_pure_noise_is_refused():
    step = make_step("clipper", epsilon=1e-6, delta=0, n_steps=40)
    with pytest.raises(ValueError, match="larger epsilon"):
        step.fit(np.zeros((1, 10**6), dtype=np.float32))
