"""
====================
Prediction intervals
====================

A predicted wage says more with an interval that holds the true wage. One noisy
histogram of the residuals of held-out records makes such intervals around any model,
for each declared group by itself. The records are made up, so that everything about
them is known.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Wages by age and sector. In sales they vary three times as much as in the office.
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import BudgetLedger, DPConformalRegressor, DPLinearRegression

print("Data: made up.")
SECTORS = ["office", "sales"]


def workers(n, seed):
    """Age and sector, and the wage."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.uniform(18, 67, n)})
    table["sector"] = rng.choice(SECTORS, n)
    spread = np.where(table["sector"] == "sales", 9.0, 3.0)
    wage = 15 + 0.3 * (table["age"] - 18) + spread * rng.normal(size=n)
    return table, wage.clip(0, 100).to_numpy()


X, wage = workers(8000, seed=0)
X_held, wage_held = workers(4000, seed=1)
X_new, wage_new = workers(4000, seed=2)

# %%
# A model, and intervals around it
# --------------------------------
# The model is fitted to 8,000 records, and the histogram counts 4,000 others. Epsilon 1
# for each of the two makes 1.45 together, not 2, because Gaussian noise adds up in
# squares. No record is in both, so each record alone pays for one of them only.
temporary = Path(tempfile.mkdtemp(prefix="skdp-"))
ledger = BudgetLedger(temporary / "wages.db", epsilon=2.0, delta=1e-6)
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
# On average over many releases, the 95 % interval holds 95 % of the wages of each
# sector or a little more; a single release may hold a little less. Other levels follow
# from the same histogram, at no cost. The check is on new records, and not private.
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
        ax.fill_between(
            age,
            low[order],
            high[order],
            alpha=shade,
            color="tab:blue",
            linewidth=0,
            label=f"{level:.0%} interval",
        )
    ax.set_title(sector)
    ax.set_xlabel("age")
axes[0].set_ylabel("wage")
axes[0].legend(loc="upper left")
fig.tight_layout()
folder = Path("demo")
folder.mkdir(exist_ok=True)
fig.savefig(folder / "intervals.png", dpi=150)
print(f"\nPicture: {folder / 'intervals.png'}")
