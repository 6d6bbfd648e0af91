"""
==============
Several owners
==============

Four hospitals may not pool their tables. Each adds its share of the noise to the sums
over its records, and only the totals over all hospitals can be read. The result is one
private model of all records, with the promise of a pooled fit.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Adult (UCI, 1996): does a person earn more than 50,000 dollars a year? From the folder
# in ``SKDP_DATA_HOME`` or from OpenML. Without both, scikit-learn's digits take their
# place (is a digit odd?), and the next line of output says so. The owners have
# different numbers of records, which are public.
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPLogisticRegression, Federation
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult

print("Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(data.source)
if data.name == "adult":
    columns = ADULT_BOUNDS | ADULT_CATEGORIES
else:
    columns = {name: (0, 16) for name in data.X_train}  # grey levels of the scanner
n = len(data.X_train)
DELTA = min(1e-6, 1 / n**2)
ends = np.cumsum([n // 2, n // 4, n // 8])
places = np.split(np.arange(n), ends)
owners = [(data.X_train.iloc[rows], data.y_train[rows]) for rows in places]
print(f"Records of the owners: {[len(y) for _, y in owners]}.\n")


def accuracy(model):
    """On test records, which are public here: no ledger counts this."""
    return model.score(data.X_test, data.y_test)


def private(init=None):
    """What all of them fit, from a released model or from the beginning."""
    return DPLogisticRegression(
        0.5, delta=DELTA, columns=columns, classes=[0, 1], init=init
    )


# %%
# Each owner by itself
# --------------------
# No record has two owners, so four models, one for each owner, together still promise
# epsilon to every record. Small owners learn little.
alone = [private().fit(*table) for table in owners]
for (_, y), model in zip(owners, alone, strict=True):
    print(f"{len(y):6d} records alone: accuracy {accuracy(model):.3f}")

# %%
# One after another
# -----------------
# The first owner publishes a model, and each other owner continues the model of the
# owner before. Nothing but models changes hands, and every owner pays for its records.
in_turn = None
for X, y in owners:
    in_turn = private(init=in_turn).fit(X, y)
    print(f"{len(y):6d} records more: accuracy {accuracy(in_turn):.3f}")

# %%
# Together
# --------
# With ``n_honest=3`` the promise to the records of any three owners holds against the
# fourth, who knows its share of the noise. So three shares must be enough, and four
# have a third more variance than the noise of a pooled table. This simulation adds up
# in one process what real owners would mask and send; the model is the same.
federation = Federation.simulated(owners, n_honest=3)
together = private().fit(federation)
print(f"\n{n:6d} records together: accuracy {accuracy(together):.3f}")
traffic = federation.traffic
print(f"{traffic.n_rounds} rounds, {traffic.n_bytes / 1e6:.2f} MB in all.\n")
print(together.privacy_.statement())

# %%
# The price of not pooling
# ------------------------
# A fit to one pooled table needs a little less noise.
pooled = private().fit(data.X_train, data.y_train)
print(f"\n{n:6d} records in one table: accuracy {accuracy(pooled):.3f}")

# %%
# The picture
# -----------
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
names = [f"{len(y)} records alone" for _, y in owners]
names += ["all, one after another", "all, together", "all, in one table"]
heights = [accuracy(model) for model in (*alone, in_turn, together, pooled)]
colors = ["0.7"] * len(alone) + ["#8a6d1f", "#1a7f37", "#1f5fa8"]
axes.barh(names, heights, color=colors)
constant = max(np.mean(data.y_test), 1 - np.mean(data.y_test))
axes.axvline(constant, linestyle=":", color="0.3", label="constant")
axes.set(xlim=(min(constant, *heights) - 0.02, None), xlabel="accuracy, epsilon 0.5")
axes.invert_yaxis()
axes.legend()
figure.savefig(folder / "owners.png", dpi=150)
print(f"\nPicture: {folder / 'owners.png'}")
