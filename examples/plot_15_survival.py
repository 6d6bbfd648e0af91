"""
==============================
Survival: two arms of a study
==============================

When does the event happen, and how much later in the new arm? Some patients are lost
before the event. A private survival model answers with a hazard ratio, with curves and
their bands, and with a score on other patients. Patients are made up, so that the truth
is known.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# 12,000 patients with Weibull times. The new arm has half the hazard of the old one.
import tempfile
from pathlib import Path
from textwrap import fill

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import BudgetLedger, DPDiscreteTimeSurvival, private_score

print("Data: made up.")


def patients(n, seed):
    """Patients, and when they had the event or were lost."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.uniform(20, 90, n)})
    X["arm"] = rng.choice(["old", "new"], n)
    risk = 0.03 * (X["age"] - 55) + np.log(2) * (X["arm"] == "old")
    time = (rng.exponential(size=n) / (0.05 * np.exp(risk))) ** (1 / 1.3)
    lost = rng.exponential(12, n)
    return X, pd.DataFrame({"event": time <= lost, "duration": np.minimum(time, lost)})


X, y = patients(8000, seed=0)
X_test, y_test = patients(4000, seed=1)
print(f"{len(X)} patients, of whom {y['event'].mean():.0%} had the event.\n")

# %%
# The model
# ---------
# The columns are declared, and the horizon: the study ends after five years.
temporary = Path(tempfile.mkdtemp(prefix="skdp-"))
ledger = BudgetLedger(temporary / "study.db", epsilon=2.0, delta=1e-6, dataset="study")
model = DPDiscreteTimeSurvival(
    epsilon=1.0,
    delta=1e-7,
    horizon=5.0,
    columns={"age": (18, 100), "arm": ["old", "new"]},
    ledger=ledger,
).fit(X, y)
print(fill(model.privacy_.statement(), 88), "\n")
print(model.life_table_.round(3), "\n")

# %%
# The effect of the arm
# ---------------------
# Effects are logarithms of hazard ratios; the true ratio is 2. The two effects of a
# column of two values are centred, so their noise has opposite signs, and adds up in
# the difference. The interval is of the privacy noise; chance among the patients adds
# a little.
arm = model.effects()["arm"].set_index("value")
ratio = np.exp(arm.loc["old", "effect"] - arm.loc["new", "effect"])
spread = np.exp(2 * arm.loc[["old", "new"], "noise"].sum())
print(
    f"Hazard ratio of the old arm to the new one: {ratio:.2f} "
    f"(95 % of the noise: {ratio / spread:.2f} to {ratio * spread:.2f})\n"
)

# %%
# How good it is
# --------------
# The concordance index is the share of pairs of patients whose order the model knows:
# 1/2 by chance, 1 at best. The Brier score is a mean squared error, 0 at best. Both are
# on other patients, who have a separate ledger.
testing = BudgetLedger(temporary / "test.db", epsilon=2.0, delta=1e-6, dataset="others")
for scoring in ("concordance_index", "neg_integrated_brier_score"):
    score = private_score(
        model, X_test, y_test, scoring=scoring, epsilon=0.5, delta=1e-7, ledger=testing
    )
    print(f"{scoring}: {score.value:.3f} (noise {score.standard_error:.3f})")

# %%
# The picture
# -----------
# Two patients of 70 years, one in each arm, with 95 % bands; and the effects of age and
# arm. Grey bars show how many patients there are of each age.
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
model.plot_survival(pd.DataFrame({"age": [70, 70], "arm": ["old", "new"]}), ax=axes[0])
axes[0].legend(axes[0].lines, ["old arm", "new arm"])
model.plot_effects(ax=axes[1:])
figure.savefig(folder / "survival.png", dpi=150)
print(f"\nPicture: {folder / 'survival.png'}")
