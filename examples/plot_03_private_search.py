"""
===============================
Tune, score, and know the total
===============================

A search for hyper-parameters reads the data again and again, and so does every score.
This example plans the budget of a whole pipeline, searches a grid privately within one
epsilon, compares that with the untuned default and with scikit-learn's plain search
(which is **not** private), and ends with a score that may be published.

Noise is drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# The census data "Adult", or else scikit-learn's digits (is a digit odd?); the next
# line of output says which.
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import (
    BoundedScaler,
    BudgetLedger,
    DeclaredOneHotEncoder,
    DPGridSearchCV,
    DPLogisticRegression,
    RowNormClipper,
    privacy_report,
    private_score,
)
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult
from skdp.exceptions import (
    CloseCandidatesWarning,
    TuningCostWarning,
    UndeclaredRowsWarning,
)

print("Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(data.source)
print(f"{len(data.X_train)} records to train on, {len(data.X_test)} to test.\n")

# %%
# What a pipeline will cost, before anything is read
# --------------------------------------------------
# ``privacy_report`` checks every step. A step that learns from the data while no ledger
# counts it makes the total infinite, and the report says what to use instead.
print(privacy_report(make_pipeline(StandardScaler(), DPLogisticRegression())), "\n")

if data.name == "adult":
    declared = make_column_transformer(
        (BoundedScaler(ADULT_BOUNDS), list(ADULT_BOUNDS)),
        (DeclaredOneHotEncoder(ADULT_CATEGORIES), list(ADULT_CATEGORIES)),
    )
    steps = make_pipeline(declared, RowNormClipper(1.0))
else:
    steps = BoundedScaler(bounds=(0, 16))  # grey levels of the scanner
model = make_pipeline(steps, DPLogisticRegression(classes=[0, 1]))
print(privacy_report(model), "\n")

# %%
# A private search
# ----------------
# One epsilon pays for all fits, all scores, the choice and the final model. The
# statement says how the search chose. There are no folds.
GRID = {"dplogisticregression__C": [0.003, 0.03, 0.3, 3.0, 30.0]}
DELTA = min(1e-6, 1 / len(data.X_train) ** 2)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 3
folder = Path("demo")
folder.mkdir(exist_ok=True)

search = DPGridSearchCV(model, GRID, epsilon=1.0, delta=DELTA)
search.fit(data.X_train, data.y_train)
print(search.report())
search.report().to_html(folder / "search.html")
print(f"The same report as HTML: {folder / 'search.html'}\n")

# %%
# Is a search worth its cost?
# ---------------------------
# This part compares it with the untuned default at the same total epsilon. The defaults
# follow from public facts and are hard to beat; use a search for choices that no rule
# can make.
#
# The plain search of scikit-learn is here for comparison only. Each of its fits is
# private, but the scores by which it chooses are not, so **its result is not private**
# at any epsilon. A ledger shows what its fits alone cost together.
X_train, X_test = steps.fit_transform(data.X_train), steps.transform(data.X_test)
grid = {"C": GRID["dplogisticregression__C"]}


def default(epsilon):
    """The untuned default, with the whole budget."""
    return DPLogisticRegression(epsilon, delta=DELTA, classes=[0, 1])


def private_search(epsilon):
    """A private search, its final model included."""
    tuned = DPLogisticRegression(classes=[0, 1])
    return DPGridSearchCV(tuned, grid, epsilon=epsilon, delta=DELTA)


def plain_search(epsilon):
    """scikit-learn's search. Not private."""
    path = folder / "demo_ledger_plain_search.db"
    path.unlink(missing_ok=True)
    label = f"{data.name}, plain search"
    ledger = BudgetLedger(path, epsilon=1e4, delta=DELTA, dataset=label)
    each = DPLogisticRegression(epsilon, delta=DELTA, classes=[0, 1], ledger=ledger)
    # Stratified folds would let one label move other records between folds.
    return GridSearchCV(each, grid, cv=KFold(3))


METHODS = {
    "untuned default": default,
    "private search": private_search,
    "plain search (NOT private)": plain_search,
}
# Searches warn if their scores are too noisy, or if the best candidate leads by less
# than the noise; fits warn that nothing declares the norm of rows, which were scaled
# above.
warnings.simplefilter("ignore", CloseCandidatesWarning)
warnings.simplefilter("ignore", TuningCostWarning)
warnings.simplefilter("ignore", UndeclaredRowsWarning)
results, cost = {}, {}
for name, make in METHODS.items():
    for epsilon in EPSILONS:
        runs = []
        for _ in range(REPEATS):
            fitted = make(epsilon).fit(X_train, data.y_train)
            runs.append(fitted.score(X_test, data.y_test))
        results[name, epsilon] = np.mean(runs), np.std(runs, ddof=1) / REPEATS**0.5
        if name.startswith("plain"):
            cost[epsilon] = fitted.estimator.ledger.spent().epsilon
    print(f"{name}: {REPEATS * len(EPSILONS)} done", flush=True)
not_private = LogisticRegression(C=100.0, max_iter=2000).fit(X_train, data.y_train)
reference = not_private.score(X_test, data.y_test)

print(f"\nTest accuracy on {data.name}, replace_one, delta={DELTA:.1g}")
print(f"Mean and standard error of {REPEATS} runs")
print(f"  {'total epsilon':<30}" + "".join(f"{e:<17g}" for e in EPSILONS))
for name in METHODS:
    cells = "".join("{:.4f} ±{:.4f}   ".format(*results[name, e]) for e in EPSILONS)
    print(f"  {name:<30}{cells.rstrip()}")
print(f"  {'not private':<30}{reference:.4f}")
costs = "".join(f"{cost[e]:<17.1f}" for e in EPSILONS)
print(f"  {'cost of the plain fits alone':<30}{costs}")
print("These scores read raw test data: they are not private.\n")

# %%
# A score to publish
# ------------------
# The test records are those of other people, so they have a separate budget.
score = private_score(search, data.X_test, data.y_test, epsilon=0.5, delta=0.0)
print(score)

# %%
# The picture
# -----------
STYLES = {
    "untuned default": {"color": "#1f5fa8", "marker": "s"},
    "private search": {"color": "#2f7d4f", "marker": "o"},
    "plain search (NOT private)": {
        "color": "#b42318",
        "marker": "x",
        "linestyle": "dashed",
    },
}
figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
for name, style in STYLES.items():
    means, errors = zip(*(results[name, e] for e in EPSILONS), strict=True)
    axes.errorbar(EPSILONS, means, errors, label=name, capsize=3, **style)
axes.axhline(reference, label="no privacy at all", color="0.4", linestyle=":")
axes.set_xscale("log")
axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axes.minorticks_off()
axes.set_xlabel(f"total epsilon (delta={DELTA:.1g}); for the plain search, of each fit")
axes.set_ylabel(f"test accuracy (mean and standard error of {REPEATS})")
axes.grid(axis="y", color="0.92")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(loc="lower right")
axes.set_title(f"{data.name.capitalize()}: tuning within one budget, replace_one")
figure.savefig(folder / "search.png", dpi=150)
print(f"\nPicture: {folder / 'search.png'}")
