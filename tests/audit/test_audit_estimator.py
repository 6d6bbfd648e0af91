"""`audit_estimator`: transcripts, models, and what it refuses."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DPGridSearchCV,
    DPLinearRegression,
    DPLinearSVC,
    DPLogisticRegression,
    DPMLPClassifier,
    DPStandardScaler,
)
from skdp._show import Display
from skdp.audit import Claim, audit_estimator
from skdp.audit import _runs as runs_module
from skdp.audit._estimator import SampledVerdict
from skdp.audit._exact import NullRecord, without
from skdp.audit._runs import Runs, gathered, outputs_of
from skdp.audit._statistics import distance, low_bits_differ, noiseless, repeats
from skdp.columns import Range
from skdp.privacy.noise._noise import NoiseSource
from skdp.privacy.release._door import audited_by
from skdp.privacy.release._plan import Bound
from skdp.tables._memory import MemorySource
from skdp.tables._views import EntriesClipped
from tests.planted.records import BareIntercept, NoisySums, SharedNoise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
Y = (X[:, 0] > 0).astype(int)
FEW = {"n_runs": 40}
FACTS = {"delta": 1e-5, "classes": [0, 1]}


def logistic(**given):
    return DPLogisticRegression(1.0, **FACTS | {"solver": "noisy_gd"} | given)


# Transcripts --------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(
    "model",
    [
        logistic(),
        DPLinearSVC(1.0, **FACTS),
        DPLinearRegression(1.0, delta=1e-5, target_bounds=(0, 1), solver="adassp"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_transcript_attains_most_of_the_claim_and_never_more(model, adjacency):
    model = model.set_params(adjacency=adjacency)
    result = audit_estimator(model, X, Y, access="transcript")
    assert result.passed
    assert not result.findings
    assert 0.8 < result.epsilon_lower_bound <= 1.0
    assert result.claimed.adjacency == adjacency
    assert all(found <= paid * 1.001 for found, paid in result.parts.values())


def test_a_transcript_of_pure_noise():
    model = DPStandardScaler(1.0, delta=0.0, bounds=(-1, 1))
    result = audit_estimator(model, X, access="transcript")
    assert result.passed
    assert 0.4 < result.epsilon_lower_bound <= 1 + 1e-9


def test_a_bound_that_forgets_the_second_record_is_refuted(monkeypatch):
    honest = Bound.under
    monkeypatch.setattr(Bound, "under", lambda self, relation: honest(self, "zero_out"))
    result = audit_estimator(logistic(), X, Y, access="transcript")
    assert not result.passed
    assert result.epsilon_lower_bound > 1.0
    assert "refuted" in result.sentence()


def test_noise_that_follows_from_the_data_is_refuted(monkeypatch):
    honest, seen = Bound.under, []

    def under(self, relation):
        seen.append(relation)
        return honest(self, relation) * (1 + 1e-3 * len(seen))

    monkeypatch.setattr(Bound, "under", under)
    result = audit_estimator(logistic(), X, Y, access="transcript")
    assert not result.passed
    assert {x.kind for x in result.findings} == {"transcript"}


class Again(BaseEstimator):
    """Asks twice of one of two data sets."""

    def fit(self, X, y=None):
        for _ in range(1 + (X[0, 0] > 0)):
            DPStandardScaler(1.0, delta=1e-6, bounds=(-1, 1)).fit(X)
        return self


@pytest.mark.parametrize("sign", [-1, 1])
def test_answers_that_only_one_of_two_data_sets_is_asked_refute(sign):
    first = X.copy()
    first[0] = sign * np.abs(X[0])
    other = first.copy()
    other[0] = -first[0]
    given = {"epsilon": 1.0, "delta": 1e-6, "neighbour": (other, None)}
    result = audit_estimator(Again(), first, access="transcript", **given)
    assert not result.passed
    assert "number of answers" in result.findings[0].message


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (DPLinearSVC(1.0, **FACTS, solver="objective_perturbation"), "a cost of its"),
        (logistic(C=1.0, solver_params={"release": "last"}), "hidden answers"),
        (
            logistic(solver="noisy_sgd", solver_params={"batch_size": 10}),
            "secret samples",
        ),
        (DPStandardScaler(1.0, delta=1e-6, bounds=(-1, 1)), "Gaussian|Pure"),
    ],
)
def test_what_has_no_closed_form_is_refused(model, reason):
    if isinstance(model, DPStandardScaler):
        model = make_pipeline(
            DPStandardScaler(1.0, delta=0.0, bounds=(-1, 1)), logistic()
        )
    with pytest.raises(ValueError, match=reason):
        audit_estimator(model, X, Y, access="transcript")


def test_a_transcript_of_what_is_not_ours_is_refused():
    with pytest.raises(ValueError, match="the noise of skdp"):
        audit_estimator(NoisySums(), X, Y, epsilon=1.0, access="transcript")


# Models -------------------------------------------------------------------------------


def test_null_records_and_pipelines():
    result = audit_estimator(logistic(adjacency="zero_out"), X, Y, **FEW)
    assert result.passed
    assert (result.claimed.epsilon, result.claimed.delta) == (1.0, 1e-5)
    assert (result.claimed.source, result.n_runs) == ("privacy_", 40)
    piped = make_pipeline(BoundedScaler((-1, 1)), logistic())
    result = audit_estimator(piped, X, Y, access="transcript")
    assert result.passed
    assert result.claimed.source == "privacy_report"


@pytest.mark.slow
def test_a_search_is_audited_as_a_whole():
    grid = {"C": [0.1, 1.0]}
    plain = DPLogisticRegression(classes=[0, 1], solver="noisy_gd")
    search = DPGridSearchCV(plain, grid, scoring="accuracy", delta=1e-5)
    other = X.copy()
    other[0] = -other[0]
    assert audit_estimator(search, X, Y, neighbour=(other, Y), **FEW).passed


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_declared_columns_and_sparse_rows(adjacency):
    frame = pd.DataFrame(X, columns=list("abcd"))
    columns = dict.fromkeys("abcd", Range(-1, 1))
    model = logistic(columns=columns, solver="auto", adjacency=adjacency)
    for one, rows in (
        (model, frame),
        (logistic(adjacency=adjacency), csr_array(X)),
    ):
        result = audit_estimator(one, rows, Y, access="transcript")
        assert result.passed
        assert result.epsilon_lower_bound > 0


@pytest.mark.slow
def test_several_processes_find_what_one_finds():
    result = audit_estimator(BareIntercept(), X, Y, epsilon=1.0, n_jobs=2, **FEW)
    assert "noiseless" in {x.kind for x in result.findings}


def test_without_a_seed_runs_are_independent():
    class Unseeded(NoisySums):
        def __init__(self, epsilon=1.0, delta=1e-5, data_norm=1.0):
            super().__init__(epsilon, delta, data_norm)
            del self.random_state

        def _generator(self):
            return np.random.default_rng()

    result = audit_estimator(Unseeded(), X, Y, epsilon=1.0, delta=1e-5, **FEW)
    assert result.passed
    assert "one seed" not in result.score
    assert not any("seed" in bound.assumption for bound in result.bounds)


def test_an_early_end_gives_what_there_is(monkeypatch):
    honest, done = runs_module._pair, []

    def interrupted(job, seed):
        done.append(seed)
        if len(done) > 25:
            raise KeyboardInterrupt
        return honest(job, seed)

    monkeypatch.setattr(runs_module, "_pair", interrupted)
    model = BareIntercept()
    result = audit_estimator(model, X, Y, epsilon=1.0, n_runs=200)
    assert result.interrupted
    assert result.n_runs == 50
    assert "interrupted" in repr(result)
    assert result.findings
    with pytest.raises(KeyboardInterrupt):
        audit_estimator(model, X, Y, epsilon=1.0, n_runs=200)


def test_progress_is_told(capsys):
    audit_estimator(NoisySums(), X, Y, epsilon=1.0, verbose=True, **FEW)
    told = capsys.readouterr().out
    assert "20 of 20 fits" in told
    assert "pairs of neighbours" in told


class Swings(BaseEstimator):
    """Noise whose size follows from the data: means are alike."""

    def __init__(self, factor=100.0):
        self.factor = factor

    def fit(self, X, y=None):
        size = 1.0 if X[0, 0] > 0 else self.factor
        self.value_ = size * np.random.default_rng().laplace()
        return self


def test_noise_of_another_size_is_found():
    first, other = X.copy(), X.copy()
    first[0, 0], other[0, 0] = 1.0, -1.0
    given = {"epsilon": 1.0, "neighbour": (other, None), "n_runs": 600}
    result = audit_estimator(Swings(), first, **given)
    assert not result.passed
    assert "by an event" in repr(result)
    assert audit_estimator(Swings(1.0), first, **given).passed


class Shows(BaseEstimator):
    """A text, and a number that is there for one of two data sets only."""

    def fit(self, X, y=None):
        self.noise_ = np.random.default_rng().normal()
        self.choice_ = "left" if X[0, 0] > 0 else "right"
        if X[0, 0] > 0:
            self.found_ = 1.0
        return self


def test_texts_and_attributes_that_are_never_others_refute():
    other = X.copy()
    other[0] = -other[0]
    given = {"epsilon": 1.0, "neighbour": (other, None)}
    result = audit_estimator(Shows(), X, **given, **FEW)
    assert "choice_" in result.findings[0].message
    assert "kind of found_" in result.findings[0].message
    assert result.passed  # of few fits: they may be some of few choices
    result = audit_estimator(Shows(), X, **given, n_runs=600)
    assert not result.passed
    assert result.bounds[0].method == "event"


def test_scores_are_tested_on_other_runs_than_they_are_learned_from():
    """Of 200 numbers that are noise some direction tells any few runs apart."""
    rng = np.random.default_rng(0)
    sides = [tuple(runs_of(rng.normal(size=(40, 200))) for _ in "ab") for _ in "lt"]
    claim = Claim(epsilon=1.0, delta=0.0, adjacency="replace_one", source="as given")
    found = SampledVerdict(
        claim, *sides, n_samples=9, change=None, where="", is_paired=False
    )
    assert all(bound.epsilon == 0 for bound in found.bounds(1e-3))
    twin = SampledVerdict(
        claim, sides[0], sides[0], n_samples=9, change=None, where="", is_paired=False
    )
    assert max(bound.epsilon for bound in twin.bounds(1e-3)) > 1


def test_a_record_is_null_in_audits_of_models(monkeypatch):
    """Its rows are the same on both sides, so that nothing else tells them apart."""
    honest = NoiseSource.gaussian

    def quiet(self, query, *, noise_multiplier, **facts):
        return honest(self, query, noise_multiplier=noise_multiplier / 100, **facts)

    monkeypatch.setattr(NoiseSource, "gaussian", quiet)
    assert not audit_estimator(logistic(adjacency="zero_out"), X, Y, **FEW).passed


def test_networks_are_audited_by_the_weights_of_all_layers():
    model = DPMLPClassifier(1.0, **FACTS, hidden_layer_sizes=(2, 3)).fit(X, Y)
    sizes = {name: x.size for name, x in outputs_of(model, X).numbers.items()}
    assert [sizes[f"coefs_[{i}]"] for i in range(3)] == [4 * 2, 2 * 3, 3]


# Refusals -----------------------------------------------------------------------------


def test_ledgers_and_seeds_are_refused(tmp_path):
    ledger = BudgetLedger(tmp_path / "study.db", epsilon=3.0, delta=1e-4)
    for model in (logistic(ledger=ledger), make_pipeline(logistic(ledger=ledger))):
        # Before the first fit, where the door of the fit would refuse the ledger too.
        with pytest.raises(ValueError, match="What is audited must have no ledger"):
            audit_estimator(model, X, Y)
    assert ledger.spent().epsilon == 0
    with pytest.raises(ValueError, match="fresh noise"):
        audit_estimator(logistic(random_state=0), X, Y)


def test_a_door_with_a_ledger_is_closed_to_an_auditor(tmp_path):
    ledger = BudgetLedger(tmp_path / "study.db", epsilon=3.0, delta=1e-4)
    auditor = NullRecord(0)
    with audited_by(auditor), pytest.raises(ValueError, match="must have no ledger"):
        logistic(ledger=ledger).fit(X, Y)
    assert ledger.spent().epsilon == 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "must be given"),
        ({"delta": 1e-6}, "without 'epsilon'"),
        ({"epsilon": -1.0}, "'epsilon'"),
        ({"epsilon": 1.0, "access": "mind"}, "'access'"),
        ({"epsilon": 1.0, "n_runs": 10}, "'n_runs'"),
        ({"epsilon": 1.0, "confidence": 0.1}, "'confidence'"),
        ({"epsilon": 1.0, "neighbour": (X[1:], Y[1:])}, "shaped like"),
        ({"epsilon": 1.0, "neighbour": 3}, "'neighbour'"),
        ({"epsilon": 1.0, "adjacency": "remove"}, "'adjacency'"),
        ({"epsilon": 1.0, "adjacency": "zero_out"}, "null record"),
    ],
)
def test_bad_parameters(given, reason):
    with pytest.raises(ValueError, match=reason):
        audit_estimator(LogisticRegression(), X, Y, **given)


def test_noise_that_is_not_gaussian_is_judged_by_epsilon_alone():
    # A model of skdp says of what kind its noise is, whoever gives the promise.
    model = DPStandardScaler(1.0, delta=0.0, bounds=(-1, 1))
    result = audit_estimator(model, X, epsilon=1.0, delta=1e-6, **FEW)
    assert not result.claimed.is_gaussian


def test_the_relation_of_a_model_is_its_own():
    given = {"epsilon": 2.0, "delta": 1e-5, "access": "transcript"}
    result = audit_estimator(logistic(adjacency="zero_out"), X, Y, **given)
    assert (result.claimed.adjacency, result.claimed.epsilon) == ("zero_out", 2.0)
    for table in (X[:1], np.arange(3)):
        with pytest.raises(ValueError, match="in memory"):
            audit_estimator(NoisySums(), table, Y, epsilon=1.0)


def test_more_refusals():
    with pytest.raises(ValueError, match="which the model promises"):
        audit_estimator(logistic(), X, Y, adjacency="zero_out")
    with pytest.raises(ValueError, match="finite epsilon"):
        audit_estimator(DPLogisticRegression(math.inf, classes=[0, 1]), X, Y)
    with pytest.raises(TypeError, match="null record"):
        without(object(), 0)


# Parts --------------------------------------------------------------------------------


def runs_of(table):
    names = tuple(f"c{i}" for i in range(table.shape[1]))
    return Runs(names, table, {})


def test_repeats_are_told_from_a_coarse_grid():
    rng = np.random.default_rng(0)
    fine = rng.normal(size=(150, 2))
    assert repeats(runs_of(fine)) == (0, 1.0)
    few = fine[rng.integers(0, 60, size=150)]
    assert repeats(runs_of(few))[1] < 1e-12
    coarse = np.rint(4 * fine[:, :1])
    assert repeats(runs_of(coarse))[1] > 1e-3
    assert repeats(runs_of(fine[:, :0]))[1] == 1.0


def test_low_bits_of_sums_and_of_means():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 150, 1))
    sums = [math.pi, math.e]
    short = [
        runs_of(s + x.astype(np.float32).astype(float))
        for s, x in zip(sums, noise, strict=True)
    ]
    assert low_bits_differ(*short, 77) == ["c0"]
    means = [runs_of(runs.table / 77) for runs in short]
    assert low_bits_differ(*means, 77) == ["c0"]
    sound = [runs_of(s + x) for s, x in zip(sums, noise, strict=True)]
    assert low_bits_differ(*sound, 77) == []
    grid = [runs_of(np.round(s + x, 1)) for s, x in zip(sums, noise, strict=True)]
    assert low_bits_differ(*grid, 77) == []
    on_grid = [
        runs_of(np.rint(2.0**20 * (s + x)) / 2.0**20)
        for s, x in zip(sums, noise, strict=True)
    ]
    assert low_bits_differ(*on_grid, 77) == []


def test_a_combination_without_noise_is_found():
    rng = np.random.default_rng(0)

    def shared(gap):
        noise = rng.normal(size=(100, 1))
        return runs_of(np.hstack([noise, noise + gap, rng.normal(size=(100, 1))]))

    found = noiseless(shared(0.0), shared(0.25))
    assert len(found) == 1
    assert found[0].holds(shared(0.0)).all()
    assert not found[0].holds(shared(0.25)).any()
    assert noiseless(shared(0.5), shared(0.5)) == []


def test_outputs_of_a_pipeline_and_of_all_kinds_of_attributes():
    piped = make_pipeline(BoundedScaler((-1, 1)), logistic()).fit(X, Y)
    shown = outputs_of(piped, X[:3])
    assert shown.numbers["decision_function(X)"].shape == (3,)
    assert any(name.endswith("coef_") for name in shown.numbers)

    class Odd(BaseEstimator):
        def __init__(self):
            self.sparse_ = csr_array(np.eye(2))
            self.parts_ = [LogisticRegression().fit(X, Y)]
            self.table_ = {"a": np.ones(2), "fit_time": 3.0}
            self.name_, self.refit_time_, self._hidden_ = "odd", 1.0, 2.0

    shown = outputs_of(Odd(), X)
    assert shown.numbers["sparse_"].tolist() == [1, 0, 0, 1]
    assert shown.numbers["parts_[0].coef_"].shape == (4,)
    assert shown.numbers["table_['a']"].tolist() == [1, 1]
    assert shown.texts["name_"] == "'odd'"
    assert not any("time" in name or "hidden" in name for name in shown.numbers)


def test_attributes_of_several_lengths_count_by_length_and_sum():
    class Long(BaseEstimator):
        def fit(self, n):
            self.values_ = np.full(n, 2.0)
            return self

    sides = [
        [outputs_of(Long().fit(n), None) for n in lengths] for lengths in ((2, 3),)
    ]
    (runs,) = gathered(sides)
    assert runs.table.tolist() == [[2, 4], [3, 6]]


def test_a_null_record_is_null_through_views():
    rows = MemorySource(X, Y.astype(float), np.arange(len(X)) > 1)
    for source in (rows, EntriesClipped(rows, 0.5)):
        without = source.without(7)
        there = np.concatenate([block.present for block in without.blocks()])
        assert not there[[0, 1, 7]].any()
        assert there.sum() == len(X) - 3
        assert next(iter(source.blocks())).present[7]


# The result ---------------------------------------------------------------------------


def test_json_html_and_pictures():
    results = [
        audit_estimator(logistic(), X, Y, access="transcript"),
        audit_estimator(SharedNoise(), X, Y, epsilon=1.0, **FEW),
    ]
    for result in results:
        told = json.loads(result.to_json())
        assert told["is_private"] is False
        assert told["passed"] == result.passed
        assert result.estimator in result._repr_html_()
        assert "<script" not in result._repr_html_()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for result in results:
        display = result.plot()
        assert isinstance(display, Display)
        assert display.ax_.get_title().startswith("claimed 1")
        plt.close(display.figure_)


def test_several_workers_find_what_one_finds():
    with parallel_config(backend="threading"):
        result = audit_estimator(BareIntercept(), X, Y, epsilon=1.0, n_jobs=2, **FEW)
    assert "noiseless" in {x.kind for x in result.findings}


def test_models_of_a_data_frame_predict_rows_of_it():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = logistic(columns=dict.fromkeys("abcd", Range(-1, 1)))
    result = audit_estimator(model, frame, Y, **FEW)
    assert result.passed
    assert result.n_runs == 40


def test_runs_without_noise_are_as_far_apart_as_their_outputs():
    same, other = runs_of(np.ones((20, 2))), runs_of(np.full((20, 2), 2.0))
    assert distance(same, same, same, same) == 0
    assert distance(same, same, same, other) == math.inf
