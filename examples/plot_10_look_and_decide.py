"""
================
Look, and decide
================

Before they fit a model, people look at the table; afterwards they choose a threshold
and report a ROC curve. Each of these reads private records. This example charges all of
them to ledgers: one for the records that are described and fitted, another one for the
test records.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# Adult (UCI, 1996): does a person earn more than 50,000 dollars a year? From the folder
# in ``SKDP_DATA_HOME`` or from OpenML. Without both, scikit-learn's digits take their
# place (is a digit odd?), and the next line of output says so.
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt

from skdp import (
    BudgetLedger,
    DPLogisticRegression,
    DPTunedThresholdClassifier,
    describe,
    private_evaluation,
)
from skdp.columns import Range
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult

print("Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(data.source)
print(f"{len(data.X_train)} records to train on, {len(data.X_test)} to test.\n")
temporary = Path(tempfile.mkdtemp(prefix="skdp-"))
DELTA = min(1e-6, 1 / len(data.X_train) ** 2)
CAP = {"delta": DELTA, "adjacency": "replace_one"}
training = BudgetLedger(temporary / "a.db", epsilon=2.0, dataset="training", **CAP)
testing = BudgetLedger(temporary / "b.db", epsilon=0.5, dataset="testing", **CAP)

# %%
# A first look
# ------------
# The columns are declared from what is known, and one noisy vector says how the records
# spread over ranges and categories. Every number comes with its noise.
if data.name == "adult":
    # Whole numbers get bars that hold equally many of them.
    numbers = {name: Range(*ends, whole=True) for name, ends in ADULT_BOUNDS.items()}
    declared, crosses = numbers | ADULT_CATEGORIES, [("age", "sex")]
    shown = ["age", "hours-per-week", "relationship"]
else:
    grey = Range(0, 16, whole=True)  # levels of the scanner
    declared = dict.fromkeys(data.X_train, grey)
    crosses, shown = [], list(data.X_train.columns[[20, 28, 42]])
found = describe(
    data.X_train,
    declared,
    epsilon=0.5,
    delta=DELTA / 10,
    crosses=crosses,
    ledger=training,
)
columns = ["mean", "mean_error", "25%", "50%", "75%"]
print(found.to_frame()[columns].dropna().head(6).round(2).to_string(), "\n")
for pair in crosses:
    print(found.crosstab(*pair).round().astype(int).to_string(), "\n")

# %%
# A model and its threshold
# -------------------------
# The model is fitted to four fifths of the records, and the others give one histogram
# of predicted probabilities. No record is in both, so both together cost as much as
# one.
model = DPTunedThresholdClassifier(
    DPLogisticRegression(columns=declared, classes=[0, 1]),
    scoring="f1",
    epsilon=1.0,
    delta=DELTA / 10,
    ledger=training,
).fit(data.X_train, data.y_train)
print(f"threshold {model.best_threshold_:.3f}, F1 there {model.best_score_:.3f}")
print(f"The ledger of the training records\n{training}\n")

# %%
# What may be reported
# --------------------
# Curves, areas and matrices are computed from one more histogram, of the test records,
# which have a separate ledger.
judged = private_evaluation(
    model, data.X_test, data.y_test, epsilon=0.3, ledger=testing, delta=DELTA / 10
)
threshold = model.best_threshold_
print(judged)
print(f"\nF1 at 1/2: {judged.f_score():.3f}, at {threshold:.3f}: ", end="")
print(f"{judged.f_score(threshold):.3f}")

# %%
# The picture
# -----------
folder = Path("demo")
folder.mkdir(exist_ok=True)
figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
found.plot(shown, ax=axes[0])
judged.plot_roc(ax=axes[1, 0])
judged.plot_calibration(ax=axes[1, 1])
judged.confusion_matrix(threshold).plot(ax=axes[1, 2])
figure.savefig(folder / "look.png", dpi=150)
print(f"\nPicture: {folder / 'look.png'}")
