"""
==================
Larger than memory
==================

Private models of a table in Parquet files, which is never in memory as a whole: a
linear model and boosted trees from the files, and the same linear model from DuckDB.
The table is simulated; pass the number of records as an argument.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Rows have norm at most 1, and a linear rule predicts most labels. The files are
# written part by part. ``make demo-large`` writes 300,000 rows of 20 numbers; ``python
# examples/plot_08_larger_than_memory.py 100000000`` needs 12 GB of disk.
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from skdp import (
    DPGradientBoostingClassifier,
    DPLogisticRegression,
    ParquetSource,
    SqlSource,
    private_score,
)
from skdp.columns import Range
from skdp.exceptions import UndeclaredRowsWarning

N = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
N_TEST = 50_000


def timed(what, call):
    """The result of a call; prints its time and memory."""
    start = time.perf_counter()
    result = call()
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = time.perf_counter() - start
    print(f"{what:34} {seconds:7.1f} s   {megabytes:7,.0f} MB at most")
    return result


def write(folder, n_samples, seed):
    """Write files of up to 100,000 rows each."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(20)]
    line = np.cos(np.arange(20)) / 3
    for first in range(0, n_samples, 100_000):
        n = min(100_000, n_samples - first)
        part = pd.DataFrame(rng.uniform(-1, 1, (n, 20)) / 20**0.5, columns=names)
        part["y"] = (part @ line + rng.uniform(-0.05, 0.05, n) > 0).astype("int8")
        path = folder / f"part-{first:012d}.parquet"
        part.astype(dict.fromkeys(names, "float32")).to_parquet(path, index=False)


folder = tempfile.TemporaryDirectory()
train, test = Path(folder.name) / "train", Path(folder.name) / "test"
timed(f"{N:,} rows written", lambda: write(train, N, seed=0))
write(test, N_TEST, seed=1)
size = sum(file.stat().st_size for file in train.iterdir())
print(f"{size / 1e6:,.0f} MB in {len(list(train.iterdir()))} files\n")

# %%
# From files
# ----------
# Thirty steps of the solver are thirty passes. The source states the number of records,
# and the fit checks it. The printed memory includes pages of the files, which the
# system keeps as long as no other program needs the space.
source = ParquetSource(train, target="y", n_samples=N)
unseen = ParquetSource(test, target="y", n_samples=N_TEST)
print(source, "\n")

# These rows are known to have norms of at most 1, so the warning is not needed.
warnings.simplefilter("ignore", UndeclaredRowsWarning)
facts = {"epsilon": 1.0, "delta": 1e-10, "classes": [0, 1]}
linear = DPLogisticRegression(**facts, solver_params={"n_steps": 30}, solver="noisy_gd")
timed("linear model", lambda: linear.fit(source))
trees = DPGradientBoostingClassifier(**facts, columns=Range(-0.25, 0.25))
timed("boosted trees", lambda: trees.fit(source))

# %%
# From a database
# ---------------
# The whole fit is one transaction. Rows that fail ``where`` are null records: they
# count in the number of records and contribute nothing.
study = duckdb.connect()
study.execute(f"CREATE TABLE visits AS SELECT * FROM '{train}/*.parquet'")
visits = SqlSource(study, "visits", target="y", n_samples=N, where="x0 > -0.2")
inside = DPLogisticRegression(**facts, solver_params={"n_steps": 30}, solver="noisy_gd")
timed("linear model, from DuckDB", lambda: inside.fit(visits))

# %%
# Private scores
# --------------
print()
for name, model in (("linear", linear), ("boosted", trees), ("from DuckDB", inside)):
    score = private_score(model, unseen, epsilon=1.0)
    print(f"{name:12} private accuracy on other records: {score.value:.4f}")
print()
print(linear.privacy_)

# %%
# Predictions are written beside the keys of their records.
path = Path(folder.name) / "predictions.parquet"
timed("\npredictions written", lambda: unseen.predict_to(linear, path, keys=["x0"]))
folder.cleanup()
