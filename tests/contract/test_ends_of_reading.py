"""After a commit whatever fails while records are read ends in one way, everywhere.

Each family is fitted, scored, searched or described once to count how often it comes to
records after its event is on the books. Then one of these times fails, in every way
that a driver, a library or a full memory can fail. What the user sees must be the same
each time: one class, one text, no error behind it, and what was committed on the books.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skdp import (
    DPPCA,
    BudgetLedger,
    DPCalibratedClassifier,
    DPGradientBoostingClassifier,
    DPGridSearchCV,
    DPKMeans,
    DPLinearRegression,
    DPLogisticRegression,
    DPMatrixFactorization,
    DPMLPClassifier,
    DPQuantileClipper,
    DPSimpleImputer,
    DPSparseLogisticRegression,
    DPStandardScaler,
    DPTunedThresholdClassifier,
    describe,
    private_score,
    propose_ranges,
)
from skdp.decomposition._ratings import RatingSource
from skdp.exceptions import READ_FAILED, SourceError
from skdp.federated import Federation
from skdp.io import ParquetSource
from skdp.io._parts import FrameRows
from skdp.privacy.release import _answers
from skdp.tables._memory import MemorySource
from skdp.tables._source import Block
from tests.federated.owned import divided
from tests.io.places import COLUMNS, FEATURES, in_files, numbers

SECRET = "4242.4242"


class Panic(BaseException):
    """As a library in Rust raises it: no exception."""


def warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn(SECRET, RuntimeWarning, stacklevel=2)


def exhausted():
    next(iter(()))


def raising(error):
    def fail():
        raise error

    return fail


FAILURES = {
    "value": raising(ValueError(SECRET)),
    "system": raising(OSError(5, SECRET)),
    "panic": raising(Panic(SECRET)),
    "stop": exhausted,
    "warning": warned,
}


class Trap:
    """Counts how often records are reached after a commit; one of these times fails."""

    def __init__(self, monkeypatch):
        self.is_set, self.n_reached, self.at, self.fail = False, 0, None, None
        commit = BudgetLedger.commit

        def committed(books, *given, **named):
            found = commit(books, *given, **named)
            self.is_set = True
            return found

        monkeypatch.setattr(BudgetLedger, "commit", committed)
        self._at_each(monkeypatch, MemorySource, "blocks")
        self._at_each(monkeypatch, MemorySource, "whole")
        self._at_each(monkeypatch, Block, "__init__")
        self._at_each(monkeypatch, ParquetSource, "_scan")
        self._at_each(monkeypatch, FrameRows, "batches")

        def attribute(source, name):
            if name == "ratings":
                self.reached()
            return object.__getattribute__(source, name)

        monkeypatch.setattr(RatingSource, "__getattribute__", attribute)

    def _at_each(self, monkeypatch, kind, name):
        before = getattr(kind, name)

        def reached(*given, **named):
            self.reached()
            return before(*given, **named)

        monkeypatch.setattr(kind, name, reached)

    def reached(self):
        if not self.is_set:
            return
        self.n_reached += 1
        if self.n_reached == self.at:
            self.fail()

    def anew(self, at=None, fail=None):
        self.is_set, self.n_reached, self.at, self.fail = False, 0, at, fail


@pytest.fixture
def trap(monkeypatch):
    return Trap(monkeypatch)


# ---------------------------------------------------------------------- who reads what

FRAME = numbers(120)
X, Y, T = FRAME[FEATURES].to_numpy(), FRAME["y"].to_numpy(), FRAME["t"].to_numpy()
PAIRS = np.column_stack(np.divmod(np.arange(60), 6))
STEPS = {"n_steps": 3}


def linear(solver="noisy_gd", **params):
    return DPLogisticRegression(
        classes=[0, 1], solver=solver, solver_params=params or None
    )


def fitted(model, y=Y):
    def fit(books):
        clone(model).set_params(ledger=books).fit(X, y)

    return fit


def rated(**given):
    def fit(books):
        model = DPMatrixFactorization(rating_bounds=(1, 5), ledger=books, **given)
        model.fit(PAIRS, 3 + np.sin(np.arange(60.0)))

    return fit


def streamed(books):
    model = linear("ftrl", n_parts=2).set_params(ledger=books)
    model.partial_fit(X, Y)
    model.partial_fit(X, Y)


MODEL = linear(**STEPS).fit(X, Y)
NAMED = DPLogisticRegression(
    classes=[0, 1], columns=COLUMNS, solver="noisy_gd", solver_params=STEPS
)
SEARCH = {"estimator": linear(**STEPS), "param_grid": {"C": [0.1, 1.0]}}
IN_MEMORY = {
    "noisy_gd": fitted(linear(**STEPS)),
    "columns": fitted(DPLogisticRegression(classes=[0, 1], columns=[(-2, 2)] * 3)),
    "noisy_sgd": fitted(linear("noisy_sgd")),
    "noisy_newton": fitted(linear("noisy_newton")),
    "objective": fitted(linear("objective_perturbation")),
    "output": fitted(linear("output_perturbation")),
    "bolt_on": fitted(linear("bolt_on", n_passes=1, batch_size=40)),
    "online": fitted(linear("online")),
    "adassp": fitted(DPLinearRegression(target_bounds=(0, 1), solver="adassp"), T),
    "sparse": fitted(DPSparseLogisticRegression(classes=[0, 1])),
    "network": fitted(DPMLPClassifier(classes=[0, 1], hidden_layer_sizes=(2,))),
    "boosted": fitted(
        DPGradientBoostingClassifier(
            classes=[0, 1], columns=[(-2, 2)] * 3, n_estimators=2
        )
    ),
    "rating values": rated(privacy_unit="rating_value", epsilon=1.0),
    "stream": streamed,
    "scaler": fitted(DPStandardScaler(bounds=(-2, 2))),
    "imputer": fitted(DPSimpleImputer(bounds=(-2, 2))),
    "clipper": fitted(DPQuantileClipper(bounds=(-2, 2))),
    "pca": fitted(DPPCA(n_components=2)),
    "clusters": fitted(DPKMeans(n_clusters=2, bounds=(-2, 2))),
    "search": fitted(DPGridSearchCV(**SEARCH, method="composition")),
    "threshold": fitted(DPTunedThresholdClassifier(linear(**STEPS))),
    "calibrated": fitted(DPCalibratedClassifier(linear(**STEPS))),
    "describe": lambda books: describe(
        FRAME[FEATURES], COLUMNS, epsilon=1.0, ledger=books
    ),
    "owners": lambda books: (
        linear(**STEPS)
        .set_params(ledger=books)
        .fit(Federation.simulated(divided(FRAME, (40, 80))))
    ),
}
BOOSTED = DPGradientBoostingClassifier(classes=[0, 1], columns=COLUMNS, n_estimators=2)
OF_A_SOURCE = {
    "noisy_gd": lambda books, source: (
        linear(**STEPS).set_params(ledger=books).fit(source)
    ),
    "columns": lambda books, source: clone(NAMED).set_params(ledger=books).fit(source),
    "boosted": lambda books, source: (
        clone(BOOSTED).set_params(ledger=books).fit(source)
    ),
    "scaler": lambda books, source: DPStandardScaler(bounds=(-2, 2), ledger=books).fit(
        source
    ),
    "score": lambda books, source: private_score(
        MODEL, source, epsilon=1.0, ledger=books
    ),
    "search": lambda books, source: DPGridSearchCV(
        **SEARCH, method="composition", ledger=books
    ).fit(source),
    "describe": lambda books, source: describe(
        source, COLUMNS, epsilon=1.0, ledger=books
    ),
    "propose_ranges": lambda books, source: propose_ranges(source, ledger=books),
}


def ended(run, folder, name):
    """How a run ends, and how much is on the books then."""
    folder.mkdir()
    is_rating = name == "rating values"
    unit = {"unit": "rating", "adjacency": "rating_value"} if is_rating else {}
    books = BudgetLedger(folder / "books.db", epsilon=50.0, delta=1e-3, **unit)
    error = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(books)
    except BaseException as found:
        error = found
    return error, len(books.spends())


def check_ends(name, run, trap, tmp_path):
    error, _ = ended(run, tmp_path / "whole", name)
    n_reached = trap.n_reached
    assert error is None
    assert n_reached > 0
    ends = set()
    for number, (failure, fail) in enumerate(FAILURES.items()):
        at = 1 if number % 2 else n_reached
        trap.anew(at, fail)
        error, n_spends = ended(run, tmp_path / failure, name)
        # Random numbers of steps may end before the last time of the first run.
        if trap.n_reached < at:
            continue
        assert type(error) is SourceError, (failure, error)
        assert error.args == (READ_FAILED,)
        assert error.__cause__ is None
        assert error.__context__ is None
        ends.add((at, n_spends))
    assert all(n_spends > 0 for _, n_spends in ends)
    assert len({at for at, _ in ends}) == len(ends)  # one end for each time


@pytest.mark.parametrize("name", IN_MEMORY)
def test_one_end_in_memory(name, trap, tmp_path):
    check_ends(name, IN_MEMORY[name], trap, tmp_path)


@pytest.mark.parametrize("name", OF_A_SOURCE)
def test_one_end_of_a_source(name, trap, tmp_path):
    def run(books):
        source = in_files(FRAME, tmp_path / f"files{len(list(tmp_path.iterdir()))}")
        OF_A_SOURCE[name](books, source)

    check_ends(name, run, trap, tmp_path)


@pytest.mark.parametrize("name", ["noisy_gd", "columns", "rating values"])
def test_broken_twin_that_passes_errors_on_is_found(name, tmp_path, monkeypatch):
    monkeypatch.setattr(_answers, "answered", lambda ask: ask())
    with pytest.raises(AssertionError):
        check_ends(name, IN_MEMORY[name], Trap(monkeypatch), tmp_path)
