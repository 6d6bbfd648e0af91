"""
====================
Prediction intervals
====================

A prediction of a wage is of more use with an interval that holds the wage. One noisy
histogram of the residuals of held-out records makes such intervals around any model,
for each declared group by itself. The records are made up, so that everything about
them is known.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Wages by age and sector. In the second sector they differ three times as much.
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import BudgetLedger, DPConformalRegressor, DPLinearRegression

print("Data: made up.")
SECTORS = ["public", "private"]


def workers(n, seed):
    """Age and sector, and the wage."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.uniform(18, 67, n)})
    table["sector"] = rng.choice(SECTORS, n)
    spread = np.where(table["sector"] == "private", 9.0, 3.0)
    wage = 15 + 0.3 * (table["age"] - 18) + spread * rng.normal(size=n)
    return table, wage.clip(0, 100).to_numpy()


X, wage = workers(8000, seed=0)
X_held, wage_held = workers(4000, seed=1)
X_new, wage_new = workers(4000, seed=2)

# %%
# A model, and intervals around it
# --------------------------------
# No record is in both parts. With one ledger for both the costs of the two releases add
# up in squares, and each record pays for one of them only.
books = Path(tempfile.mkdtemp(prefix="skdp-"))
ledger = BudgetLedger(books / "wages.db", epsilon=2.0, delta=1e-6)
model = DPLinearRegression(
    epsilon=1.0,
    columns={"age": (18, 67), "sector": SECTORS},
    target_bounds=(0, 100),
    ledger=ledger,
).fit(X, wage)
intervals = DPConformalRegressor(
    model, epsilon=1.0, split_by={"sector": SECTORS}, ledger=ledger
).fit(X_held, wage_held)
for sector, half in zip(SECTORS, intervals.quantile_, strict=True):
    print(f"{sector}: the prediction plus or minus {half:.1f}")
print(f"Spent: epsilon {ledger.spent().epsilon:.2f}.\n")

# %%
# What they hold
# --------------
# The promise is about the mean over many releases: 95 percent or a little more in each
# sector. One release has a little more or less. Other levels follow from the same
# histogram, at no cost.
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for sector, ax in zip(SECTORS, axes, strict=True):
    rows = (X_new["sector"] == sector).to_numpy()
    order = np.argsort(X_new["age"].to_numpy()[rows])
    age = X_new["age"].to_numpy()[rows][order]
    ax.plot(age, wage_new[rows][order], ".", markersize=2, color="grey")
    for level, shade in ((0.95, 0.2), (0.5, 0.4)):
        low, high = intervals.predict_interval(X_new[rows], level).T
        held = np.mean((low <= wage_new[rows]) & (wage_new[rows] <= high))
        print(f"{sector}: {held:.1%} of the wages are in the {level:.0%} interval")
        ax.fill_between(age, low[order], high[order], alpha=shade, color="tab:blue")
    ax.set_title(sector)
    ax.set_xlabel("age")
axes[0].set_ylabel("wage")
fig.tight_layout()
fig.savefig(books / "intervals.png")
print(f"Picture: {books / 'intervals.png'}")
