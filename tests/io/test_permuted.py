"""bolt_on over a database: the same order in all passes, by ids, on one thread."""

from __future__ import annotations

import hashlib

import duckdb
import numpy as np
import pytest

from skdp._fit import Progress
from skdp.io import SqlSource
from skdp.io._duckdb import DuckDB
from skdp.io._reading import Labels, NumberTargets
from skdp.io._rows import StreamRows
from skdp.losses import HuberHingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from skdp.losses._objective import LinearObjective
from skdp.tables._memory import MemorySource
from tests.io.places import FEATURES, numbers, with_holes
from tests.papers.permutation import resolved
from tests.spies import NoNoise

N = 211  # no multiple of a batch
KEY = "".join(f"{word:08x}" for word in range(4))


def table_of(frame, kind="BIGINT PRIMARY KEY", threads=2):
    """A connection to a database with `records` that have ids, in another order."""
    connection = duckdb.connect(config={"threads": threads})
    own = ", ".join(f"{name} DOUBLE" for name in [*FEATURES, "t"])
    connection.execute(f"CREATE TABLE records (key {kind}, {own}, y INTEGER)")
    connection.register("given", frame.sample(frac=1.0, random_state=1))
    connection.execute(
        f"INSERT INTO records SELECT key, {', '.join([*FEATURES, 't'])}, y FROM given"
    )
    connection.unregister("given")
    return connection


def source_of(frame, *, batch_size=50, target="y", **facts):
    given = {"n_samples": len(frame), "features": FEATURES, "record_id": "key"}
    given |= facts
    return SqlSource(
        table_of(frame), "records", target=target, batch_size=batch_size, **given
    )


def stream_of(source, targets=None):
    rows = StreamRows(source, source.reading(), lambda found: found, len(FEATURES))
    return rows.with_targets(targets or Labels(np.array([0, 1])))


def order_of(frame, key=KEY):
    """Where the records stand by the digests of their ids, found in Python."""
    digests = [hashlib.md5(f"{key}{i}".encode()).hexdigest() for i in frame["key"]]
    return np.argsort(np.array(digests))


class Orders(NoNoise):
    """The same orders for memory and databases, however often they are drawn."""

    def __init__(self, frame):
        self._frame, self.drawn = frame, 0

    def _next_key(self):
        self.drawn += 1
        return np.arange(4) + 4 * (self.drawn - 1)

    def integers(self, n, size):
        assert (n, size) == (1 << 32, 4)
        return self._next_key()

    def permutation(self, n):
        key = "".join(f"{word:08x}" for word in self._next_key())
        return order_of(self._frame, key)


LOSSES = {
    "logistic": LogisticLoss(),
    "hinge": HuberHingeLoss(),
    "softmax": SoftmaxLoss(3),
    "squared": SquaredLoss(residual_bound=0.7, target_bound=2.0),
}


def objective_of(loss=LOSSES["logistic"], **facts):
    given = {"n_samples": N, "n_features": len(FEATURES), "data_norm": 0.4}
    given |= {"adjacency": "replace_one", "alpha": 0.01} | facts
    return LinearObjective(loss=loss, **given)


def weights(source, objective, orders, **params):
    params = {"n_passes": 3, "step_size": 0.5, "schedule": "sqrt"} | params
    solver = resolved(objective, **params)
    descent = solver.descent(objective, Progress())
    return next(descent.within(source, orders))


def in_both(frame, objective, targets=None, facts=None, present=None, **params):
    """Weights from memory, and from the database."""
    target = "t" if isinstance(targets, NumberTargets) else "y"
    X = frame[FEATURES].to_numpy()
    y = frame[target].to_numpy().astype(float)
    if present is not None:
        X = np.where(present[:, None], X, 0.0)
    memory = weights(MemorySource(X, y, present), objective, Orders(frame), **params)
    source = source_of(frame, target=target, **(facts or {}))
    stream = stream_of(source, targets)
    there = source.during(lambda: weights(stream, objective, Orders(frame), **params))
    return memory, there


# Same order, same weights --------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "batch_size"),
    [("logistic", 1), ("hinge", 60), ("softmax", 7), ("squared", 7)],
)
def test_weights_are_those_of_memory(loss, batch_size):
    frame = numbers(N)
    targets = NumberTargets() if loss == "squared" else None
    if loss == "softmax":
        frame["y"] = np.arange(N) % 3
        targets = Labels(np.array([0, 1, 2]))
    objective = objective_of(LOSSES[loss])
    memory, there = in_both(frame, objective, targets, batch_size=batch_size)
    assert np.linalg.norm(memory) > 0.01
    assert np.abs(memory - there).max() <= 1e-12 * np.abs(memory).max()


@pytest.mark.parametrize(
    "params",
    [{"reshuffle": True}, {"average": "uniform", "radius": 0.2}],
    ids=str,
)
def test_weights_are_those_of_memory_whatever_the_parameters(params):
    memory, there = in_both(numbers(N), objective_of(), batch_size=10, **params)
    assert np.abs(memory - there).max() <= 1e-12 * np.abs(memory).max()


def test_null_records_keep_their_places():
    frame, bad = with_holes(N)
    frame.loc[3, FEATURES[0]] = 9.0
    fails = frame["b"].to_numpy() > 0.5
    facts = {"where": "b <= 0.5 OR b IS NULL OR isnan(b) OR isinf(b)"}
    present = ~(bad | fails)
    memory, there = in_both(
        frame, objective_of(), facts=facts, present=present, batch_size=7
    )
    assert np.abs(memory - there).max() <= 1e-12 * np.abs(memory).max()
    # The broken twin closes the gaps: other batches, other weights.
    kept = frame[present].reset_index(drop=True)
    closed, _ = in_both(kept, objective_of(n_samples=len(kept)), batch_size=7)
    assert np.abs(memory - closed).max() > 1e-6


# One order -----------------------------------------------------------------------


def test_all_passes_ask_the_same(monkeypatch):
    asked, batches = [], DuckDB.batches
    monkeypatch.setattr(
        DuckDB,
        "batches",
        lambda self, query, size: asked.append(query) or batches(self, query, size),
    )
    source = source_of(numbers(N))
    orders = Orders(numbers(N))
    source.during(lambda: weights(stream_of(source), objective_of(), orders))
    assert len(asked) == 3
    assert len(set(asked)) == 1
    assert f"ORDER BY md5('{KEY}'" in asked[0]
    assert "random" not in asked[0]


# Ids -----------------------------------------------------------------------------

IDS = {
    "no constraint": "BIGINT",
    "unique, perhaps missing": "BIGINT UNIQUE",
    "not missing, perhaps twice": "BIGINT NOT NULL",
    "a double": "DOUBLE PRIMARY KEY",
}


@pytest.mark.parametrize("kind", IDS.values(), ids=IDS)
def test_other_columns_are_no_ids(kind):
    connection = table_of(numbers(N), kind)
    with pytest.raises(ValueError, match="PRIMARY KEY, or UNIQUE and NOT NULL"):
        SqlSource(connection, "records", target="y", n_samples=N, record_id="key")


def test_ids_of_several_columns_and_of_queries_are_refused():
    connection = table_of(numbers(N))
    connection.execute(
        "CREATE TABLE pairs (key INTEGER, a DOUBLE, PRIMARY KEY (key, a))"
    )
    connection.execute("CREATE VIEW seen AS SELECT * FROM records")
    for table in ("pairs", "seen", "SELECT * FROM records"):
        with pytest.raises(ValueError, match="'record_id' argument must name"):
            SqlSource(
                connection,
                table,
                target=None,
                n_samples=N,
                record_id="key",
                one_record_per_row=True,
            )


@pytest.mark.parametrize("facts", [{"target": "key"}, {"features": ["a", "key"]}])
def test_an_id_is_neither_target_nor_feature(facts):
    with pytest.raises(ValueError, match="neither the target nor a feature"):
        source_of(numbers(N), **facts)
