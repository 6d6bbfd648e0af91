"""Tables of users with several rows, neighbours among them, and fits to both."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import clone

from skdp import DPLogisticRegression
from skdp.audit._exact import replayed, verdict
from skdp.io._external_users import Rows
from skdp.privacy.release._door import audited_by
from tests.io import places
from tests.io.places import FEATURES

N_USERS, MOST = 60, 1024
ROUNDING = 1e-9
GD = {"solver": "noisy_gd", "solver_params": {"n_steps": 4}}
USER = {"privacy_unit": "user", "random_state": 0, "epsilon": 10.0}
MODEL = DPLogisticRegression(classes=[0, 1], **GD, **USER)


def table(seed=0, n_users=N_USERS, most_rows=5, many=()):
    """Rows of users with ids that are numbers and texts; `many` are numbers of rows."""
    rng = np.random.default_rng(seed)
    n_rows = rng.integers(1, most_rows + 1, n_users)
    n_rows[: len(many)] = many
    frame = places.numbers(int(n_rows.sum()), seed)
    of = np.repeat(np.arange(n_users), n_rows)
    frame["id"] = of + 2**53  # of which doubles hold every second
    frame["name"] = [f"Jürgen {u} " for u in of]
    return frame


def shuffled(frame, seed=1):
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))]


def facts_of(frame, **facts):
    return {"groups": "id", "n_samples": frame["id"].nunique(), **facts}


def fitted_here(model, X, y=None, ids=None, **given):
    """A clone after its fit; each step that protects users gets the ids."""
    model, groups = clone(model), {}
    for name, step in getattr(model, "steps", [("", model)]):
        if "privacy_unit" in step.get_params():
            step.set_params(**given)
            groups[f"{name}__groups" if name else "groups"] = ids
    if ids is None:
        return model.fit(X) if y is None else model.fit(X, y)
    return model.fit(X, y, **groups)


def in_memory(model, frame, ids="id"):
    return fitted_here(model, frame[FEATURES], frame["y"], frame[ids])


def released(model):
    return np.concatenate([model.coef_.ravel(), model.intercept_])


def least(frame, names):
    """The rows that count where rows have no order, found otherwise."""
    batch = pa.RecordBatch.from_pandas(frame[names], preserve_index=False)
    digests = Rows(batch, np.ones(len(frame), dtype=bool)).digests()
    order = frame.assign(digest=digests).sort_values("digest", kind="stable")
    return order[order.groupby("id").cumcount() < MOST]


# --------------------------------------------------------------------------- neighbours


def table_of(users, order):
    """Rows of a list for each user; `order` is that of the table."""
    rows = [(u, *x, y) for u, own in enumerate(users) for x, y in own]
    frame = pd.DataFrame(rows, columns=["id", *FEATURES, "y"])
    frame = frame.astype({"id": np.int64, "y": np.int64})
    return frame.iloc[order(len(frame))]


def users_of(rng, n_users=20, most_rows=4):
    users = []
    for _ in range(n_users):
        X = rng.normal(size=(rng.integers(1, most_rows + 1), 3)) / 2
        users.append([(x, int(x[0] > 0)) for x in X])
    return users


ALONG = np.array([0.7, -0.7, 0.7])


def pairs(adjacency):
    """Tables whose first user has other rows: many, few, unreadable, or none."""
    rng = np.random.default_rng(3)
    users = users_of(rng)
    users[0] = [(ALONG, 1)] * 3
    worst, unread = [(ALONG * 1e6, 0)], [(ALONG * math.nan, 1)]
    others = [[], worst * (MOST + 76), worst + unread * 2, users_of(rng)[0]]
    for other in others[:1] if adjacency == "zero_out" else others:
        yield users, [other, *users[1:]]
    yield [worst * (MOST + 76), *users[1:]], [[], *users[1:]]


def at_random(n):
    return np.random.default_rng(5).permutation(n)


def by_file(path, order=at_random, **facts):
    def make(users):
        own = {"groups": "id", "n_samples": len(users), "batch_size": 50, **facts}
        return places.in_files(table_of(users, order), path, **own)

    return make


def by_database(users):
    frame = table_of(users, at_random)
    return places.in_database(frame, groups="id", n_samples=len(users))


def told(make, pair, adjacency, model=MODEL):
    """What a transcript of whole fits tells apart, over what is charged."""
    models = []

    def run(users, noise):
        with audited_by(noise):
            fitted = clone(model).set_params(adjacency=adjacency)
            models.append(fitted.fit(make(users)))
            return models[-1]

    first, second, _ = replayed(run, pair, 0)
    assert released(models[0]).tobytes() == released(models[1]).tobytes()
    records = [fitted.privacy_.to_json() for fitted in models]
    assert records[0] == records[1], "what is public depends on a user"
    return verdict(first, second, models[0].privacy_.event).largest
