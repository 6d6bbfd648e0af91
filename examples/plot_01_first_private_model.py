"""
====================================
A first differentially private model
====================================

Who earns more than 50,000 dollars a year? This example answers with a model that may
be published: epsilon bounds what the model reveals about any one person in the
training data, to anyone, whatever else they know.

The example declares what is public, fits under a budget that a file keeps, shows what
privacy costs in accuracy, and tries to spend more than the budget allows. Noise is
drawn anew in every run, so the numbers differ a little each time.
"""

# %%
# The data
# --------
# The census data "Adult" come from the folder in the environment variable
# ``SKDP_DATA_HOME`` or from OpenML. Without both, scikit-learn's digits take their
# place (is a digit odd?), and the next line of output says so.
from pathlib import Path
from textwrap import fill, indent

import matplotlib

matplotlib.use("Agg")  # draws to a file; no window needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdp import BudgetExceeded, BudgetLedger, DPLogisticRegression
from skdp.datasets import ADULT_BOUNDS, ADULT_CATEGORIES, load_adult

INDENTED = {
    "initial_indent": "   ",
    "subsequent_indent": "   ",
    "break_long_words": False,
    "break_on_hyphens": False,
}
print("1. Loading data (waits at most 20 seconds for OpenML) ...", flush=True)
data = load_adult()
print(f"   {data.source}")
print(f"   {len(data.X_train)} records to train on, {len(data.X_test)} to test.")

# %%
# What is declared
# ----------------
# A model without privacy would learn ranges and categories from the data, and reveal
# them. Here they are declared, from the documentation of the data: a pair of numbers is
# a range, a list of strings the categories. Declarations cost nothing.
if data.name == "adult":
    columns = ADULT_BOUNDS | ADULT_CATEGORIES
else:
    columns = {name: (0, 16) for name in data.X_train}  # grey levels of the scanner

# %%
# The budget
# ----------
# A ledger is a file that caps everything that is fitted to one data set. A fit is
# charged before it reads the data, and is never refunded.
#
# The *adjacency* says which change of a record the noise hides: its exchange for any
# other record (``replace_one``, the default), or for an empty one (``zero_out``, which
# is about half as strict). The example shows both, so it makes two ledgers. In practice
# choose one adjacency, keep one ledger for each data set, and never delete it as this
# example does.
#
# The guarantee may fail with probability *delta*, which must be far below 1/n: 1e-6 for
# up to 20,000 records, 1/n² for more.
ADJACENCIES = ("replace_one", "zero_out")
EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 3
DELTA = min(1e-6, 1 / len(data.X_train) ** 2)

folder = Path("demo")
folder.mkdir(exist_ok=True)
for old in folder.glob("demo_ledger_*.db*"):
    old.unlink()
ledgers = {
    adjacency: BudgetLedger(
        folder / f"demo_ledger_{adjacency}.db",
        epsilon=10.0,
        delta=DELTA,
        adjacency=adjacency,
        dataset=f"{data.name}, {adjacency}",
    )
    for adjacency in ADJACENCIES
}

# %%
# Private fits
# ------------
# Each setting is fitted three times, because a single fit may be lucky. The labels are
# declared as well; without ``classes=`` they would be taken from the data, with a
# warning.
#
# **The accuracies are computed from raw test data. They are not private, and the
# ledgers do not cover them.**


def private_model(epsilon, ledger):
    """The model, not yet fitted; it takes the adjacency of its ledger."""
    return DPLogisticRegression(
        epsilon,
        delta=DELTA,
        adjacency=ledger.adjacency,
        columns=columns,
        classes=[0, 1],
        ledger=ledger,
    )


print(f"\n2. Private models, mean of {REPEATS} fits on each line", flush=True)
print(f"   {'adjacency':<13}{'epsilon':<9}test accuracy")
accuracies = {}
for adjacency, ledger in ledgers.items():
    for epsilon in EPSILONS:
        runs = []
        for _ in range(REPEATS):
            model = private_model(epsilon, ledger).fit(data.X_train, data.y_train)
            runs.append(model.score(data.X_test, data.y_test))
        error = np.std(runs, ddof=1) / np.sqrt(REPEATS)
        accuracies[adjacency, epsilon] = np.mean(runs), error
        print(
            f"   {adjacency:<13}{epsilon:<9g}{np.mean(runs):.4f} +- {error:.4f}",
            flush=True,
        )

# %%
# What privacy costs
# ------------------
# Two references without privacy: scikit-learn's logistic regression after the usual
# preprocessing, and the more frequent label for everyone. The private model may beat
# the first one, because it learns a curve for each number, not a straight line.
print("\n3. Without privacy", flush=True)
if data.name == "adult":
    usual = make_column_transformer(
        (StandardScaler(), list(ADULT_BOUNDS)),
        (OneHotEncoder(handle_unknown="ignore"), list(ADULT_CATEGORIES)),
    )
else:
    usual = StandardScaler()
reference = make_pipeline(usual, LogisticRegression(C=100.0, max_iter=2000))
reference.fit(data.X_train, data.y_train)
label = int(data.y_train.mean() > 0.5)
references = {
    "scikit-learn, not private": reference.score(data.X_test, data.y_test),
    "most frequent label": np.mean(data.y_test == label),
}
for name, accuracy in references.items():
    print(f"   {name:<27}{accuracy:.4f}")
print("   (scikit-learn fits straight lines, the private model curves)")

# %%
# What was promised
# -----------------
# Every fitted model carries the statement that one would sign.
print("\n4. The privacy statement of the last model (the first lines of privacy_)")
print(indent(str(model.privacy_).partition("\nMay be shown")[0], "   "))

# %%
# What was spent
# --------------
# The requested epsilons add up to 13 for each ledger. Gaussian noise adds up to less
# than that: the ledger prints what all fits together cost.
print("\n5. The ledger of replace_one, which adds up all these fits")
ledger = str(ledgers["replace_one"])
print(indent(ledger[ledger.index("total so far") : ledger.index("\ncovers")], "   "))

# %%
# Beyond the cap
# --------------
# This ledger allows 0.5, and the fit asks for 1. The fit is refused before it reads
# anything, and nothing is spent.
print("\n6. A fit that a smaller cap refuses")
small = BudgetLedger(
    folder / "demo_ledger_small.db",
    epsilon=0.5,
    delta=DELTA,
    dataset=f"{data.name}, small",
)
try:
    private_model(1.0, small).fit(data.X_train, data.y_train)
except BudgetExceeded as refusal:
    print(fill(f"BudgetExceeded: {refusal}", 88, **INDENTED))

# %%
# The picture
# -----------
# One line for each adjacency; the references are the same for both.
figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
STYLES = {
    "replace_one": {"color": "#1f5fa8", "marker": "o"},
    "zero_out": {"color": "#d1622b", "marker": "s", "markerfacecolor": "white"},
}
for adjacency, style in STYLES.items():
    cells = [accuracies[adjacency, epsilon] for epsilon in EPSILONS]
    means, errors = zip(*cells, strict=True)
    text = f"private, adjacency={adjacency}"
    axes.errorbar(EPSILONS, means, errors, label=text, capsize=4, **style)
for dash, (name, accuracy) in zip(
    ("dashed", "dotted"), references.items(), strict=True
):
    axes.axhline(accuracy, label=name, color="0.4", linestyle=dash)
axes.set_xscale("log")
axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axes.minorticks_off()
axes.set_xlabel(f"epsilon, logarithmic (delta={DELTA:.1g})")
axes.set_ylabel(f"test accuracy (mean and standard error of {REPEATS} fits)")
axes.set_title(f"{data.name.capitalize()}: what privacy costs a logistic regression")
axes.grid(axis="y", color="0.92")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(loc="center right", framealpha=1)
figure.savefig(folder / "accuracy.png", dpi=150)
print(f"\nPicture: {folder / 'accuracy.png'}")
